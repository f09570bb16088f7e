// Training rows laid out for the device: rows that begin alike share the computation of what they begin with.

import type { TrainRow } from "../runtime/runtime.js";
import type { TokenRow } from "./tokenRow.js";

/** Below this many tokens a shared beginning is not worth the copy of its last page. */
const MIN_SHARED_PREFIX = 16;

/** Tokens from which on a pass runs at full speed on a processor, which reads and transposes the weights once for it. */
export const FULL_SPEED_TOKENS = 256;

/**
 * A shared beginning of more tokens, or of a larger share of those in the pass so far, is worth a longer pass, rather than to be
 * computed again in the next one.
 */
const MAX_REPEATED_TOKENS = 256;
const MAX_REPEATED_SHARE = 1 / 8;

/** A row on the device: `tokens` are those after the prefix, and entry t of `trained` is about the one that follows token t. */
export type PackedRow = TrainRow & { trained: Uint8Array };

/**
 * Lays out rows in order, for one pass. A row continues an earlier whole row of the pass as far as both agree and nothing
 * of the shared part is predicted by it: its first trained prediction is made from a token of its own.
 */
export function packRows(rows: readonly TokenRow[]): PackedRow[] {
  const whole: number[] = [];
  return rows.map((row, index) => {
    const { prefix, length } = longestPrefix(rows, whole, row);
    if (prefix < 0) whole.push(index);
    const own = row.tokens.length - length;
    const trained = new Uint8Array(own);
    const temperatures = row.temperatures && new Float32Array(own).fill(1);
    for (let t = 0; t + 1 < own; t++) {
      trained[t] = row.trained[length + t + 1]!;
      if (temperatures && trained[t]) temperatures[t] = row.temperatures![length + t + 1]!;
    }
    const tokens = row.tokens.slice(length);
    return { tokens, trained, temperatures, ...(prefix < 0 ? {} : { prefix, prefixLength: length }) };
  });
}

export interface PassSizes {
  /** Tokens computed in one pass; a longer row runs alone. */
  maxTokens: number;
  /** Tokens after which rows that may be cut apart go on in another pass. */
  passTokens: number;
}

/** Rows `from` to `to` - 1, and how many tokens a pass over them computes. */
export interface PassRows {
  from: number;
  to: number;
  tokens: number;
}

/**
 * Cuts rows, in order, into passes of about `passTokens`, and no shorter than runs at full speed. Rows that belong together,
 * `rowsTogether` of them counted from the first, are not cut apart; what shares a long beginning is not either, up to
 * `maxTokens`.
 */
export function cutIntoPasses(
  rows: readonly TokenRow[],
  { maxTokens, passTokens }: PassSizes,
  rowsTogether = 1,
): PassRows[] {
  const passes: PassRows[] = [];
  let pass: PassRows | null = null;
  let whole: number[] = [];
  for (let from = 0; from < rows.length; from += rowsTogether) {
    const to = Math.min(rows.length, from + rowsTogether);
    let added = addedTo(whole, rows, from, to);
    if (pass && pass.tokens + added.tokens > Math.min(passTokens, maxTokens)) {
      const alone = addedTo([], rows, from, to);
      const isTooLong = pass.tokens + added.tokens > maxTokens;
      const maxRepeated = Math.min(MAX_REPEATED_TOKENS, pass.tokens * MAX_REPEATED_SHARE);
      const isLongEnough = pass.tokens >= FULL_SPEED_TOKENS && alone.tokens - added.tokens <= maxRepeated;
      if (isTooLong || isLongEnough) {
        pass = null;
        added = alone;
      }
    }
    if (!pass) {
      pass = { from, to, tokens: 0 };
      passes.push(pass);
    }
    pass.to = to;
    pass.tokens += added.tokens;
    whole = added.whole;
  }
  return passes;
}

/** Tokens that a pass over the rows computes: what a row shares with the first one is computed once. */
export function computedTokens(rows: readonly TokenRow[]): number {
  return rows.reduce((sum, row, r) => {
    const { length } = longestPrefix(rows, r === 0 ? [] : [0], row);
    return sum + row.tokens.length - length;
  }, 0);
}

/** What rows `from` to `to` - 1 add to a pass with these whole rows: tokens, and whole rows. */
function addedTo(whole: readonly number[], rows: readonly TokenRow[], from: number, to: number) {
  const known = [...whole];
  let tokens = 0;
  for (let r = from; r < to; r++) {
    const { prefix, length } = longestPrefix(rows, known, rows[r]!);
    if (prefix < 0) known.push(r);
    tokens += rows[r]!.tokens.length - length;
  }
  return { tokens, whole: known };
}

/** Among `candidates` (indices of whole rows) the one that shares most with `row`; prefix -1 when none shares enough. */
function longestPrefix(rows: readonly TokenRow[], candidates: readonly number[], row: TokenRow) {
  const first = row.trained.indexOf(1);
  const maxLength = (first < 0 ? row.tokens.length : first) - 1;
  let best = { prefix: -1, length: 0 };
  for (const prefix of candidates) {
    const length = Math.min(commonPrefix(rows[prefix]!.tokens, row.tokens), maxLength);
    if (length >= MIN_SHARED_PREFIX && length > best.length) best = { prefix, length };
  }
  return best;
}

function commonPrefix(a: Int32Array, b: Int32Array): number {
  const maxLength = Math.min(a.length, b.length);
  let length = 0;
  while (length < maxLength && a[length] === b[length]) length++;
  return length;
}
