// Which layers have pages of their own: those that see a window only need no page that lies before it.

/** Positions per page. */
export const PAGE_SIZE = 64;

/** Those of 16 million positions: more than any model has. */
const MAX_BLOCKS = 2 ** 24 / PAGE_SIZE;

/**
 * The groups of layers of a model. A sequence's positions are cut into blocks of 64; each block has a page of every group,
 * as long as the group's layers see it.
 */
export class PageGroups {
  /** Of each group, the positions that its layers see, the token's own included; 0: all before it. */
  constructor(readonly windows: ArrayLike<number> = [0]) {}

  get count(): number {
    return this.windows.length;
  }

  /** Blocks at the beginning of a sequence that layers of a group do not see from `position` on. */
  unseen(group: number, position: number): number {
    const window = this.windows[group]!;
    return window === 0 ? 0 : Math.floor(Math.max(0, position - window + 1) / PAGE_SIZE);
  }

  /** Pages at most that a sequence of so many tokens holds, where at most `chunk` of them are computed at a time. */
  pagesOf(tokens: number, chunk: number): number {
    const blocks = Math.ceil(tokens / PAGE_SIZE);
    let pages = 0;
    for (let group = 0; group < this.count; group++) {
      const window = this.windows[group]!;
      // A chunk sees window + chunk - 1 positions, which may begin anywhere in a block.
      const seen = Math.ceil((window + chunk - 2) / PAGE_SIZE) + 1;
      pages += window === 0 ? blocks : Math.min(blocks, Math.max(1, seen));
    }
    return pages;
  }

  /** Tokens that a sequence may have where there are so many pages. */
  tokensWithin(pages: number, chunk: number): number {
    let low = 0;
    let high = MAX_BLOCKS;
    while (low < high) {
      const middle = Math.ceil((low + high) / 2);
      if (this.pagesOf(middle * PAGE_SIZE, chunk) <= pages) low = middle;
      else high = middle - 1;
    }
    return low * PAGE_SIZE;
  }
}
