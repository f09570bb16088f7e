// Hashes of what lies in large files, and what tells without reading them that it is still the same.

import { createHash } from "node:crypto";
import { type FileHandle, stat } from "node:fs/promises";
import { setTimeout as sleep } from "node:timers/promises";
import { ModelFileError } from "../errors.js";
import { fileStamp } from "../fileStamp.js";
import { openRegularFile, readAt } from "../regularFile.js";

/** A text, and the part of a file that comes after it. */
export interface Content {
  text: string;
  file: string;
  offset: number;
  bytes: number;
  /** Of the tensor that it is. */
  name?: string;
}

export interface ContentHash {
  /** SHA-256, as hex. A pass over the files, made once. */
  hash(): Promise<string>;
  /**
   * Another pass, which takes a quarter of the thread's time at most and keeps no process.
   * @throws AbortError
   */
  hashAtLeisure(signal: AbortSignal): Promise<string>;
  /**
   * What changes with the files as the file system tells it. null: they were changed so lately that it might not tell of a
   * further change.
   */
  stamp(): Promise<string | null>;
}

/** @throws (by its functions) ModelFileError for files that cannot be read, or end too early. */
export function contentHash(content: Iterable<Content>): ContentHash {
  const parts = [...content];
  let hash: Promise<string> | undefined;
  return {
    hash() {
      hash ??= hashOf(parts, async () => {});
      return hash;
    },
    hashAtLeisure(signal) {
      let worked = performance.now();
      return hashOf(parts, async () => {
        await sleep(REST_PER_WORK * (performance.now() - worked), undefined, { signal, ref: false });
        worked = performance.now();
      });
    },
    stamp: () => stampOf(parts),
  };
}

const REST_PER_WORK = 3;

async function stampOf(parts: readonly Content[]): Promise<string | null> {
  const hash = createHash("sha256").update(JSON.stringify(parts));
  for (const file of new Set(parts.map(({ file }) => file))) {
    const status = await stat(file, { bigint: true }).catch(() => null);
    const stamp = status && fileStamp(status);
    if (!stamp?.isSettled) return null;
    hash.update(stamp.text);
  }
  return hash.digest("hex");
}

/** Small tensors of a layer lie together, in another order than that of their names: files are read in blocks of this many bytes. */
const BLOCK_BYTES = 2 ** 20;
/** That are kept, the one that is read ahead included. */
const MAX_BLOCKS = 5;

async function hashOf(parts: readonly Content[], afterPiece: () => Promise<void>): Promise<string> {
  const hash = createHash("sha256");
  const blocks = new FileBlocks();
  const pieces = [...piecesOf(parts)];
  try {
    for (const [i, { part, text, index, from, to }] of pieces.entries()) {
      const reading = blocks.read(part.file, index);
      const next = pieces[i + 1];
      if (next) blocks.read(next.part.file, next.index);
      const content = await reading;
      if (content.length < to) {
        const reason = part.name === undefined ? "became shorter" : `ends inside ${part.name}`;
        throw new ModelFileError(part.file, reason, { param: part.name });
      }
      hash.update(text).update(content.subarray(from, to));
      await afterPiece();
    }
  } finally {
    await blocks.close();
  }
  return hash.digest("hex");
}

/** Bytes `from` to `to` of a block of the part's file, after a text. */
interface Piece {
  part: Content;
  text: string;
  index: number;
  from: number;
  to: number;
}

function* piecesOf(parts: readonly Content[]): Generator<Piece> {
  for (const part of parts) {
    const end = part.offset + part.bytes;
    let { text, offset } = part;
    do {
      const index = Math.floor(offset / BLOCK_BYTES);
      const start = index * BLOCK_BYTES;
      const to = Math.min(BLOCK_BYTES, end - start);
      yield { part, text, index, from: offset - start, to };
      text = "";
      offset = start + to;
    } while (offset < end);
  }
}

interface Block {
  file: string;
  index: number;
  memory: Buffer;
  /** What there is of it: the whole block but at a file's end. */
  content: Promise<Uint8Array>;
}

/** Files that are read in blocks, of which the last are kept. */
class FileBlocks {
  readonly #files = new Map<string, Promise<{ handle: FileHandle; size: number }>>();
  /** The last one asked for last. */
  readonly #blocks: Block[] = [];

  /** Valid until a few others have been asked for. */
  read(file: string, index: number): Promise<Uint8Array> {
    const at = this.#blocks.findIndex((block) => block.file === file && block.index === index);
    const block = at < 0 ? this.#begin(file, index) : this.#blocks.splice(at, 1)[0]!;
    this.#blocks.push(block);
    return block.content;
  }

  async close(): Promise<void> {
    for (const opening of this.#files.values()) await (await opening.catch(() => null))?.handle.close();
  }

  #begin(file: string, index: number): Block {
    const memory = this.#blocks.length < MAX_BLOCKS ? Buffer.allocUnsafe(BLOCK_BYTES) : this.#blocks.shift()!.memory;
    const content = this.#fill(file, index, memory);
    // Whoever waits for it is told.
    content.catch(() => {});
    return { file, index, memory, content };
  }

  async #fill(file: string, index: number, memory: Buffer): Promise<Uint8Array> {
    let opening = this.#files.get(file);
    if (!opening) {
      opening = openFile(file);
      this.#files.set(file, opening);
    }
    const { handle, size } = await opening;
    const content = memory.subarray(0, Math.max(0, Math.min(BLOCK_BYTES, size - index * BLOCK_BYTES)));
    const isWhole = await readAt(handle, content, index * BLOCK_BYTES);
    if (!isWhole) throw new ModelFileError(file, "became shorter while it was read");
    return content;
  }
}

async function openFile(file: string): Promise<{ handle: FileHandle; size: number }> {
  const handle = await openRegularFile(file);
  return { handle, size: (await handle.stat()).size };
}
