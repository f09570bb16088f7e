// The pages of the KV cache: reference counts, lookup by content, eviction of the least recently used.

const NONE = -1;

/**
 * All pages of one model's KV cache, by id from 0 on.
 *
 * Free pages stand in one list, first to be taken first: pages without known content in front, then cached pages by the
 * time they were freed. A cached page keeps its content, and can be shared again, until it is taken.
 */
export class PagePool {
  private readonly references: Int32Array;
  /** Of each page, the hashes by which it can be found. */
  private readonly hashesOf: string[][];
  private readonly pageOf = new Map<string, number>();
  // The free list: a ring through `pages` as the sentinel.
  private readonly next: Int32Array;
  private readonly previous: Int32Array;
  private freeCount: number;

  constructor(readonly pages: number) {
    this.references = new Int32Array(pages);
    this.hashesOf = Array.from({ length: pages }, () => []);
    this.next = new Int32Array(pages + 1);
    this.previous = new Int32Array(pages + 1);
    for (let i = 0; i <= pages; i++) {
      this.next[i] = i === pages ? 0 : i + 1;
      this.previous[i] = i === 0 ? pages : i - 1;
    }
    this.freeCount = pages;
  }

  /** Pages that no sequence holds, cached ones included. */
  get free(): number {
    return this.freeCount;
  }

  isHeld(page: number): boolean {
    return this.references[page]! > 0;
  }

  isShared(page: number): boolean {
    return this.references[page]! > 1;
  }

  /** A page to write into, held once; -1 when all are held. What was cached in it is forgotten. */
  take(): number {
    if (this.freeCount === 0) return NONE;
    const page = this.next[this.pages]!;
    this.unlink(page);
    this.forget(page);
    this.references[page] = 1;
    return page;
  }

  /** One more holder of a page, held or free. */
  retain(page: number): void {
    if (this.references[page] === 0) this.unlink(page);
    this.references[page]!++;
  }

  release(page: number): void {
    const left = --this.references[page]!;
    if (left > 0) return;
    if (this.hashesOf[page]!.length === 0) this.link(this.pages, page);
    else this.link(this.previous[this.pages]!, page);
  }

  /** The page published under this hash, or -1. */
  find(hash: string): number {
    return this.pageOf.get(hash) ?? NONE;
  }

  /** Makes a page findable. When another page holds the same already, that one stays. */
  publish(page: number, hash: string): void {
    if (this.pageOf.has(hash)) return;
    this.hashesOf[page]!.push(hash);
    this.pageOf.set(hash, page);
  }

  /** Forgets all cached content (after a failed step nobody knows what the pages hold). */
  forgetAll(): void {
    for (const page of this.pageOf.values()) this.hashesOf[page]!.length = 0;
    this.pageOf.clear();
  }

  private forget(page: number): void {
    const hashes = this.hashesOf[page]!;
    for (const hash of hashes) this.pageOf.delete(hash);
    hashes.length = 0;
  }

  private unlink(page: number): void {
    const before = this.previous[page]!;
    const after = this.next[page]!;
    this.next[before] = after;
    this.previous[after] = before;
    this.freeCount--;
  }

  private link(before: number, page: number): void {
    const after = this.next[before]!;
    this.next[before] = page;
    this.previous[page] = before;
    this.next[page] = after;
    this.previous[after] = page;
    this.freeCount++;
  }
}
