// Which pages each sequence holds: allocation, sharing between forks, copy on write, release; and those of layers with a
// window only as long as a token can see them.

import { PAGE_SIZE, type PageGroups } from "./pageGroups.js";
import type { PagePool } from "./pagePool.js";
import type { RecurrentStates } from "./recurrentStates.js";
import type { Sequence } from "./sequence.js";

/** Page `from[i]` is copied to `to[i]`, in order, before the step runs. */
export interface PageCopies {
  from: number[];
  to: number[];
}

/** Changes the page tables of sequences, and gathers the page copies that the step being built needs first. */
export class PageTables {
  private copies: PageCopies = { from: [], to: [] };

  constructor(
    private readonly pool: PagePool,
    private readonly groups: PageGroups,
    private readonly recurrentStates: RecurrentStates,
  ) {}

  /** Begins a step: the copies that its sequences need gather in what is returned. */
  beginStep(): PageCopies {
    this.copies = { from: [], to: [] };
    return this.copies;
  }

  /**
   * Gives `child` the pages that hold the first `tokens` tokens of `parent`; a page written to later is copied then.
   */
  share(parent: Sequence, child: Sequence, tokens: number): void {
    const { count } = this.groups;
    const blocks = Math.ceil(tokens / PAGE_SIZE);
    for (let i = 0; i < blocks; i++) this.retain(child, parent.pageTable.subarray(i * count, (i + 1) * count));
    child.computed = tokens;
  }

  /** Whether a sequence has all pages that a token at `position` sees. */
  sees(sequence: Sequence, position: number): boolean {
    const { groups } = this;
    for (let group = 0; group < groups.count; group++) {
      // Pages are given up in order.
      const at = groups.unseen(group, position) * groups.count + group;
      if (at < sequence.pageTable.length && sequence.pageTable[at]! < 0) return false;
    }
    return true;
  }

  /** Lets `sequence` hold the pages of a block as well, behind those it has. */
  retain(sequence: Sequence, pages: ArrayLike<number>): void {
    for (let group = 0; group < pages.length; group++) if (pages[group]! >= 0) this.pool.retain(pages[group]!);
    sequence.addBlock(pages);
  }

  /** Begins the next block of `sequence` with a copy of `pages`; false when there are no pages for it. */
  addCopyOf(sequence: Sequence, pages: readonly number[]): boolean {
    const { pool } = this;
    // Held meanwhile, so that they are not those taken.
    for (const page of pages) pool.retain(page);
    const taken = pool.free < pages.length ? null : pages.map(() => pool.take());
    for (const page of pages) pool.release(page);
    if (taken === null) return false;
    sequence.addBlock(taken);
    for (const [i, page] of pages.entries()) this.copy(page, taken[i]!);
    return true;
  }

  /**
   * Pages for `chunk` more tokens, the first of them this sequence's alone; false, without new ones, where there are not
   * enough. Those that no token will see again are given up.
   */
  reserve(sequence: Sequence, chunk: number): boolean {
    const { pool, groups } = this;
    this.releaseUnseen(sequence);
    const first = Math.floor(sequence.computed / PAGE_SIZE) * groups.count;
    const needed = Math.ceil((sequence.computed + chunk) / PAGE_SIZE);
    const shared: number[] = [];
    for (let at = first; at < Math.min(first + groups.count, sequence.pageTable.length); at++) {
      if (pool.isShared(sequence.pageTable[at]!)) shared.push(at);
    }
    if (Math.max(0, needed - sequence.blockCount) * groups.count + shared.length > pool.free) return false;
    for (const at of shared) {
      const from = sequence.pageTable[at]!;
      const to = pool.take();
      pool.release(from);
      sequence.replacePage(at, to);
      // At the start of a page nothing in it is kept.
      if (sequence.computed % PAGE_SIZE > 0) this.copy(from, to);
    }
    while (sequence.blockCount < needed) this.addBlock(sequence);
    const withLookahead = Math.ceil(sequence.positionsWithLookahead(chunk) / PAGE_SIZE);
    while (sequence.blockCount < withLookahead && pool.free >= groups.count) this.addBlock(sequence);
    return true;
  }

  /** Its recurrent state too. The end of the sequence first, so that what others are likelier to share is evicted last. */
  release(sequence: Sequence): void {
    this.recurrentStates.release(sequence);
    for (let at = sequence.pageTable.length - 1; at >= 0; at--) {
      if (sequence.pageTable[at]! >= 0) this.pool.release(sequence.pageTable[at]!);
    }
    sequence.clearPages();
  }

  private addBlock(sequence: Sequence): void {
    sequence.addBlock(Array.from(this.groups.windows, () => this.pool.take()));
  }

  /** Steps in flight may still read them: they run before whatever writes the pages next. */
  private releaseUnseen(sequence: Sequence): void {
    const { groups, pool } = this;
    for (let group = 0; group < groups.count; group++) {
      const unseen = Math.min(groups.unseen(group, sequence.computed), sequence.blockCount);
      for (let block = unseen - 1; block >= 0; block--) {
        const at = block * groups.count + group;
        if (sequence.pageTable[at]! < 0) break;
        pool.release(sequence.pageTable[at]!);
        sequence.replacePage(at, -1);
      }
    }
  }

  private copy(from: number, to: number): void {
    this.copies.from.push(from);
    this.copies.to.push(to);
  }
}
