// Whole safetensors files as float32 tensors: adapters, optimizer moments. Base weights go to the device without passing here.

import { type FileHandle, open, rename, rm } from "node:fs/promises";
import { dirname } from "node:path";
import { elementCount } from "../elementCount.js";
import { ModelFileError } from "../errors.js";
import { openRegularFile, readAt } from "../regularFile.js";
import type { NamedTensors } from "../runtime/runtime.js";
import { type FloatType, isFloatType, widen } from "./floats.js";
import { readSafetensorsHeader, type StoredTensor } from "./safetensorsHeader.js";

/** Header sizes are multiples of this, so that data is aligned. */
const ALIGNMENT = 8;

/** What is read or written at once of tensors that are smaller: an adapter has hundreds of a few kilobytes. */
const AT_ONCE = 2 ** 20;
/** Such pieces of a file that are read at one time. */
const READ_AT_ONCE = 3;

/**
 * `check` sees what there is before anything of it is read, and throws for what is not wanted.
 * @throws ModelFileError when the file is damaged or holds anything but F32, BF16 and F16 tensors.
 */
export async function readSafetensors(
  file: string,
  check: (tensors: ReadonlyMap<string, StoredTensor>) => void = () => {},
): Promise<{ tensors: NamedTensors; metadata: Record<string, string> }> {
  const header = await readSafetensorsHeader(file);
  check(header.tensors);
  const handle = await openRegularFile(file);
  try {
    const read = new Map<string, Float32Array>();
    const { size } = await handle.stat();
    const runs = runsOf(file, size, header.tensors).values();
    const readRuns = async () => {
      for (const run of runs) await readRun(handle, file, run, read);
    };
    await Promise.all(Array.from({ length: READ_AT_ONCE }, readRuns));
    // In the order of the header.
    const tensors: NamedTensors = new Map();
    for (const [name, { shape }] of header.tensors) tensors.set(name, { shape, data: read.get(name)! });
    return { tensors, metadata: header.metadata };
  } finally {
    await handle.close();
  }
}

interface Floats {
  name: string;
  dtype: FloatType;
  begin: number;
  end: number;
}

/** Tensors that lie one behind the other in the file, which has `size` bytes. */
function runsOf(file: string, size: number, tensors: ReadonlyMap<string, StoredTensor>): Floats[][] {
  const all = [...tensors].map(([name, { dtype, offset, bytes }]): Floats => {
    if (isFloatType(dtype)) return { name, dtype, begin: offset, end: offset + bytes };
    throw new ModelFileError(file, `${name} has dtype ${dtype}; F32, BF16 and F16 can be read`, { param: name });
  });
  all.sort((a, b) => a.begin - b.begin);
  const cut = all.find(({ end }) => end > size);
  if (cut) throw endsInside(file, cut);
  const runs: Floats[][] = [];
  for (const next of all) {
    const run = runs.at(-1);
    if (run && run.at(-1)!.end === next.begin && next.end - run[0]!.begin <= AT_ONCE) run.push(next);
    else runs.push([next]);
  }
  return runs;
}

async function readRun(handle: FileHandle, file: string, run: Floats[], to: Map<string, Float32Array>): Promise<void> {
  const { begin } = run[0]!;
  // Not zeroed before it is filled.
  const { buffer, byteOffset, byteLength } = Buffer.allocUnsafeSlow(run.at(-1)!.end - begin);
  const bytes = new Uint8Array(buffer, byteOffset, byteLength);
  if (!(await readAt(handle, bytes, begin))) throw endsInside(file, run.at(-1)!);
  for (const { name, dtype, ...at } of run) {
    const raw = bytes.subarray(at.begin - begin, at.end - begin);
    // Behind one of half the width it may not be aligned.
    to.set(name, widen(dtype, raw.byteOffset % 4 === 0 ? raw : raw.slice()));
  }
}

