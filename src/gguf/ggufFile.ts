// The GGUF format: metadata and a table of tensors before their data. https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
// A file is someone else's: every count, length and offset is checked before anything is taken by it.

import { existsSync } from "node:fs";
import { basename, dirname, join } from "node:path";
import { elementCount } from "../elementCount.js";
import { ModelFileError } from "../errors.js";
import { openRegularFile, readAt } from "../regularFile.js";
import { type QuantizedFormatName, quantizedFormats } from "../runtime/runtime.js";

export type GgufValue = number | bigint | boolean | string | GgufValue[];

/** A float type, or a quantised format that is computed with. */
export type GgufType = "F32" | "F16" | "BF16" | QuantizedFormatName;

const FLOAT_BLOCKS = [
  { name: "F32", numbers: 1, bytes: 4 },
  { name: "F16", numbers: 1, bytes: 2 },
  { name: "BF16", numbers: 1, bytes: 2 },
];
const blocks = () => [...FLOAT_BLOCKS, ...quantizedFormats().filter(({ isPacked }) => !isPacked)];
const blockOf = (type: string) => blocks().find(({ name }) => name === type);

/** By the number in the file. */
const TYPE_NAMES: Readonly<Record<number, string>> = {
  ...Object.fromEntries(
    [
      ...["F32", "F16", "Q4_0", "Q4_1", "", "", "Q5_0", "Q5_1", "Q8_0", "Q8_1", "Q2_K", "Q3_K", "Q4_K", "Q5_K", "Q6_K"],
      ...["Q8_K", "IQ2_XXS", "IQ2_XS", "IQ3_XXS", "IQ1_S", "IQ4_NL", "IQ3_S", "IQ2_S", "IQ4_XS", "I8", "I16", "I32"],
      ...["I64", "F64", "IQ1_M", "BF16", "Q4_0_4_4", "Q4_0_4_8", "Q4_0_8_8", "TQ1_0", "TQ2_0"],
    ].map((name, type) => [type, name]),
  ),
  39: "MXFP4",
};

export const ggufTypeNumber = (type: GgufType): number =>
  Number(Object.keys(TYPE_NAMES).find((number) => TYPE_NAMES[Number(number)] === type));

/** Of a tensor, whose rows are whole blocks. */
export function ggufBytes(type: GgufType, shape: readonly number[]): number {
  const { numbers, bytes } = blockOf(type)!;
  return (elementCount(shape) / numbers) * bytes;
}

export interface GgufTensor {
  file: string;
  type: GgufType;
  /** Rows before columns, as elsewhere: the file has them the other way round. */
  shape: number[];
  /** Bytes from the start of the file. */
  offset: number;
  bytes: number;
}

export interface GgufFile {
  /** The first one of a model that is split over several. */
  file: string;
  metadata: Map<string, GgufValue>;
  tensors: Map<string, GgufTensor>;
}

const MAX_KEYS = 2 ** 16;
const MAX_TENSORS = 2 ** 20;
const MAX_FILES = 1000;
const MAX_KEY_BYTES = 2 ** 16;
/** Of all lists together, each of which takes more memory than it does in the file. A vocabulary has at most 2^22 tokens. */
const MAX_ENTRIES = 2 ** 24;
/** Metadata with its vocabulary, and the table of tensors. Those of published models are below 20 MB. */
const MAX_HEADER_BYTES = 2 ** 28;
const FIRST_READ_BYTES = 2 ** 20;

export const isGguf = (path: string) => path.toLowerCase().endsWith(".gguf");

/**
 * Reads what stands before the data of a GGUF file, and of the others that the model is split over.
 * @throws ModelFileError naming the file, and the key or tensor at fault.
 */
export async function readGguf(file: string): Promise<GgufFile> {
  const first = await readHeader(file);
  const count = first.metadata.get("split.count") ?? 1;
  if (count === 1 || count === 0) return { file, metadata: first.metadata, tensors: new Map(first.tensors) };
  const names = splitNames(first, count);
  const metadata = new Map(first.metadata);
  const tensors = new Map<string, GgufTensor>();
  for (const [index, name] of names.entries()) {
    const part = name === file ? first : await readHeader(name);
    if (part.metadata.get("split.count") !== count || part.metadata.get("split.no") !== index) {
      throw new ModelFileError(name, `is not part ${index + 1} of ${count} of this model`, { param: "split.no" });
    }
    // The vocabulary and the sizes stand in the first.
    if (index === 0) for (const [key, value] of part.metadata) metadata.set(key, value);
    for (const [tensor, place] of part.tensors) {
      if (tensors.has(tensor)) throw new ModelFileError(name, `${tensor} is in another part too`, { param: tensor });
      tensors.set(tensor, place);
    }
  }
  const total = metadata.get("split.tensors.count");
  if (total !== undefined && total !== tensors.size) {
    throw new ModelFileError(file, `says that all parts hold ${total} tensors; they hold ${tensors.size}`, {
      param: "split.tensors.count",
    });
  }
  return { file: names[0]!, metadata, tensors };
}

