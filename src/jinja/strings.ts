// Work on texts as Python's `str` does it: cutting, stripping, replacing, searching, upper and lower case.

import { budget } from "./budget.js";
import { charactersOf, joined } from "./values.js";

/** What Python's `str.strip()` and `split()` take for whitespace. */
function isSpace(code: number): boolean {
  if (code <= 0x20) return code === 0x20 || (code >= 0x09 && code <= 0x0d) || (code >= 0x1c && code <= 0x1f);
  if (code < 0xa0) return code === 0x85;
  return (
    code === 0xa0 ||
    code === 0x1680 ||
    (code >= 0x2000 && code <= 0x200a) ||
    code === 0x2028 ||
    code === 0x2029 ||
    code === 0x202f ||
    code === 0x205f ||
    code === 0x3000
  );
}

export type Side = "both" | "left" | "right";

/** More characters than these are looked up in a set. */
const MAX_LISTED_CHARACTERS = 8;

/** Without the whitespace, or the `characters`, at the ends. */
export function stripped(text: string, characters: string | null, side: Side): string {
  budget().step(1 + (text.length >> 4));
  if (characters !== null && /[\ud800-\udfff]/.test(characters)) return strippedWide(text, characters, side);
  const many = characters !== null && characters.length > MAX_LISTED_CHARACTERS ? characterSet(characters) : null;
  const isStripped = (index: number) => {
    if (characters === null) return isSpace(text.charCodeAt(index));
    return many === null ? characters.includes(text[index]!) : many.has(text[index]!);
  };
  let start = 0;
  let end = text.length;
  if (side !== "right") while (start < end && isStripped(start)) start++;
  if (side !== "left") while (end > start && isStripped(end - 1)) end--;
  return text.slice(start, end);
}

function characterSet(characters: string): Set<string> {
  budget().step(characters.length);
  return new Set(characters);
}

function strippedWide(text: string, characters: string, side: Side): string {
  const stripping = characterSet(characters);
  const all = charactersOf(text);
  let start = 0;
  let end = all.length;
  if (side !== "right") while (start < end && stripping.has(all[start]!)) start++;
  if (side !== "left") while (end > start && stripping.has(all[end - 1]!)) end--;
  return all.slice(start, end).join("");
}

/** `split()` without a separator: words between whitespace; at most `limit` cuts, from the left or the right. */
export function splitAtSpaces(text: string, limit: number, fromRight: boolean): string[] {
  const words: string[] = [];
  if (fromRight) {
    let end = text.length;
    for (;;) {
      budget().step();
      while (end > 0 && isSpace(text.charCodeAt(end - 1))) end--;
      if (end === 0) break;
      if (words.length === limit) {
        words.push(text.slice(0, end));
        break;
      }
      let start = end;
      while (start > 0 && !isSpace(text.charCodeAt(start - 1))) start--;
      words.push(text.slice(start, end));
      end = start;
    }
    return words.reverse();
  }
  let start = 0;
  for (;;) {
    budget().step();
    while (start < text.length && isSpace(text.charCodeAt(start))) start++;
    if (start === text.length) return words;
    if (words.length === limit) {
      words.push(text.slice(start));
      return words;
    }
    let end = start;
    while (end < text.length && !isSpace(text.charCodeAt(end))) end++;
    words.push(text.slice(start, end));
    start = end;
  }
}

/** `split(separator)` with at most `limit` cuts, from the left or the right. */
export function splitAt(text: string, separator: string, limit: number, fromRight: boolean): string[] {
  const search = fromRight ? occurrencesFromRight : occurrences;
  return cutAt(text, separator, search(text, separator, limit));
}

/** What stands before, between and after the `places` where `separator` is. */
function cutAt(text: string, separator: string, places: readonly number[]): string[] {
  let start = 0;
  const parts = places.map((place) => {
    const part = text.slice(start, place);
    start = place + separator.length;
    return part;
  });
  parts.push(text.slice(start));
  return parts;
}

/** Line ends that `str.splitlines()` knows. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: three of them are control characters.
const LINE_END = /\r\n|[\n\r\v\f\x1c-\x1e\x85\u2028\u2029]/g;

export function splitLines(text: string, keepEnds: boolean): string[] {
  const lines: string[] = [];
  let start = 0;
  for (const end of text.matchAll(LINE_END)) {
    budget().step();
    const next = end.index + end[0].length;
    lines.push(text.slice(start, keepEnds ? next : end.index));
    start = next;
  }
  if (start < text.length) lines.push(text.slice(start));
  return lines;
}

/** `replace` with at most `limit` replacements; an empty `from` stands before every character and at the end. */
export function replaced(text: string, from: string, to: string, limit: number): string {
  if (from !== "") return joined(splitAt(text, from, limit, false), to);
  const characters = charactersOf(text);
  const places = Math.min(limit, characters.length + 1);
  budget().text(text.length + places * to.length);
  const head = characters.slice(0, places).map((character) => to + character);
  return head.join("") + (places > characters.length ? to : "") + characters.slice(places).join("");
}

/** How often `part` occurs without overlap. */
export function countOf(text: string, part: string): number {
  return part === "" ? charactersOf(text).length + 1 : occurrences(text, part).length;
}

export function capitalized(text: string): string {
  const [first, ...rest] = charactersOf(text);
  return first === undefined ? "" : titleOf(first) + rest.join("").toLowerCase();
}

/** Each with its upper, title and lower case. */
const DIGRAPHS = "ǄǅǆǇǈǉǊǋǌǱǲǳ";
/** Georgian letters have an upper case, which none but texts all in capitals take. */
const KEPT_IN_TITLES = /[\p{Lt}\u10d0-\u10ff]/u;

/** A character at the beginning of a word: of letters that it stands for, only the first one is upper case. */
function titleOf(character: string): string {
  const digraph = DIGRAPHS.indexOf(character);
  if (digraph >= 0) return DIGRAPHS[digraph - (digraph % 3) + 1]!;
  if (KEPT_IN_TITLES.test(character)) return character;
  const upper = character.toUpperCase();
  // Greek writes an iota below the letter, not behind it.
  if (upper.length > 1 && upper.endsWith("Ι")) return `${upper.slice(0, -1)}\u0345`.normalize("NFC");
  return /^\p{Lu}\p{Lu}/u.test(upper) ? upper[0] + upper.slice(1).toLowerCase() : upper;
}

const CASED = /\p{Cased}+/gu;

/** `str.title`: every run of letters that have case capitalised. */
export function titled(text: string): string {
  return text.replace(CASED, capitalized);
}

export function caseSwapped(text: string): string {
  const swap = (character: string) =>
    character === character.toLowerCase() ? character.toUpperCase() : character.toLowerCase();
  return charactersOf(text).map(swap).join("");
}

/** Whether there is a letter with case and none of the other case. */
export function isAllLower(text: string): boolean {
  return /\p{Lowercase}/u.test(text) && !/[\p{Uppercase}\p{Lt}]/u.test(text);
}

export function isAllUpper(text: string): boolean {
  return /\p{Uppercase}/u.test(text) && !/[\p{Lowercase}\p{Lt}]/u.test(text);
}

export function isTitled(text: string): boolean {
  const words = text.match(CASED) ?? [];
  return words.length > 0 && words.every((word) => /^[\p{Uppercase}\p{Lt}]\p{Lowercase}*$/u.test(word));
}

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
