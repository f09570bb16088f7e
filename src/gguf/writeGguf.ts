// A GGUF file as it is written: metadata, the table of tensors, and their data.

import { open } from "node:fs/promises";
import { type GgufType, type GgufValue, ggufBytes, ggufTypeNumber } from "./ggufFile.js";

/** A value with the type that readers look for. */
export type TypedValue =
  | { uint32: number }
  | { float32: number }
  | { boolean: boolean }
  | { string: string }
  | { int32s: readonly number[] }
  | { float32s: readonly number[] }
  | { strings: readonly string[] }
  | { booleans: readonly boolean[] };

export type TypedMetadata = ReadonlyMap<string, TypedValue>;

export interface WrittenTensor {
  name: string;
  /** Rows before columns. */
  shape: readonly number[];
  type: GgufType;
  /** Row-major, in pieces. */
  content(): AsyncIterable<Uint8Array> | Iterable<Uint8Array>;
}

const VERSION = 3;
const ALIGNMENT = 32;
const UINT32 = 4;
const INT32 = 5;
const FLOAT32 = 6;
const BOOLEAN = 7;
const STRING = 8;
const ARRAY = 9;

/** What a reader makes of it. */
export function readValue(value: TypedValue): GgufValue {
  const content: GgufValue | readonly GgufValue[] = Object.values(value)[0];
  return typeof content === "object" ? [...content] : content;
}

/** Writes the file; `written` is told of every piece, and may throw to end it. */
export async function writeGguf(
  file: string,
  metadata: TypedMetadata,
  tensors: readonly WrittenTensor[],
  written: (bytes: number) => void | Promise<void>,
): Promise<void> {
  const output = await open(file, "wx");
  try {
    await output.appendFile(header(metadata, tensors));
    for (const tensor of tensors) {
      let bytes = 0;
      for await (const piece of tensor.content()) {
        await output.appendFile(piece);
        bytes += piece.byteLength;
        await written(piece.byteLength);
      }
      await output.appendFile(new Uint8Array(padding(bytes)));
    }
    await output.sync();
  } finally {
    await output.close();
  }
}

const padding = (bytes: number) => (ALIGNMENT - (bytes % ALIGNMENT)) % ALIGNMENT;

function header(metadata: TypedMetadata, tensors: readonly WrittenTensor[]): Buffer {
  const pieces = [Buffer.from("GGUF"), uint32(VERSION), uint64(tensors.length), uint64(metadata.size)];
  for (const [key, value] of metadata) pieces.push(text(key), typed(value));
  let offset = 0;
  for (const { name, shape, type } of tensors) {
    pieces.push(text(name), uint32(shape.length), ...shape.toReversed().map(uint64));
    pieces.push(uint32(ggufTypeNumber(type)), uint64(offset));
    const bytes = ggufBytes(type, shape);
    offset += bytes + padding(bytes);
  }
  const whole = Buffer.concat(pieces);
  return Buffer.concat([whole, Buffer.alloc(padding(whole.length))]);
}

function typed(value: TypedValue): Buffer {
  if ("uint32" in value) return Buffer.concat([uint32(UINT32), uint32(value.uint32)]);
  if ("float32" in value) return Buffer.concat([uint32(FLOAT32), float32s([value.float32])]);
  if ("boolean" in value) return Buffer.concat([uint32(BOOLEAN), Buffer.from([Number(value.boolean)])]);
  if ("string" in value) return Buffer.concat([uint32(STRING), text(value.string)]);
  if ("int32s" in value) return list(INT32, value.int32s.length, Buffer.from(Int32Array.from(value.int32s).buffer));
  if ("float32s" in value) return list(FLOAT32, value.float32s.length, float32s(value.float32s));
  if ("booleans" in value) return list(BOOLEAN, value.booleans.length, Buffer.from(value.booleans.map(Number)));
  return list(STRING, value.strings.length, Buffer.concat(value.strings.map(text)));
}

const list = (type: number, length: number, entries: Buffer) =>
  Buffer.concat([uint32(ARRAY), uint32(type), uint64(length), entries]);

// Everywhere that anneal runs numbers are little-endian, as the file has them.
const float32s = (values: readonly number[]) => Buffer.from(Float32Array.from(values).buffer);

function uint32(value: number): Buffer {
  const bytes = Buffer.alloc(4);
  bytes.writeUInt32LE(value);
  return bytes;
}

function uint64(value: number): Buffer {
  const bytes = Buffer.alloc(8);
  bytes.writeBigUInt64LE(BigInt(value));
  return bytes;
}

function text(value: string): Buffer {
  const bytes = Buffer.from(value);
  return Buffer.concat([uint64(bytes.length), bytes]);
}
