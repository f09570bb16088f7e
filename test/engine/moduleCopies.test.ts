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
