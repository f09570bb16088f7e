// Where one text occurs in another, in time that grows with their lengths only.

import { budget } from "./budget.js";

/**
 * Beyond this a part is sought by Knuth, Morris and Pratt's algorithm: the engine's own search compares up to the whole
 * part at every place, which short parts bound.
 */
const MAX_NATIVE_LENGTH = 64;

/** Index of the first occurrence of `part` from `from` on, or -1. */
export function indexOf(text: string, part: string, from = 0): number {
  charge(text.length - from, part.length);
  if (part.length <= MAX_NATIVE_LENGTH) return text.indexOf(part, from);
  for (const index of matches(text, part, from)) return index;
  return -1;
}

/** Index of the last occurrence, or -1. */
export function lastIndexOf(text: string, part: string): number {
  charge(text.length, part.length);
  if (part.length <= MAX_NATIVE_LENGTH) return text.lastIndexOf(part);
  let last = -1;
  for (const index of matches(text, part, 0)) last = index;
  return last;
}

/** Indices of the occurrences that do not overlap, from the left, `limit` at most. Charges a step for each. */
export function occurrences(text: string, part: string, limit = Number.POSITIVE_INFINITY): number[] {
  const found: number[] = [];
  if (limit <= 0) return found;
  charge(text.length, part.length);
  const take = (index: number): boolean => {
    budget().step();
    return found.push(index) < limit;
  };
  if (part.length <= MAX_NATIVE_LENGTH) {
    for (let at = text.indexOf(part); at >= 0 && take(at); at = text.indexOf(part, at + part.length));
    return found;
  }
  let free = 0;
  for (const index of matches(text, part, 0)) {
    if (index < free) continue;
    free = index + part.length;
    if (!take(index)) break;
  }
  return found;
}

/** The same from the right: rising indices of the last occurrences that do not overlap. */
export function occurrencesFromRight(text: string, part: string, limit: number): number[] {
  const found: number[] = [];
  charge(text.length, part.length);
  if (part.length <= MAX_NATIVE_LENGTH) {
    for (let end = text.length; found.length < limit && end >= part.length; ) {
      budget().step();
      const at = text.lastIndexOf(part, end - part.length);
      if (at < 0) break;
      found.push(at);
      end = at;
    }
    return found.reverse();
  }
  const all = Array.from(matches(text, part, 0));
  let end = text.length;
  for (let next = all.length - 1; next >= 0 && found.length < limit; next--) {
    if (all[next]! + part.length > end) continue;
    found.push(all[next]!);
    end = all[next]!;
  }
  return found.reverse();
}

function charge(text: number, part: number): void {
  budget().step(1 + (part <= MAX_NATIVE_LENGTH ? text >> 6 : (text + 2 * part) >> 3));
}

/** Indices of all occurrences, overlapping ones too; a step for each. */
function* matches(text: string, part: string, from: number): Iterable<number> {
  const fallback = fallbackLengths(part);
  let matched = 0;
  for (let at = from; at < text.length; at++) {
    const unit = text.charCodeAt(at);
    while (matched > 0 && part.charCodeAt(matched) !== unit) matched = fallback[matched - 1]!;
    if (part.charCodeAt(matched) === unit) matched++;
    if (matched < part.length) continue;
    budget().step();
    yield at + 1 - matched;
    matched = fallback[matched - 1]!;
  }
}

/** Per prefix of `part`: the length of its longest proper end that is also its beginning. */
function fallbackLengths(part: string): Int32Array {
  const lengths = new Int32Array(part.length);
  for (let at = 1, length = 0; at < part.length; at++) {
    const unit = part.charCodeAt(at);
    while (length > 0 && part.charCodeAt(length) !== unit) length = lengths[length - 1]!;
    if (part.charCodeAt(length) === unit) length++;
    lengths[at] = length;
  }
  return lengths;
}
