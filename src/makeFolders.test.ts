import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { makeFolders, makePartOf } from "./makeFolders.js";

const folder = mkdtempSync(join(tmpdir(), "make-folders-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

it("makes what is missing, and tells what that was", () => {
  const [outer, inner] = [join(folder, "a"), join(folder, "a", "b")];
  expect(makeFolders(inner, 0o700)).toEqual([outer, inner]);
  expect(statSync(outer).mode & 0o777).toBe(0o700);
  expect(makeFolders(inner)).toEqual([]);
});

it("throws below a file", () => {
  const file = join(folder, "file");
  writeFileSync(file, "");
  expect(() => makeFolders(join(file, "a", "b"))).toThrow(/ENOTDIR/);
});

it.runIf(existsSync("/proc/self"))("returns where a file system takes no new names", () => {
  expect(() => makeFolders("/proc/nowhere/a")).toThrow(/ENOENT/);
});

it("removes beside a folder to be made what ended processes left of theirs, and nothing else", () => {
  const target = join(folder, "target");
  const { pid } = spawnSync(process.execPath, ["--version"]);
  const mine = makePartOf("target", target, 0o700);
  const others = [`${target}.notes.part`, `${target}.${pid}.part`, mine.replace("target.", "target2.")];
  for (const other of others) mkdirSync(other);
  const abandoned = mine.replace(`.${process.pid}.`, `.${pid}.`);
  mkdirSync(abandoned);
  writeFileSync(join(abandoned, "file"), "text");
  const next = makePartOf("target", target);
  expect([mine, next, abandoned, ...others].map(existsSync)).toEqual([true, true, false, true, true, true]);
  expect([next === mine, statSync(mine).mode & 0o777]).toEqual([false, 0o700]);
});
