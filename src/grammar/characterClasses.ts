// The sets of characters that regular expressions know by name.

import { complement, normalise, type Range } from "./ir.js";

const DIGITS: readonly Range[] = [[0x30, 0x39]];

const WORD: readonly Range[] = [
  [0x30, 0x39],
  [0x41, 0x5a],
  [0x5f, 0x5f],
  [0x61, 0x7a],
];

/** ECMAScript's WhiteSpace and LineTerminator. */
const SPACE: readonly Range[] = [
  [0x09, 0x0d],
  [0x20, 0x20],
  [0xa0, 0xa0],
  [0x1680, 0x1680],
  [0x2000, 0x200a],
  [0x2028, 0x2029],
  [0x202f, 0x202f],
  [0x205f, 0x205f],
  [0x3000, 0x3000],
  [0xfeff, 0xfeff],
];

const LINE_ENDS: readonly Range[] = [
  [0x0a, 0x0a],
  [0x0d, 0x0d],
  [0x2028, 0x2029],
];

/** What `.` matches. */
export const DOT: readonly Range[] = complement(LINE_ENDS);

const BY_LETTER: ReadonlyMap<string, readonly Range[]> = new Map([
  ["d", DIGITS],
  ["D", complement(DIGITS)],
  ["w", WORD],
  ["W", complement(WORD)],
  ["s", SPACE],
  ["S", complement(SPACE)],
]);

/** The set of `\d`, `\W` and so on, by its letter. */
export function classOfLetter(letter: string): readonly Range[] | undefined {
  return BY_LETTER.get(letter);
}

const properties = new Map<string, readonly Range[]>();

/** The characters with a Unicode property, such as "L", "Letter", "Script=Greek"; null when there is no such property. */
export function propertyRanges(property: string): readonly Range[] | null {
  let ranges: readonly Range[] | null = properties.get(property) ?? null;
  if (ranges === null) {
    ranges = /^[A-Za-z_]+(=[A-Za-z0-9_]+)?$/.test(property) ? lookUp(property) : null;
    if (ranges !== null) properties.set(property, ranges);
  }
  return ranges;
}

/** Asks JavaScript's own regular expressions, which know Unicode's tables. */
function lookUp(property: string): readonly Range[] | null {
  let run: RegExp;
  try {
    run = new RegExp(`\\p{${property}}+`, "gu");
  } catch {
    return null;
  }
  const ranges: Range[] = [];
  for (const { from, text } of allCharacters()) {
    const units = from >= 0x10000 ? 2 : 1;
    for (const match of text.matchAll(run)) {
      ranges.push([from + match.index / units, from + (match.index + match[0].length) / units - 1]);
    }
  }
  return normalise(ranges);
}

let characters: readonly { from: number; text: string }[] | null = null;

/** Every character in order, in pieces of one width. Kept: to make them takes longer than to search them. */
function allCharacters(): readonly { from: number; text: string }[] {
  if (characters !== null) return characters;
  const piece = 0x1000;
  const found: { from: number; text: string }[] = [];
  for (let from = 0; from < 0x110000; from += piece) {
    if (from >= 0xd800 && from < 0xe000) continue;
    const to = from === 0xd000 ? 0xd800 : from + piece;
    found.push({ from, text: String.fromCodePoint(...Array.from({ length: to - from }, (_, i) => from + i)) });
  }
  characters = found;
  return found;
}
