import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, it, vi } from "vitest";
import { Engine } from "../../src/anneal.js";

let home: string;
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), "engine-test-"));
});
afterEach(() => rmSync(home, { recursive: true, force: true }));

it("is shared by copies of the module", async () => {
  const first = await Engine.open({ home });
  vi.resetModules();
  const copy = (await import("../../src/anneal.js")).Engine;
  expect(copy).not.toBe(Engine);
  expect(await copy.open({ home })).toBe(first);
  await first.close();
  await first.close();
  expect(existsSync(join(home, "lock.json"))).toBe(false);
});

it("throws errors that are those of every copy, by their classes", async () => {
  const own = await import("../../src/index.js");
  vi.resetModules();
  const copy = await import("../../src/index.js");
  class Derived extends copy.ConflictError {}
  const locked: unknown = new own.HomeLockedError("home", 1, null);
  const kinds = Object.entries(copy).filter(
    ([, value]) => typeof value === "function" && value.prototype instanceof Error,
  );
  expect(kinds.length).toBeGreaterThan(15);
  const taken = kinds.filter(([, kind]) => locked instanceof (kind as typeof copy.AnnealError)).map(([name]) => name);
  expect(taken.sort()).toEqual(["AnnealError", "ConflictError", "HomeLockedError"]);
  expect(new own.RolloutError(1, 1, null)).toBeInstanceOf(copy.RolloutError);
  expect(locked).not.toBeInstanceOf(Derived);
  expect(new Derived("taken")).toBeInstanceOf(Derived);
  expect(new Derived("taken")).toBeInstanceOf(own.ConflictError);
  for (const value of [null, undefined, "text", new Error("other")]) expect(value).not.toBeInstanceOf(copy.AnnealError);
  // All of them, also those that are added later.
  for (const [name, kind] of kinds) {
    const instance: unknown = Object.create((own[name as keyof typeof own] as typeof copy.AnnealError).prototype);
    expect(instance, name).toBeInstanceOf(kind);
  }
});
