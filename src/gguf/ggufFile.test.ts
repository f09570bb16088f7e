import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { type GgufParts, ggufBytes } from "../../test/fixtures/ggufBytes.js";
import { ModelFileError } from "../errors.js";
import { readGguf } from "./ggufFile.js";

const folder = mkdtempSync(join(tmpdir(), "anneal-gguf-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

function written(bytes: Uint8Array, name = "model.gguf"): string {
  const file = join(folder, name);
  writeFileSync(file, bytes);
  return file;
}

const F32 = 0;
const Q8_0 = 8;
const two = [
  { name: "a", dimensions: [64, 2], type: Q8_0, offset: 0 },
  { name: "b", dimensions: [8], type: F32, offset: 160 },
];
const whole: GgufParts = {
  metadata: {
    "general.architecture": { string: "llama" },
    "llama.block_count": { uint32: 3 },
    "llama.eps": { float32: 0.5 },
    "tokenizer.ggml.add_bos_token": { boolean: true },
    "tokenizer.ggml.tokens": { array: "string", values: ["a", "é", ""] },
    "tokenizer.ggml.token_type": { array: "int32", values: [1, -3, 6] },
  },
  tensors: two,
  bytes: 192,
};

it("reads values, and where tensors lie", async () => {
  const file = written(ggufBytes(whole));
  const { metadata, tensors } = await readGguf(file);
  expect(Object.fromEntries(metadata)).toEqual({
    "general.architecture": "llama",
    "llama.block_count": 3,
    "llama.eps": 0.5,
    "tokenizer.ggml.add_bos_token": true,
    "tokenizer.ggml.tokens": ["a", "é", ""],
    "tokenizer.ggml.token_type": [1, -3, 6],
  });
  const start = readFileSync(file).length - 192;
  expect(Object.fromEntries(tensors)).toEqual({
    a: { file, type: "Q8_0", shape: [2, 64], offset: start, bytes: 136 },
    b: { file, type: "F32", shape: [8], offset: start + 160, bytes: 32 },
  });
});

it("reads a header that is longer than the first piece", async () => {
  const values = Array.from({ length: 100_000 }, (_, i) => `token ${i}`);
  const { metadata } = await readGguf(written(ggufBytes({ metadata: { list: { array: "string", values } } })));
  expect(metadata.get("list")).toEqual(values);
});

it("refuses a file that is cut off anywhere", async () => {
  const bytes = ggufBytes(whole);
  for (let length = 0; length < bytes.length; length += length < 700 ? 1 : 16) {
    await expect(readGguf(written(bytes.subarray(0, length)))).rejects.toBeInstanceOf(ModelFileError);
  }
});

it("survives every single wrong byte of a header", async () => {
  const bytes = ggufBytes(whole);
  for (let at = 0; at < bytes.length - 192; at++) {
    for (const change of [1, 0x80, 0xff]) {
      const wrong = Buffer.from(bytes);
      wrong[at]! ^= change;
      await readGguf(written(wrong)).catch((error) => expect(error).toBeInstanceOf(ModelFileError));
    }
  }
});

const tensor = (change: object) => ({ ...whole, tensors: [{ ...two[0]!, ...change }, two[1]!] });

it.each<[string, GgufParts, RegExp]>([
  ["another version", { ...whole, version: 1 }, /version 1; 2 and 3/],
  ["big-endian", { ...whole, version: 0x03000000 }, /big-endian/],
  ["more keys than there are", { ...whole, keyCount: 60_000n }, /ends inside|unknown type|characters|has .* bytes/],
  ["an absurd number of keys", { ...whole, keyCount: 2n ** 60n }, /keys, more than/],
  ["an absurd number of tensors", { ...whole, tensorCount: 2n ** 63n }, /tensors, more than/],
  ["tensors that overlap", { ...tensor({ dimensions: [64, 3] }), bytes: 256 }, /b overlaps a/],
  ["a tensor past the end", tensor({ offset: 12_288 }), /a reaches to byte .* cut off/],
  ["a tensor off its alignment", tensor({ offset: 8 }), /a begins at 8, no multiple of 32/],
  ["a tensor twice", tensor({ name: "b" }), /b stands in the table twice/],
  ["rows of parts of blocks", tensor({ dimensions: [48, 2] }), /rows of 48, which are not whole blocks of Q8_0/],
  ["an empty tensor", tensor({ dimensions: [64, 0] }), /shape \[0,64\]/],
  ["a product of lengths past all numbers", tensor({ dimensions: [2 ** 39, 2 ** 39] }), /shape/],
  ["too many dimensions", tensor({ dimensions: [32, 1, 1, 1, 1] }), /5 dimensions/],
  ["a type that is not computed", tensor({ type: 10 }), /a is of the type Q2_K; known are F32/],
  ["a type nobody knows", tensor({ type: 77 }), /type number 77/],
  ["an alignment that is none", { ...whole, metadata: { "general.alignment": { uint32: 48 } } }, /power of two/],
])("refuses %s", async (_, parts, message) => {
  const failure = await readGguf(written(ggufBytes(parts))).catch((error) => error);
  expect(failure).toBeInstanceOf(ModelFileError);
  expect(failure.message).toMatch(message);
});

const part = (no: number, count: number, name: string): GgufParts => ({
  metadata: {
    ...(no === 0 ? { first: { uint32: 1 } } : {}),
    "split.no": { uint32: no },
    "split.count": { uint32: count },
    "split.tensors.count": { uint32: 2 },
  },
  tensors: [{ name, dimensions: [8], type: F32, offset: 0 }],
  bytes: 32,
});

it("reads a model that is split, from whichever part is named", async () => {
  const files = [part(0, 2, "a"), part(1, 2, "b")].map((parts, i) =>
    written(ggufBytes(parts), `big-0000${i + 1}-of-00002.gguf`),
  );
  for (const file of files) {
    const { file: first, metadata, tensors } = await readGguf(file);
    expect(first).toBe(files[0]);
    expect(metadata.get("first")).toBe(1);
    expect([...tensors].map(([name, place]) => [name, place.file])).toEqual([
      ["a", files[0]],
      ["b", files[1]],
    ]);
  }
});

it.each<[string, GgufParts[], RegExp]>([
  ["a missing part", [part(0, 2, "a")], /one of 2 files; odd-00002-of-00002.gguf is missing/],
  ["the same tensor in two", [part(0, 2, "a"), part(1, 2, "a")], /a is in another part too/],
  ["parts out of order", [part(0, 2, "a"), part(0, 2, "b")], /not part 2 of 2/],
  ["an absurd number of parts", [part(0, 4_000_000_000, "a")], /whole number from 1 to 1000/],
])("refuses %s", async (_, parts, message) => {
  rmSync(join(folder, "odd-00002-of-00002.gguf"), { force: true });
  const files = parts.map((content, i) => written(ggufBytes(content), `odd-0000${i + 1}-of-00002.gguf`));
  await expect(readGguf(files[0]!)).rejects.toThrow(message);
});

it.each([1, 2])("refuses lists that have more entries than any vocabulary: %i", async (lists) => {
  const length = Math.ceil((2 ** 24 + 1) / lists);
  const pieces = Array.from({ length: lists }, (_, i) => {
    const metadata: GgufParts["metadata"] = { [`list${i}`]: { array: "uint32", values: [] } };
    const bytes = ggufBytes({ metadata, keyCount: BigInt(lists) }).subarray(0, 24 + 8 + 5 + 4 + 4 + 8);
    // Of bytes, which a list in memory has eight for.
    bytes.writeUInt32LE(0, bytes.length - 12);
    bytes.writeBigUInt64LE(BigInt(length), bytes.length - 8);
    return [i === 0 ? bytes : bytes.subarray(24), Buffer.alloc(length)];
  });
  const file = written(Buffer.concat(pieces.flat()));
  const reason = expect.stringMatching(/^list\d has \d+ entries, more than \d+$/);
  await expect(readGguf(file)).rejects.toMatchObject({ name: "ModelFileError", reason, param: `list${lists - 1}` });
});