/** Files of a split model are named by their number: name-00001-of-00003.gguf. */
function splitNames({ file }: { file: string }, count: GgufValue): string[] {
  const fail = (problem: string) => new ModelFileError(file, problem, { param: "split.count" });
  if (typeof count !== "number" || !Number.isInteger(count) || count < 1 || count > MAX_FILES) {
    throw fail(`split.count must be a whole number from 1 to ${MAX_FILES}, not ${count}`);
  }
  const digits = (number: number) => String(number).padStart(5, "0");
  const match = /^(.*)-(\d{5})-of-(\d{5})(\.gguf)$/i.exec(basename(file));
  if (!match || Number(match[3]) !== count) {
    throw fail(`is one of ${count} files, but is not named as such: NAME-00001-of-${digits(count)}.gguf`);
  }
  return Array.from({ length: count }, (_, i) => {
    const path = join(dirname(file), `${match[1]}-${digits(i + 1)}-of-${digits(count)}${match[4]}`);
    if (!existsSync(path)) throw fail(`is one of ${count} files; ${basename(path)} is missing`);
    return Number(match[2]) === i + 1 ? file : path;
  });
}

interface Header {
  file: string;
  metadata: Map<string, GgufValue>;
  tensors: [string, GgufTensor][];
}

async function readHeader(file: string): Promise<Header> {
  const handle = await openRegularFile(file);
  try {
    const { size } = await handle.stat();
    for (let length = FIRST_READ_BYTES; ; length *= 4) {
      const bytes = Buffer.alloc(Math.min(length, size, MAX_HEADER_BYTES));
      if (!(await readAt(handle, bytes, 0))) throw new ModelFileError(file, "became shorter while it was read");
      const isWhole = bytes.length === size || bytes.length === MAX_HEADER_BYTES;
      try {
        return parse(new Reader(file, bytes), size);
      } catch (error) {
        if (error instanceof PastEnd && !isWhole) continue;
        if (error instanceof PastEnd) throw new ModelFileError(file, `ends inside ${error.what}`);
        throw error;
      }
    }
  } finally {
    await handle.close();
  }
}

/** More is asked for than has been read. */
class PastEnd extends Error {
  constructor(readonly what: string) {
    super(what);
  }
}

const SCALARS: Readonly<Record<number, { bytes: number; read: (b: Buffer, at: number) => GgufValue }>> = {
  0: { bytes: 1, read: (b, at) => b.readUInt8(at) },
  1: { bytes: 1, read: (b, at) => b.readInt8(at) },
  2: { bytes: 2, read: (b, at) => b.readUInt16LE(at) },
  3: { bytes: 2, read: (b, at) => b.readInt16LE(at) },
  4: { bytes: 4, read: (b, at) => b.readUInt32LE(at) },
  5: { bytes: 4, read: (b, at) => b.readInt32LE(at) },
  6: { bytes: 4, read: (b, at) => b.readFloatLE(at) },
  10: { bytes: 8, read: (b, at) => narrowed(b.readBigUInt64LE(at)) },
  11: { bytes: 8, read: (b, at) => narrowed(b.readBigInt64LE(at)) },
  12: { bytes: 8, read: (b, at) => b.readDoubleLE(at) },
};
const BOOLEAN = 7;
const STRING = 8;
const ARRAY = 9;

function narrowed(value: bigint): number | bigint {
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : value;
}

class Reader {
  at = 0;
  /** Of the lists that have been read. */
  entries = 0;
  /** What is being read, for errors. */
  what = "its first bytes";

  constructor(
    readonly file: string,
    readonly bytes: Buffer,
  ) {}

  fail(problem: string): never {
    throw new ModelFileError(this.file, `${this.what} ${problem}`, { param: this.what });
  }

  take(count: number): number {
    if (this.at + count > this.bytes.length) throw new PastEnd(this.what);
    const at = this.at;
    this.at += count;
    return at;
  }

  uint32(): number {
    return this.bytes.readUInt32LE(this.take(4));
  }

  /** A length or an offset. */
  count(max: number, noun: string): number {
    const value = narrowed(this.bytes.readBigUInt64LE(this.take(8)));
    if (typeof value === "bigint" || value > max) this.fail(`has ${value} ${noun}, more than ${max}`);
    return value;
  }

  string(maxBytes: number): string {
    const length = this.count(maxBytes, "bytes of text");
    const at = this.take(length);
    return this.bytes.toString("utf8", at, at + length);
  }

