// An adapter as servers hand it out: a tar, compressed by gzip, of its two files.

import { createWriteStream } from "node:fs";
import { join } from "node:path";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { createGunzip } from "node:zlib";

const FILES = ["adapter_config.json", "adapter_model.safetensors"];
const BLOCK = 512;
/** A configuration is small, an adapter not larger than what is trained in memory. */
const MAX_BYTES = 2 ** 36;

/** An archive that is none, or lacks a file; the caller knows whose it is. */
export class ArchiveError extends Error {}

/** Writes the adapter's files into an existing folder, and nothing else of the archive. @throws ArchiveError */
export async function unpackAdapter(body: AsyncIterable<Uint8Array>, folder: string): Promise<void> {
  const found = new Set<string>();
  const bytes = new Pieces(gunzip(body));
  try {
    for (;;) {
      const header = await bytes.take(BLOCK);
      // Two empty blocks end an archive; what follows them is padding.
      if (header === null || header.every((byte) => byte === 0)) break;
      const { name, type, size } = readHeader(header);
      const file = name.split("/").at(-1)!;
      const isWanted = (type === "0" || type === "\0") && FILES.includes(file) && !found.has(file);
      const content = bytes.pieces(size);
      if (isWanted) {
        await pipeline(content, createWriteStream(join(folder, file)));
        found.add(file);
      } else for await (const _ of content);
      await bytes.take((BLOCK - (size % BLOCK)) % BLOCK);
    }
  } catch (error) {
    if (error instanceof ArchiveError) throw error;
    throw new ArchiveError(`it is damaged: ${(error as Error).message}`);
  }
  const missing = FILES.find((file) => !found.has(file));
  if (missing) throw new ArchiveError(`it holds no ${missing}`);
}

/** A connection that breaks ends the reading as well. */
function gunzip(body: AsyncIterable<Uint8Array>): AsyncIterable<Buffer> {
  const unzipped = createGunzip();
  const source = Readable.from(body);
  source.on("error", (error) => unzipped.destroy(error));
  return source.pipe(unzipped);
}

function readHeader(header: Buffer): { name: string; type: string; size: number } {
  const text = (from: number, length: number) => header.toString("latin1", from, from + length).split("\0")[0]!;
  const sum = header.reduce((total, byte, i) => total + (i >= 148 && i < 156 ? 32 : byte), 0);
  if (sum !== Number.parseInt(text(148, 8).trim(), 8)) throw new ArchiveError("it is no tar archive");
  // Sizes that eight octal digits cannot hold are written in binary.
  const size =
    header[124]! & 0x80 ? Number(header.readBigUInt64BE(128)) : Number.parseInt(text(124, 12).trim() || "0", 8);
  if (!(size >= 0 && size <= MAX_BYTES)) throw new ArchiveError(`it says that a file has ${size} bytes`);
  return { name: text(0, 100), type: String.fromCharCode(header[156]!), size };
}

/** A stream of bytes, taken in amounts of the reader's choice. */
class Pieces {
  readonly #chunks: AsyncIterator<Buffer>;
  #rest: Buffer = Buffer.alloc(0);

  constructor(stream: AsyncIterable<Buffer>) {
    this.#chunks = stream[Symbol.asyncIterator]();
  }

  /** null: the stream has ended. */
  async take(count: number): Promise<Buffer | null> {
    const parts: Buffer[] = [];
    for await (const part of this.pieces(count, true)) parts.push(part);
    const whole = Buffer.concat(parts);
    return whole.length === count ? whole : null;
  }

  async *pieces(count: number, mayEnd = false): AsyncGenerator<Buffer> {
    for (let left = count; left > 0; ) {
      if (this.#rest.length === 0) {
        const { done, value } = await this.#chunks.next();
        if (done) {
          if (mayEnd) return;
          throw new ArchiveError("it ends in the middle of a file");
        }
        this.#rest = value;
        continue;
      }
      const part = this.#rest.subarray(0, left);
      this.#rest = this.#rest.subarray(part.length);
      left -= part.length;
      yield part;
    }
  }
}
