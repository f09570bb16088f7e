// Whole safetensors files as float32 tensors: adapters, optimizer moments. Base weights go to the device without passing here.

import { type FileHandle, open, rename, rm } from "node:fs/promises";
import { dirname } from "node:path";
import { ModelFileError } from "../errors.js";
import { openRegularFile, readAt } from "../regularFile.js";
import type { NamedTensors } from "../runtime/runtime.js";
import { isFloatType, widen } from "./floats.js";
import { readSafetensorsHeader, type StoredTensor } from "./safetensorsHeader.js";

/** Header sizes are multiples of this, so that data is aligned. */
const ALIGNMENT = 8;

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
    const tensors: NamedTensors = new Map();
    for (const [name, stored] of header.tensors) {
      tensors.set(name, { shape: stored.shape, data: await readFloats(handle, file, name, stored) });
    }
    return { tensors, metadata: header.metadata };
  } finally {
    await handle.close();
  }
}

async function readFloats(handle: FileHandle, file: string, name: string, stored: StoredTensor): Promise<Float32Array> {
  const { dtype, offset, bytes } = stored;
  if (!isFloatType(dtype)) {
    throw new ModelFileError(file, `${name} has dtype ${dtype}; F32, BF16 and F16 can be read`, { param: name });
  }
  const raw = new Uint8Array(bytes);
  if (!(await readAt(handle, raw, offset))) throw new ModelFileError(file, `ends inside ${name}`, { param: name });
  return widen(dtype, raw);
}

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

/** A file of float32 tensors, in the order given, in pieces of one tensor: views of them, not copies. */
export function* safetensorsPieces(
  tensors: NamedTensors,
  metadata: Record<string, string> = {},
): Generator<Uint8Array> {
  const entries = [...tensors].map(([name, { shape, data }]) => ({
    name,
    shape,
    dtype: "F32",
    bytes: data.byteLength,
  }));
  yield safetensorsHeader(entries, metadata);
  for (const { data } of tensors.values()) yield new Uint8Array(data.buffer, data.byteOffset, data.byteLength);
}

/** Writes float32 tensors so that the file is there whole or not at all, whenever the machine stops. */
export async function writeSafetensors(
  file: string,
  tensors: NamedTensors,
  metadata: Record<string, string> = {},
): Promise<void> {
  await writeWhole(file, safetensorsPieces(tensors, metadata));
}

/** Temporary name, flush, rename, flush of the folder. */
export async function writeWhole(file: string, content: Iterable<Uint8Array> | string): Promise<void> {
  const temporary = `${file}.${process.pid}.tmp`;
  try {
    const handle = await open(temporary, "w");
    try {
      for (const piece of typeof content === "string" ? [content] : content) await handle.appendFile(piece);
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
