// The records of a file, unparsed: the lines of a JSON Lines file, or the elements of a file that is one JSON array.

import { openRegularFile } from "../regularFile.js";
import { fileLines, LongLineError } from "./fileLines.js";

export interface JsonRecord {
  /** On which it begins, from 1. */
  line: number;
  bytes: Buffer;
}

/** Where a file is no sequence of records. */
export class RecordError extends Error {
  constructor(
    readonly line: number,
    message: string,
    cause?: unknown,
  ) {
    super(message, { cause });
  }
}

const NEWLINE = 0x0a;
const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const COMMA = 0x2c;
const OPENING_BRACKET = 0x5b;
const isOpening = (byte: number) => byte === OPENING_BRACKET || byte === 0x7b;
const isClosing = (byte: number) => byte === 0x5d || byte === 0x7d;
const isSpace = (byte: number) => byte === 0x20 || byte === 0x09 || byte === NEWLINE || byte === 0x0d;
const BYTE_ORDER_MARK = [0xef, 0xbb, 0xbf];

/**
 * A file's records in order; blank lines are none. Whether a record is valid JSON is for its reader to say.
 * @throws ModelFileError when it is no regular file, RecordError once it would hold more than `maxBytes` bytes of a record, and
 * for an array that does not end where the file does.
 */
export async function* jsonRecords(file: string, maxBytes: number): AsyncGenerator<JsonRecord> {
  if ((await firstByte(file)) === OPENING_BRACKET) yield* elements(file, maxBytes);
  else yield* lines(file, maxBytes);
}

/** The first one that is no white space, null where there is none. */
async function firstByte(file: string): Promise<number | null> {
  const handle = await openRegularFile(file);
  let marks = 0;
  for await (const chunk of handle.createReadStream() as AsyncIterable<Buffer>) {
    for (const byte of chunk) {
      if (byte === BYTE_ORDER_MARK[marks]) marks += 1;
      else if (!isSpace(byte)) return byte;
    }
  }
  return null;
}

const tooLong = (line: number, maxBytes: number, cause?: unknown) =>
  new RecordError(line, `is longer than ${maxBytes} bytes`, cause);

async function* lines(file: string, maxBytes: number): AsyncGenerator<JsonRecord> {
  let line = 0;
  try {
    for await (const bytes of fileLines(file, maxBytes)) {
      line += 1;
      if (!bytes.every(isSpace)) yield { line, bytes };
    }
  } catch (error) {
    throw error instanceof LongLineError ? tooLong(line + 1, maxBytes, error) : error;
  }
}

async function* elements(file: string, maxBytes: number): AsyncGenerator<JsonRecord> {
  const reader = new ArrayReader();
  const handle = await openRegularFile(file);
  for await (const chunk of handle.createReadStream() as AsyncIterable<Buffer>) {
    yield* reader.read(chunk);
    if (reader.held > maxBytes) throw tooLong(reader.line, maxBytes);
  }
  if (!reader.isOver) throw new RecordError(reader.line, "the file ends before the array does");
}

/** Cuts an array that comes in pieces where its elements end; what is in them is told apart only as far as that needs. */
class ArrayReader {
  /** After the closing bracket. */
  isOver = false;
  /** Bytes of an element that has not ended. */
  held = 0;
  #line = 1;
  /** Of brackets and braces that are open: 1 between elements. */
  #depth = 0;
  #isText = false;
  #isEscaped = false;
  /** What has come of an element. */
  #pieces: Buffer[] = [];
  /** On which line the element began; null where only white space has come. */
  #begins: number | null = null;
  #isFirst = true;

  /** Of the element that has begun, or of what comes next. */
  get line(): number {
    return this.#begins ?? this.#line;
  }

  /** @throws RecordError for anything but white space after the array. */
  *read(chunk: Buffer): Generator<JsonRecord> {
    let start = 0;
    for (let at = 0; at < chunk.length; at++) {
      const byte = chunk[at]!;
      if (byte === NEWLINE) this.#line += 1;
      if (this.#isText) {
        this.#readText(byte);
        continue;
      }
      if (isSpace(byte)) continue;
      if (this.isOver) throw new RecordError(this.#line, "something follows the end of the array");
      if (this.#depth === 1 && (byte === COMMA || isClosing(byte))) {
        const isEmpty = this.#isFirst && this.#begins === null && byte !== COMMA;
        if (!isEmpty) yield { line: this.line, bytes: Buffer.concat([...this.#pieces, chunk.subarray(start, at)]) };
        this.#isFirst = false;
        this.#pieces = [];
        this.#begins = null;
        this.held = 0;
        start = at + 1;
      } else if (this.#depth > 0) this.#begins ??= this.#line;
      if (byte === QUOTE) this.#isText = true;
      else if (isOpening(byte)) {
        this.#depth += 1;
        if (this.#depth === 1) start = at + 1;
      } else if (isClosing(byte)) {
        this.#depth -= 1;
        this.isOver = this.#depth === 0;
      }
    }
    if (this.#depth === 0) return;
    this.#pieces.push(chunk.subarray(start));
    this.held += chunk.length - start;
  }

  #readText(byte: number): void {
    if (this.#isEscaped) this.#isEscaped = false;
    else if (byte === BACKSLASH) this.#isEscaped = true;
    else if (byte === QUOTE) this.#isText = false;
  }
}
