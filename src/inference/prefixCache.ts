// Prefix cache: which tokens of a sequence need not be computed, since a page that is still there holds them.
// Prefixes are hashed at every 16th token, so that a hit may end inside a page; the sequence then goes on in a copy
// of it.

import { createHash } from "node:crypto";
import { PAGE_SIZE, type PageGroups } from "./pageGroups.js";
import type { PagePool } from "./pagePool.js";
import type { PageTables } from "./pageTables.js";
import type { RecurrentStates } from "./recurrentStates.js";
import type { Sequence } from "./sequence.js";

/** Tokens from one prefix hash to the next. */
const HASH_STRIDE = 16;
const HASHES_PER_PAGE = PAGE_SIZE / HASH_STRIDE;

/** Finds pages by the tokens they were computed from, and makes new ones findable. */
export class PrefixCache {
  /** Prompt tokens looked up, and found. */
  queries = 0;
  hits = 0;
  /** Hashes of the pages that the step being built fills. */
  private filling = new Set<string>();

  constructor(
    private readonly pool: PagePool,
    private readonly tables: PageTables,
    private readonly groups: PageGroups,
    private readonly recurrentStates: RecurrentStates,
  ) {}

  /** Counts the first admission of a prompt. */
  count(sequence: Sequence): void {
    sequence.cachedTokens = sequence.computed;
    this.queries += sequence.promptLength;
    this.hits += sequence.computed;
  }

  /** Begins to admit sequences to a step in which `scheduled` take part already. */
  beginAdmission(scheduled: readonly Sequence[]): void {
    this.filling = new Set();
    for (const sequence of scheduled) this.willFill(sequence);
  }

  /**
   * Notes the pages that the chunk given to `sequence` fills: whoever needs one of them waits rather than computing it
   * too.
   */
  willFill(sequence: Sequence): void {
    if (sequence.chunk <= 1) return;
    const full = Math.floor(Math.min(sequence.computed + sequence.chunk, sequence.length) / PAGE_SIZE);
    for (let i = Math.floor(sequence.computed / PAGE_SIZE); i < full; i++) this.filling.add(pageHash(sequence, i));
  }

  /**
   * Cached pages of the longest prefix, the last token left out: its logits are needed. Of each block those of all groups,
   * -1 where the tokens after the prefix do not see them. Of a model with recurrent layers, the longest prefix whose state was
   * kept; where more pages than that are there, notes on the sequence where its state should be kept this time (`branchesAt`).
   * null when the next page is just being filled.
   */
  match(sequence: Sequence): number[][] | null {
    if (!sequence.request.useCache) return [];
    const { groups } = this;
    const found: number[][] = [];
    const fullBlocks = Math.floor((sequence.length - 1) / PAGE_SIZE);
    /** Of each group, the block from which on all up to here are cached. */
    const cachedFrom = new Array<number>(groups.count).fill(0);
    /** Leading blocks whose keys and values are cached as far as they are seen, and those of them behind which the sequence can begin. */
    let common = 0;
    let matched = 0;
    for (let i = 0; i < fullBlocks; i++) {
      const pages = this.find(pageHash(sequence, i));
      found.push(pages);
      for (const [group, page] of pages.entries()) if (page < 0) cachedFrom[group] = i + 1;
      if (cachedFrom.some((from, group) => from > 0 && groups.windows[group] === 0)) break;
      if (cachedFrom.some((from, group) => from > groups.unseen(group, (i + 1) * PAGE_SIZE))) continue;
      common = i + 1;
      if (this.recurrentStates.has(sequence, common * PAGE_SIZE)) matched = common;
    }
    if (common < fullBlocks && this.filling.has(pageHash(sequence, common))) return null;
    if (matched < common) sequence.branchesAt = common * PAGE_SIZE;
    found.length = matched;
    for (let group = 0; group < groups.count; group++) {
      const unseen = groups.unseen(group, matched * PAGE_SIZE);
      for (let i = 0; i < unseen; i++) found[i]![group] = -1;
    }
    return found;
  }

