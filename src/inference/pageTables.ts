// Which pages each sequence holds: allocation, sharing between forks, copy on write, release.

import { PAGE_SIZE, type PagePool } from "./pagePool.js";
import type { Sequence } from "./sequence.js";

/** Page `from[i]` is copied to `to[i]`, in order, before the step runs. */
export interface PageCopies {
  from: number[];
  to: number[];
}

/** Changes the page tables of sequences, and gathers the page copies that the step being built needs first. */
export class PageTables {
  private copies: PageCopies = { from: [], to: [] };

  constructor(private readonly pool: PagePool) {}

  /** Begins a step: the copies that its sequences need gather in what is returned. */
  beginStep(): PageCopies {
    this.copies = { from: [], to: [] };
    return this.copies;
  }

  /**
   * Gives `child` the pages that hold the first `tokens` tokens of `parent`; a page written to later is copied then.
   */
  share(parent: Sequence, child: Sequence, tokens: number): void {
    const pages = Math.ceil(tokens / PAGE_SIZE);
    for (let i = 0; i < pages; i++) this.retain(child, parent.pageTable[i]!);
    child.computed = tokens;
  }

  /** Lets `sequence` hold `page` as well, behind those it has. */
  retain(sequence: Sequence, page: number): void {
    this.pool.retain(page);
    sequence.addPage(page);
  }

  /** Begins the next page of `sequence` with a copy of `page`; false when there is no page for it. */
  addCopyOf(sequence: Sequence, page: number): boolean {
    const { pool } = this;
    // Held meanwhile, so that it is not the one taken.
    pool.retain(page);
    const to = pool.take();
    pool.release(page);
    if (to < 0) return false;
    sequence.addPage(to);
    this.copy(page, to);
    return true;
  }

  /**
   * Pages for `chunk` more tokens, the first of them this sequence's alone; false, with nothing changed, without
   * enough.
   */
  reserve(sequence: Sequence, chunk: number): boolean {
    const { pool } = this;
    const first = Math.floor(sequence.computed / PAGE_SIZE);
    const needed = Math.ceil((sequence.computed + chunk) / PAGE_SIZE);
    const isShared = first < sequence.pageTable.length && pool.isShared(sequence.pageTable[first]!);
    if (needed - sequence.pageTable.length + (isShared ? 1 : 0) > pool.free) return false;
    if (isShared) {
      const from = sequence.pageTable[first]!;
      const to = pool.take();
      pool.release(from);
      sequence.replacePage(first, to);
      // At the start of a page nothing in it is kept.
      if (sequence.computed % PAGE_SIZE > 0) this.copy(from, to);
    }
    while (sequence.pageTable.length < needed) sequence.addPage(pool.take());
    const withLookahead = Math.ceil(sequence.positionsWithLookahead(chunk) / PAGE_SIZE);
    while (sequence.pageTable.length < withLookahead && pool.free > 0) sequence.addPage(pool.take());
    return true;
  }

  /** The end of the sequence first, so that what others are likelier to share is evicted last. */
  release(sequence: Sequence): void {
    for (let i = sequence.pageTable.length - 1; i >= 0; i--) this.pool.release(sequence.pageTable[i]!);
    sequence.clearPages();
  }

  private copy(from: number, to: number): void {
    this.copies.from.push(from);
    this.copies.to.push(to);
  }
}
