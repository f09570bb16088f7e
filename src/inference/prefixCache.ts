// Prefix cache: which tokens of a sequence need not be computed, since a page that is still there holds them.
// Prefixes are hashed at every 16th token, so that a hit may end inside a page; the sequence then goes on in a copy
// of it.

import { createHash } from "node:crypto";
import { PAGE_SIZE, type PagePool } from "./pagePool.js";
import type { PageTables } from "./pageTables.js";
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
   * Cached pages of the longest prefix, the last token left out: its logits are needed. null when the next page is just
   * being filled.
   */
  match(sequence: Sequence): number[] | null {
    const found: number[] = [];
    if (!sequence.request.useCache) return found;
    const fullPages = Math.floor((sequence.length - 1) / PAGE_SIZE);
    for (let i = 0; i < fullPages; i++) {
      const hash = pageHash(sequence, i);
      const page = this.pool.find(hash);
      if (page < 0) return this.filling.has(hash) ? null : found;
      found.push(page);
    }
    return found;
  }

  /** Gives a sequence without pages those matched, and a copy of the page whose beginning it shares after them. */
  load(sequence: Sequence, matched: readonly number[]): void {
    for (const page of matched) this.tables.retain(sequence, page);
    sequence.computed = matched.length * PAGE_SIZE;
    if (!sequence.request.useCache) return;
    const first = matched.length * HASHES_PER_PAGE;
    const last = Math.min(first + HASHES_PER_PAGE - 1, Math.floor((sequence.length - 1) / HASH_STRIDE));
    for (let end = last; end > first; end--) {
      const page = this.pool.find(prefixHash(sequence, end - 1));
      if (page < 0) continue;
      if (this.tables.addCopyOf(sequence, page)) sequence.computed = end * HASH_STRIDE;
      return;
    }
  }

  /** Makes findable what has been filled with known tokens since the last call. */
  publish(sequence: Sequence): void {
    const full = Math.floor(Math.min(sequence.computed, sequence.length) / HASH_STRIDE);
    for (let i = sequence.publishedHashes; i < full; i++) {
      this.pool.publish(sequence.pageTable[Math.floor(i / HASHES_PER_PAGE)]!, prefixHash(sequence, i));
    }
    sequence.publishedHashes = Math.max(sequence.publishedHashes, full);
  }
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
