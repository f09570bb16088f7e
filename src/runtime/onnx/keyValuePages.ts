// Keys and values of all sequences, in pages of 64 positions: what block tables lead to. ONNX graphs take them as one tensor per layer,
// in which sequences of a batch are equally long.

import { CACHE_BYTES, type CacheTensor, type CacheType } from "./decoderLayout.js";

const PAGE_SIZE = 64;

export type CacheValues = Float32Array | Uint16Array;

/** Positions 0 .. length - 1 of a sequence. */
export interface PagedRow {
  blocks: Int32Array;
  length: number;
}

/** One page's share of a cache tensor is [heads][64][width]. */
export class KeyValuePages {
  private readonly stores: CacheValues[];
  /** Of each page, how often it has been written. */
  private readonly writes: Int32Array;

  constructor(
    private readonly caches: readonly CacheTensor[],
    pages: number,
  ) {
    this.writes = new Int32Array(pages);
    this.stores = caches.map((cache) => emptyValues(cache.type, pages * cache.heads * PAGE_SIZE * cache.width));
  }

  /** How often the pages of these positions have been written: the same numbers mean the same content. */
  writesOf({ blocks, length }: PagedRow): number[] {
    return Array.from(blocks.subarray(0, Math.ceil(length / PAGE_SIZE)), (page) => this.writes[page]!);
  }

  /** [rows][heads][positions][width] of cache tensor `at`; row i begins `offsets[i]` positions after the first. */
  gather(at: number, rows: readonly PagedRow[], offsets: readonly number[], positions: number): CacheValues {
    const cache = this.caches[at]!;
    const { heads, width } = cache;
    const store = this.stores[at]!;
    const values = emptyValues(cache.type, rows.length * heads * positions * width);
    for (const [row, { blocks, length }] of rows.entries()) {
      for (let from = 0; from < length; from += PAGE_SIZE) {
        const page = blocks[from / PAGE_SIZE]!;
        const count = Math.min(PAGE_SIZE, length - from) * width;
        for (let head = 0; head < heads; head++) {
          const source = (page * heads + head) * PAGE_SIZE * width;
          const target = ((row * heads + head) * positions + offsets[row]! + from) * width;
          values.set(store.subarray(source, source + count), target);
        }
      }
    }
    return values;
  }

  /**
   * Writes positions `from` to `to` of a sequence out of row `row` of [rows][heads][positions][width], where its first
   * position stands at `offset`.
   */
  scatter(
    at: number,
    values: CacheValues,
    positions: number,
    { row, offset, from, to, blocks }: { row: number; offset: number; from: number; to: number; blocks: Int32Array },
  ): void {
    const { heads, width } = this.caches[at]!;
    const store = this.stores[at]!;
    for (let position = from; position < to; ) {
      const page = blocks[Math.floor(position / PAGE_SIZE)]!;
      const inPage = position % PAGE_SIZE;
      const count = Math.min(PAGE_SIZE - inPage, to - position);
      if (at === 0) this.writes[page]!++;
      for (let head = 0; head < heads; head++) {
        const source = ((row * heads + head) * positions + offset + position) * width;
        const target = ((page * heads + head) * PAGE_SIZE + inPage) * width;
        store.set(values.subarray(source, source + count * width), target);
      }
      position += count;
    }
  }

  /** Page `from[i]` to page `to[i]`, in order. */
  copy(from: Int32Array, to: Int32Array): void {
    for (const [i, source] of from.entries()) {
      const target = to[i]!;
      this.writes[target]!++;
      for (const [at, { heads, width }] of this.caches.entries()) {
        const size = heads * PAGE_SIZE * width;
        this.stores[at]!.copyWithin(target * size, source * size, (source + 1) * size);
      }
    }
  }
}

/** Bytes of a page. */
export function pageBytes(caches: readonly CacheTensor[]): number {
  return caches.reduce((sum, { heads, width, type }) => sum + heads * PAGE_SIZE * width * CACHE_BYTES[type], 0);
}

export function emptyValues(type: CacheType, length: number): CacheValues {
  return type === "float16" ? new Uint16Array(length) : new Float32Array(length);
}
