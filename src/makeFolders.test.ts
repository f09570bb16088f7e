import { existsSync, mkdtempSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { makeFolders } from "./makeFolders.js";

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
