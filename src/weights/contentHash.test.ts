import { createHash } from "node:crypto";
import { appendFileSync, mkdtempSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { contentHash } from "./contentHash.js";

const MIB = 2 ** 20;

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "anneal-content-"));
});
afterEach(() => rmSync(folder, { recursive: true }));

function written(name: string, bytes: number): { file: string; data: Buffer } {
  const data = Buffer.alloc(bytes);
  for (let i = 0; i < bytes; i += 4) data.writeUInt32LE((i * 2654435761 + bytes) % 2 ** 32, i);
  const file = join(folder, name);
  writeFileSync(file, data);
  return { file, data };
}

describe("contentHash", () => {
  it("is that of texts and parts of files in their order, across blocks and back", async () => {
    const a = written("a", 5 * MIB + 12);
    const b = written("b", 8 * MIB);
    const parts = [
      { text: "first", ...a, offset: 12, bytes: 3 * MIB },
      { text: "", ...b, offset: 7 * MIB + 4, bytes: MIB - 4 },
      { text: "none", ...b, offset: MIB, bytes: 0 },
      { text: "back", ...b, offset: MIB - 4, bytes: 8 },
      { text: "", ...a, offset: 5 * MIB, bytes: 12 },
      { text: "all", ...b, offset: 0, bytes: 8 * MIB },
    ];
    const hash = createHash("sha256");
    for (const { text, data, offset, bytes } of parts) hash.update(text).update(data.subarray(offset, offset + bytes));
    const expected = hash.digest("hex");
    const content = contentHash(parts);
    expect(await content.hash()).toBe(expected);
    expect(await content.hashAtLeisure(new AbortController().signal)).toBe(expected);
  });

  it("leaves off when it is aborted", async () => {
    const content = contentHash([{ text: "", ...written("a", 64 * MIB), offset: 0, bytes: 64 * MIB }]);
    const controller = new AbortController();
    const hashing = content.hashAtLeisure(controller.signal);
    controller.abort();
    await expect(hashing).rejects.toMatchObject({ name: "AbortError" });
  });

  it("names the file that ends too early, or is missing", async () => {
    const { file } = written("a", 4 * MIB);
    const part = { text: "", file, offset: MIB, bytes: 3 * MIB, name: "weights" };
    truncateSync(file, 3 * MIB);
    const failure = { name: "ModelFileError", file };
    await expect(contentHash([part]).hash()).rejects.toMatchObject({ ...failure, param: "weights" });
    rmSync(file);
    await expect(contentHash([part, part]).hash()).rejects.toMatchObject(failure);
  });

  it("has a stamp once its files have settled, and another when one of them, or what is hashed of it, is another", async () => {
    const a = written("a", 100);
    const b = written("b", 100);
    const part = { text: "", offset: 0, bytes: 100 };
    const parts = [
      { ...part, file: a.file },
      { ...part, file: b.file },
    ];
    const stamp = () => contentHash(parts).stamp();
    expect(await stamp()).toBeNull();
    await sleep(2100);
    const settled = await stamp();
    expect(settled).toMatch(/^[0-9a-f]{64}$/);
    expect(await stamp()).toBe(settled);
    expect(await contentHash(parts.slice(1)).stamp()).not.toBe(settled);
    appendFileSync(b.file, "x");
    expect(await stamp()).toBeNull();
    await sleep(2100);
    expect(await stamp()).not.toBe(settled);
    rmSync(a.file);
    expect(await stamp()).toBeNull();
  });
});
