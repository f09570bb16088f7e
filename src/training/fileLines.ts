// Files of lines: read one line after the other, and written many at once.

import { openRegularFile } from "../regularFile.js";

const NEWLINE = 0x0a;
const RETURN = 0x0d;

/** A line that is longer than its reader takes, told before it is held in memory. */
export class LongLineError extends Error {}

/**
 * A file's lines as bytes, without the "\n" or "\r\n" that ends them. `node:readline` would not do: in newer versions of
 * Node it also ends lines at U+2028 and U+2029, which stand unescaped in the strings of valid JSON.
 * @throws ModelFileError when it is no regular file, LongLineError once it would hold more than `maxBytes` bytes of a line.
 */
export async function* fileLines(file: string, maxBytes = Number.POSITIVE_INFINITY): AsyncGenerator<Buffer> {
  let begun: Buffer[] = [];
  let held = 0;
  // Closed with its stream.
  const handle = await openRegularFile(file);
  for await (const chunk of handle.createReadStream() as AsyncIterable<Buffer>) {
    let start = 0;
    for (let end = chunk.indexOf(NEWLINE); end >= 0; end = chunk.indexOf(NEWLINE, start)) {
      yield joined([...begun, chunk.subarray(start, end)]);
      begun = [];
      held = 0;
      start = end + 1;
    }
    if (start < chunk.length) begun.push(chunk.subarray(start));
    held += chunk.length - start;
    if (held > maxBytes) throw new LongLineError(`a line is longer than ${maxBytes} bytes`);
  }
  if (begun.length > 0) yield joined(begun);
}

/** Characters, about. */
const CHUNK_CHARACTERS = 2 ** 18;

/** Lines, each with its end, as bytes to be written: many in a chunk. */
export async function* linesInChunks(lines: AsyncIterable<string>): AsyncGenerator<Uint8Array> {
  let chunk = "";
  for await (const line of lines) {
    chunk += line;
    if (chunk.length < CHUNK_CHARACTERS) continue;
    yield Buffer.from(chunk);
    chunk = "";
  }
  yield Buffer.from(chunk);
}

function joined(pieces: Buffer[]): Buffer {
  const line = Buffer.concat(pieces);
  return line.at(-1) === RETURN ? line.subarray(0, -1) : line;
}
