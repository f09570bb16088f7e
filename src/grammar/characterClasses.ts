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
  let one: RegExp;
  try {
    run = new RegExp(`\\p{${property}}+`, "gu");
    one = new RegExp(`\\p{${property}}`, "u");
  } catch {
    return null;
  }
  const ranges: Range[] = [];
  for (const { from, text } of assignedCharacters()) {
    const units = from >= 0x10000 ? 2 : 1;
    for (const match of text.matchAll(run)) {
      ranges.push([from + match.index / units, from + (match.index + match[0].length) / units - 1]);
    }
  }
  for (const [low, high] of ALIKE) if (one.test(String.fromCodePoint(low))) ranges.push([low, high]);
  return normalise(ranges);
}

const PLANE = 0x10000;
/** Planes in which nothing is assigned, or all for private use. */
const PLANES_ALIKE = [4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 16];

/** Ranges in which each character has the properties of the first; the last two of a plane are no characters. */
const ALIKE: readonly Range[] = PLANES_ALIKE.flatMap((plane): Range[] => [
  [plane * PLANE, plane * PLANE + 0xfffd],
  [plane * PLANE + 0xfffe, plane * PLANE + 0xffff],
]);

let characters: readonly { from: number; text: string }[] | null = null;

/** All characters of the other planes in order, in pieces of one width. Kept: to make them takes as long as to search them. */
function assignedCharacters(): readonly { from: number; text: string }[] {
  const pieces: Range[] = [
    [0, 0xd7ff],
    [0xe000, 0xffff],
    [PLANE, 4 * PLANE - 1],
    [14 * PLANE, 15 * PLANE - 1],
  ];
  characters ??= pieces.map(([low, high]) => ({ from: low, text: charactersFrom(low, high) }));
  return characters;
}

function charactersFrom(low: number, high: number): string {
  const units = new Uint16Array((high - low + 1) * (low < PLANE ? 1 : 2));
  let count = 0;
  for (let code = low; code <= high; code++) {
    if (low >= PLANE) units[count++] = 0xd7c0 + (code >> 10);
    units[count++] = low < PLANE ? code : 0xdc00 + (code & 0x3ff);
  }
  return new TextDecoder("utf-16le", { ignoreBOM: true }).decode(units);
}
