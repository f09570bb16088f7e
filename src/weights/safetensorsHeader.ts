// The header of a safetensors file: which tensors it holds and where, checked against the file's size before anything is believed.

import { elementCount } from "../elementCount.js";
import { ModelFileError } from "../errors.js";
import { jsonReason } from "../json.js";
import { openRegularFile } from "../regularFile.js";
import { JsonFields } from "./jsonFields.js";

/** As in the reference implementation. */
const MAX_HEADER_BYTES = 100_000_000;

const WIDTHS: Record<string, number> = {
  BOOL: 1,
  U8: 1,
  I8: 1,
  F8_E4M3: 1,
  F8_E5M2: 1,
  I16: 2,
  U16: 2,
  F16: 2,
  BF16: 2,
  I32: 4,
  U32: 4,
  F32: 4,
  I64: 8,
  U64: 8,
  F64: 8,
};

export interface StoredTensor {
  dtype: string;
  shape: number[];
  /** Bytes from the start of the file. */
  offset: number;
  bytes: number;
}

export interface SafetensorsHeader {
  tensors: Map<string, StoredTensor>;
  metadata: Record<string, string>;
}

/**
 * @throws ModelFileError when the file is cut short, its header is damaged, or its data is not the tensors one after the
 * other to the last byte, as the format has it.
 */
export async function readSafetensorsHeader(file: string): Promise<SafetensorsHeader> {
  const { text, start, end } = await readHeaderText(file);
  let parsed: unknown;
  try {
    parsed = JSON.parse(text);
  } catch (cause) {
    throw new ModelFileError(file, `has a header that is not valid JSON: ${jsonReason(cause)}`, { cause });
  }
  const entries = new JsonFields(file, parsed);
  const tensors = new Map<string, StoredTensor>();
  for (const name of entries.names) {
    if (name !== "__metadata__") tensors.set(name, storedTensor(entries, name, start, end));
  }
  checkLayout(file, tensors, start, end);
  return { tensors, metadata: metadataOf(entries) };
}

async function readHeaderText(file: string): Promise<{ text: string; start: number; end: number }> {
  const handle = await openRegularFile(file);
  try {
    const { size } = await handle.stat();
    const prefix = Buffer.alloc(8);
    if ((await handle.read(prefix, 0, 8, 0)).bytesRead < 8) throw new ModelFileError(file, "is shorter than 8 bytes");
    const length = prefix.readBigUInt64LE();
    if (length > MAX_HEADER_BYTES || 8 + Number(length) > size) {
      throw new ModelFileError(file, `says its header is ${length} bytes long, in a file of ${size} bytes`);
    }
    const header = Buffer.alloc(Number(length));
    if ((await handle.read(header, 0, header.length, 8)).bytesRead < header.length) {
      throw new ModelFileError(file, "ends inside its header");
    }
    return { text: header.toString("utf8"), start: 8 + header.length, end: size };
  } finally {
    await handle.close();
  }
}

function storedTensor(entries: JsonFields, name: string, start: number, end: number): StoredTensor {
  const entry: JsonFields = entries.object(name) ?? entries.fail(name, "must be an object");
  const dtype = entry.string("dtype");
  const width = WIDTHS[dtype];
  if (width === undefined) entry.fail("dtype", `is "${dtype}", which is not known`);
  const shape = sizes(entry, "shape");
  const [from, to, ...more] = sizes(entry, "data_offsets");
  if (from === undefined || to === undefined || more.length > 0 || from > to) {
    entry.fail("data_offsets", "must be two offsets, the first not after the second");
  }
  if (start + to > end) {
    entry.fail("data_offsets", `reach to byte ${start + to}, but the file ends at byte ${end}: it is cut short`);
  }
  const bytes = width * elementCount(shape);
  if (to - from !== bytes) entry.fail("data_offsets", `span ${to - from} bytes, but shape and dtype need ${bytes}`);
  return { dtype, shape, offset: start + from, bytes };
}

function sizes(entry: JsonFields, name: string): number[] {
  const value = entry.get(name);
  if (!Array.isArray(value) || !value.every((size) => Number.isSafeInteger(size) && size >= 0)) {
    entry.fail(name, "must be a list of whole numbers");
  }
  return value;
}

function checkLayout(file: string, tensors: ReadonlyMap<string, StoredTensor>, start: number, end: number): void {
  const sorted = [...tensors].sort(([, a], [, b]) => a.offset - b.offset || a.bytes - b.bytes);
  let unclaimed = end - start;
  for (const [i, [name, { offset, bytes }]] of sorted.entries()) {
    const before = sorted[i - 1];
    if (before && before[1].offset + before[1].bytes > offset) {
      throw new ModelFileError(file, `${before[0]} and ${name} overlap`, { param: name });
    }
    unclaimed -= bytes;
  }
  if (unclaimed > 0) throw new ModelFileError(file, `holds ${unclaimed} bytes that belong to no tensor: it is damaged`);
}

function metadataOf(entries: JsonFields): Record<string, string> {
  const metadata = entries.object("__metadata__");
  return Object.fromEntries(metadata?.names.map((name) => [name, metadata.string(name)]) ?? []);
}
