import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, it } from "vitest";
import { writeSafetensors } from "../../test/fixtures/writeSafetensors.js";
import { gathered, readSafetensors, safetensorsPieces, streamOf } from "./safetensors.js";

const folder = mkdtempSync(join(tmpdir(), "anneal-safetensors-"));
afterAll(() => rmSync(folder, { recursive: true }));

/** A file of a header and what stands behind it. */
function writeRaw(file: string, header: object, ...data: NodeJS.TypedArray[]): void {
  const json = Buffer.from(JSON.stringify(header));
  const size = Buffer.alloc(8);
  size.writeBigUInt64LE(BigInt(json.length));
  const bytes = data.map(({ buffer, byteOffset, byteLength }) => new Uint8Array(buffer, byteOffset, byteLength));
  writeFileSync(file, Buffer.concat([size, json, ...bytes]));
}

const tensors = new Map([
  ["b", { shape: [2, 3], data: Float32Array.of(1, -0, 3.5, 1e-45, 5e-39, Number.POSITIVE_INFINITY) }],
  ["a", { shape: [], data: Float32Array.of(-1e30) }],
  ["empty", { shape: [0, 4], data: new Float32Array() }],
]);

async function whole(pieces: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const copies: Buffer[] = [];
  for await (const piece of pieces) copies.push(Buffer.from(piece));
  return Buffer.concat(copies);
}

it("writes what it reads back, bit for bit, in a layout with aligned data", async () => {
  const file = join(folder, "some.safetensors");
  await writeSafetensors(file, tensors, { steps: "3" });
  expect(await readSafetensors(file)).toEqual({ tensors, metadata: { steps: "3" } });
  expect(readdirSync(folder)).toEqual(["some.safetensors"]);
  const bytes = await whole(safetensorsPieces(streamOf(tensors)));
  expect(Number(new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(0, true)) % 8).toBe(0);
});

it("reads and writes many small tensors together, and large ones between them", async () => {
  const lengths = [...new Array(300).fill(1500), 300_000, 7, 262_144, 1, ...new Array(300).fill(999)];
  const many = new Map(
    lengths.map((length, i) => [
      `tensor ${i}`,
      { shape: [length], data: Float32Array.from({ length }, (_, k) => i + k / length) },
    ]),
  );
  const file = join(folder, "many.safetensors");
  await writeSafetensors(file, many);
  expect(readFileSync(file).equals(await whole(safetensorsPieces(streamOf(many))))).toBe(true);
  const { tensors: read } = await readSafetensors(file);
  expect([...read.keys()]).toEqual([...many.keys()]);
  expect(read).toEqual(many);
});

it("gathers pieces up to a megabyte, in their order", () => {
  const piece = (length: number, fill: number) => new Uint8Array(length).fill(fill);
  const pieces = [piece(5, 1), piece(0, 2), piece(2 ** 20 - 5, 3), piece(1, 4), piece(2 ** 20, 5), piece(3, 6)];
  const got = Array.from(gathered(pieces), (one) => Buffer.from(one));
  expect(got.map(({ length }) => length)).toEqual([2 ** 20, 1, 2 ** 20, 3]);
  expect(Buffer.concat(got).equals(Buffer.concat(pieces))).toBe(true);
  expect([...gathered([])]).toEqual([]);
});

it("reads what lies behind an odd number of halves, in the header's order", async () => {
  const file = join(folder, "odd.safetensors");
  const header = {
    floats: { dtype: "F32", shape: [2], data_offsets: [6, 14] },
    halves: { dtype: "BF16", shape: [3], data_offsets: [0, 6] },
  };
  writeRaw(file, header, Uint16Array.of(0x3f80, 0xc049, 0x4000), Float32Array.of(-0.1, 3e7));
  const { tensors: read } = await readSafetensors(file);
  expect([...read].map(([name, { data }]) => [name, [...data]])).toEqual([
    ["floats", [...Float32Array.of(-0.1, 3e7)]],
    ["halves", [1, -3.140625, 2]],
  ]);
});

it("replaces a file only when the new one is whole", async () => {
  const file = join(folder, "kept.safetensors");
  await writeSafetensors(file, tensors);
  await expect(writeSafetensors(join(folder, "missing", "x.safetensors"), tensors)).rejects.toThrow();
  const unwritable = new Map([["x", { shape: [1], data: null as never }]]);
  await expect(writeSafetensors(file, unwritable)).rejects.toThrow();
  expect((await readSafetensors(file)).tensors).toEqual(tensors);
});

// What the format's reference reader refuses as an incomplete buffer and an invalid offset.
it("refuses bytes that belong to no tensor", async () => {
  const file = join(folder, "stray.safetensors");
  const bytes = await whole(safetensorsPieces(streamOf(tensors)));
  writeFileSync(file, Buffer.concat([bytes, Buffer.alloc(64)]));
  await expect(readSafetensors(file)).rejects.toThrow(`${file}: holds 64 bytes that belong to no tensor`);
  writeRaw(file, { x: { dtype: "U8", shape: [1], data_offsets: [3, 4] } }, Buffer.alloc(4));
  await expect(readSafetensors(file)).rejects.toThrow("holds 3 bytes that belong to no tensor");
});

it("widens bfloat16 and float16 exactly", async () => {
  const file = join(folder, "half.safetensors");
  // bits and values from the formats' definitions (bfloat16: the upper half of a float32; IEEE 754 binary16)
  const bfloat16: [number, number][] = [
    [0x3f80, 1],
    [0xc049, -3.140625],
    [0x0001, 2 ** -133],
    [0x7f80, Number.POSITIVE_INFINITY],
  ];
  const float16: [number, number][] = [
    [0x3c00, 1],
    [0xc248, -3.140625],
    [0x0001, 2 ** -24],
    [0x7bff, 65504],
  ];
  const header = {
    b: { dtype: "BF16", shape: [4], data_offsets: [0, 8] },
    h: { dtype: "F16", shape: [4], data_offsets: [8, 16] },
  };
  writeRaw(file, header, new Uint16Array([...bfloat16, ...float16].map(([bits]) => bits)));
  const read = (await readSafetensors(file)).tensors;
  expect([...read.get("b")!.data]).toEqual(bfloat16.map(([, value]) => value));
  expect([...read.get("h")!.data]).toEqual(float16.map(([, value]) => value));
});