  value(type: number, isElement = false): GgufValue {
    const scalar = Object.hasOwn(SCALARS, type) ? SCALARS[type] : undefined;
    if (scalar) return scalar.read(this.bytes, this.take(scalar.bytes));
    if (type === BOOLEAN) {
      const value = this.bytes[this.take(1)];
      if (value !== 0 && value !== 1) this.fail(`must be true or false, not ${value}`);
      return value === 1;
    }
    if (type === STRING) return this.string(MAX_HEADER_BYTES);
    if (type !== ARRAY) this.fail(`has a value of the unknown type ${type}`);
    if (isElement) this.fail("has lists in a list");
    const element = this.uint32();
    const length = this.count(MAX_ENTRIES - this.entries, "entries");
    this.entries += length;
    const least = SCALARS[element]?.bytes ?? (element === STRING ? 8 : 1);
    if (this.at + length * least > MAX_HEADER_BYTES) this.fail(`has ${length} entries, which do not fit the file`);
    if (this.at + length * least > this.bytes.length) throw new PastEnd(this.what);
    const list: GgufValue[] = [];
    for (let i = 0; i < length; i++) list.push(this.value(element, true));
    return list;
  }
}

function parse(reader: Reader, size: number): Header {
  const { file, bytes } = reader;
  if (bytes.toString("latin1", 0, 4) !== "GGUF") throw new ModelFileError(file, "is not a GGUF file");
  reader.at = 4;
  const version = reader.uint32();
  if (version !== 2 && version !== 3) {
    const bigEndian = version !== 0 && (version & 0xffff) === 0;
    throw new ModelFileError(
      file,
      bigEndian ? "is big-endian GGUF" : `is GGUF of version ${version}; 2 and 3 are known`,
    );
  }
  reader.what = "the table of tensors";
  const tensorCount = reader.count(MAX_TENSORS, "tensors");
  reader.what = "its metadata";
  const keyCount = reader.count(MAX_KEYS, "keys");
  const metadata = new Map<string, GgufValue>();
  for (let i = 0; i < keyCount; i++) {
    reader.what = `key ${i + 1} of its metadata`;
    const key = reader.string(MAX_KEY_BYTES);
    reader.what = key;
    if (metadata.has(key)) reader.fail("stands there twice");
    metadata.set(key, reader.value(reader.uint32()));
  }
  const alignment = metadata.get("general.alignment") ?? 32;
  if (typeof alignment !== "number" || alignment < 8 || alignment > 2 ** 20 || (alignment & (alignment - 1)) !== 0) {
    reader.what = "general.alignment";
    reader.fail(`must be a power of two from 8 on, not ${alignment}`);
  }
  const tensors: [string, GgufTensor][] = [];
  for (let i = 0; i < tensorCount; i++) {
    reader.what = `entry ${i + 1} of the table of tensors`;
    const name = reader.string(MAX_KEY_BYTES);
    reader.what = name;
    tensors.push([name, tensorEntry(reader)]);
  }
  placeTensors(file, tensors, Math.ceil(reader.at / alignment) * alignment, alignment, size);
  return { file, metadata, tensors };
}

/** Its offset is from the start of the data. */
function tensorEntry(reader: Reader): GgufTensor {
  const dimensions = reader.uint32();
  if (dimensions < 1 || dimensions > 4) reader.fail(`has ${dimensions} dimensions`);
  const shape = Array.from({ length: dimensions }, () => reader.count(2 ** 40, "numbers in a dimension")).reverse();
  const elements = elementCount(shape);
  if (elements === 0 || !Number.isSafeInteger(elements)) reader.fail(`has the shape [${shape}]`);
  const number = reader.uint32();
  const name = TYPE_NAMES[number] || `number ${number}`;
  const block = blockOf(name);
  if (!block) {
    const known = blocks().map((other) => other.name);
    reader.fail(`is of the type ${name}; known are ${known.join(", ")}`);
  }
  const { numbers } = block;
  if (shape.at(-1)! % numbers !== 0) reader.fail(`has rows of ${shape.at(-1)}, which are not whole blocks of ${name}`);
  const offset = reader.count(Number.MAX_SAFE_INTEGER, "bytes before it");
  return { file: reader.file, type: name, shape, offset, bytes: ggufBytes(name, shape) };
}

/** Makes offsets those in the file, and checks that each tensor lies in it and beside the others. */
function placeTensors(file: string, tensors: [string, GgufTensor][], start: number, alignment: number, size: number) {
  const names = new Set<string>();
  for (const [name, tensor] of tensors) {
    const fail = (problem: string) => new ModelFileError(file, `${name} ${problem}`, { param: name });
    if (names.has(name)) throw fail("stands in the table twice");
    names.add(name);
    if (tensor.offset % alignment !== 0) throw fail(`begins at ${tensor.offset}, no multiple of ${alignment}`);
    tensor.offset += start;
    if (tensor.offset + tensor.bytes > size) {
      throw fail(`reaches to byte ${tensor.offset + tensor.bytes}; the file has ${size}: it is cut off, or damaged`);
    }
  }
  const byPlace = tensors.toSorted(([, a], [, b]) => a.offset - b.offset);
  for (const [i, [name, tensor]] of byPlace.entries()) {
    const [before, other] = byPlace[i - 1] ?? [];
    if (other && other.offset + other.bytes > tensor.offset) {
      throw new ModelFileError(file, `${name} overlaps ${before}`, { param: name });
    }
  }
}