  /** Gives a sequence without pages those matched, and a copy of the page whose beginning it shares after them. */
  load(sequence: Sequence, matched: readonly number[][]): void {
    for (const pages of matched) this.tables.retain(sequence, pages);
    sequence.computed = matched.length * PAGE_SIZE;
    this.recurrentStates.restore(sequence, sequence.computed);
    // There are no states within pages.
    if (!sequence.request.useCache || this.recurrentStates.count > 0) return;
    const first = matched.length * HASHES_PER_PAGE;
    const last = Math.min(first + HASHES_PER_PAGE - 1, Math.floor((sequence.length - 1) / HASH_STRIDE));
    for (let end = last; end > first; end--) {
      const pages = this.find(prefixHash(sequence, end - 1));
      if (pages.some((page) => page < 0)) continue;
      if (this.tables.addCopyOf(sequence, pages)) sequence.computed = end * HASH_STRIDE;
      return;
    }
  }

  /** Makes findable what has been filled with known tokens since the last call. */
  publish(sequence: Sequence): void {
    const full = Math.floor(Math.min(sequence.computed, sequence.length) / HASH_STRIDE);
    const { count } = this.groups;
    for (let i = sequence.publishedHashes; i < full; i++) {
      const from = Math.floor(i / HASHES_PER_PAGE) * count;
      for (let group = 0; group < count; group++) {
        const page = sequence.pageTable[from + group]!;
        if (page >= 0) this.pool.publish(page, groupHash(prefixHash(sequence, i), group));
      }
    }
    sequence.publishedHashes = Math.max(sequence.publishedHashes, full);
  }

  /** Pages of all groups under this hash; -1: not there. */
  private find(hash: string): number[] {
    return Array.from(this.groups.windows, (_, group) => this.pool.find(groupHash(hash, group)));
  }
}

const groupHash = (hash: string, group: number): string => (group === 0 ? hash : `${group} ${hash}`);

/** Of the first `tokens` tokens, however many, which must be known. */
export function hashOfTokens(sequence: Sequence, tokens: number): string {
  const strides = Math.floor(tokens / HASH_STRIDE);
  const hash = strides === 0 ? rootHash(sequence) : prefixHash(sequence, strides - 1);
  const rest = sequence.tokens.subarray(strides * HASH_STRIDE, tokens);
  return rest.length === 0 ? hash : chainedHash(hash, rest);
}

/** Of the tokens up to the end of page `at`, which must be known. */
function pageHash(sequence: Sequence, at: number): string {
  return prefixHash(sequence, (at + 1) * HASHES_PER_PAGE - 1);
}

/** Of the first (at + 1) * HASH_STRIDE tokens, which must be known, under the weights that compute them. */
function prefixHash(sequence: Sequence, at: number): string {
  const { prefixHashes: hashes, source } = sequence;
  const fromSource = source === null ? 0 : Math.floor(sequence.promptLength / HASH_STRIDE);
  if (at < fromSource) return prefixHash(source!, at);
  for (let i = hashes.length; i < fromSource; i++) hashes.push(prefixHash(source!, i));
  for (let i = hashes.length; i <= at; i++) {
    const tokens = sequence.tokens.subarray(i * HASH_STRIDE, (i + 1) * HASH_STRIDE);
    hashes.push(chainedHash(hashes[i - 1] ?? rootHash(sequence), tokens));
  }
  return hashes[at]!;
}

/**
 * What else decides the content: the adapter version (a reloaded adapter is another version) and the request's salt.
 */
function rootHash({ request: { adapter, cacheSalt } }: Sequence): string {
  return createHash("sha256")
    .update(`${adapter}\n${cacheSalt === null ? "" : `=${cacheSalt}`}`)
    .digest("base64");
}

function chainedHash(prefix: string, tokens: Int32Array): string {
  return createHash("sha256")
    .update(prefix)
    .update(new Uint8Array(tokens.buffer, tokens.byteOffset, tokens.byteLength))
    .digest("base64");
}