const endsInside = (file: string, { name }: Floats) => new ModelFileError(file, `ends inside ${name}`, { param: name });

/** What stands before the tensors of a file, whose data follows in this order without gaps. */
export function safetensorsHeader(
  tensors: readonly { name: string; shape: readonly number[]; dtype: string; bytes: number }[],
  metadata: Record<string, string> = {},
): Uint8Array {
  const entries: Record<string, unknown> = Object.keys(metadata).length > 0 ? { __metadata__: metadata } : {};
  let end = 0;
  for (const { name, shape, dtype, bytes } of tensors) {
    entries[name] = { dtype, shape, data_offsets: [end, end + bytes] };
    end += bytes;
  }
  const json = Buffer.from(JSON.stringify(entries), "utf8");
  const length = Math.ceil(json.length / ALIGNMENT) * ALIGNMENT;
  const header = Buffer.alloc(8 + length, " ");
  header.writeBigUInt64LE(BigInt(length), 0);
  json.copy(header, 8);
  return header;
}

/** Float32 tensors whose bytes come one behind the other, in pieces of which each is good until the next one is asked for. */
export interface TensorStream {
  readonly shapes: ReadonlyMap<string, readonly number[]>;
  pieces(): AsyncIterable<Uint8Array>;
}

/** Tensors in memory, of which no copies are made. */
export function streamOf(tensors: NamedTensors): TensorStream {
  return {
    shapes: new Map([...tensors].map(([name, { shape }]) => [name, shape])),
    async *pieces() {
      yield* gathered(tensorBytes(tensors));
    },
  };
}

/** Of each tensor, without a copy. */
export function* tensorBytes(tensors: NamedTensors): Generator<Uint8Array> {
  for (const { data } of tensors.values()) yield new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
}

/** One behind the other, by names of their own. */
export function streamed(parts: readonly [stream: TensorStream, rename: (name: string) => string][]): TensorStream {
  return {
    shapes: new Map(
      parts.flatMap(([{ shapes }, rename]) => [...shapes].map(([name, shape]) => [rename(name), shape] as const)),
    ),
    async *pieces() {
      for (const [stream] of parts) yield* stream.pieces();
    },
  };
}

/** A file of such tensors, in pieces like theirs. */
export async function* safetensorsPieces(
  { shapes, pieces }: TensorStream,
  metadata: Record<string, string> = {},
): AsyncGenerator<Uint8Array> {
  const entries = [...shapes].map(([name, shape]) => {
    return { name, shape, dtype: "F32", bytes: elementCount(shape) * Float32Array.BYTES_PER_ELEMENT };
  });
  yield safetensorsHeader(entries, metadata);
  yield* pieces();
}

/** The same bytes in fewer pieces, good for as long. */
export function* gathered(pieces: Iterable<Uint8Array>): Generator<Uint8Array> {
  const room = new Uint8Array(AT_ONCE);
  let used = 0;
  for (const piece of pieces) {
    if (used > 0 && used + piece.length > room.length) {
      yield room.subarray(0, used);
      used = 0;
    }
    if (piece.length >= room.length) yield piece;
    else {
      room.set(piece, used);
      used += piece.length;
    }
  }
  if (used > 0) yield room.subarray(0, used);
}

/** Writes a file that is there whole or not at all, whenever the machine stops: temporary name, flush, rename, flush of the folder. */
export async function writeWhole(
  file: string,
  content: Iterable<Uint8Array> | AsyncIterable<Uint8Array>,
): Promise<void> {
  const temporary = `${file}.${process.pid}.tmp`;
  try {
    const handle = await open(temporary, "w");
    try {
      for await (const piece of content) await handle.appendFile(piece);
      await handle.sync();
    } finally {
      await handle.close();
    }
    await rename(temporary, file);
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  }
  // Windows has no folders to flush: renames are journaled.
  if (process.platform === "win32") return;
  const folder = await open(dirname(file), "r");
  await folder.sync().finally(() => folder.close());
}
