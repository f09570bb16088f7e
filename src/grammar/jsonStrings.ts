// How texts are spelled as JSON strings.
//
// Where any text is permitted (perhaps of bounded length), so is every valid spelling: each character as itself where
// JSON allows it, by its short escape, or by \uXXXX. Where the characters themselves are constrained (names of
// properties, const, enum, pattern, format), a character of printable ASCII has one spelling: itself, or \" and \\ for
// those two; control characters have their short escape and \uXXXX; all others stand as themselves or as \uXXXX. That
// accepts what JSON.stringify and Python's json.dumps write, and leaves nothing to choose inside a known name.
//
// Halves of surrogate pairs are no characters and are accepted in pairs only. Hexadecimal digits have either case.

import {
  alt,
  and,
  chars,
  complement,
  EMPTY,
  type Expr,
  NEVER,
  normalise,
  not,
  type Range,
  repeat,
  seq,
  text,
} from "./ir.js";
import { Remembered } from "./remembered.js";

const SHORT_ESCAPES: ReadonlyMap<number, string> = new Map([
  [0x08, "b"],
  [0x09, "t"],
  [0x0a, "n"],
  [0x0c, "f"],
  [0x0d, "r"],
  [0x22, '"'],
  [0x5c, "\\"],
]);

/** Characters that stand in a JSON string as themselves. */
const RAW: readonly Range[] = complement([
  [0, 0x1f],
  [0x22, 0x22],
  [0x5c, 0x5c],
]);

/** Characters with a \uXXXX spelling where the characters are constrained. */
const ESCAPED_BY_CODE: readonly Range[] = complement([[0x20, 0x7e]]);

/** What was spelled before: formats, again and again. */
const knownSpellings = new WeakMap<Expr, Expr>();

/** Spelled characters, by their ranges: regular expressions use few sets, again and again. */
const knownSets = new WeakMap<readonly Range[], Expr>();
const knownSmallSets = new Remembered(256);
const SMALL = 32;
const hexDigits = new Remembered(256);

const ANY_SHORT_ESCAPE = seq(
  text("\\"),
  chars(...[...'"\\/bfnrt'].map((c): Range => [c.charCodeAt(0), c.charCodeAt(0)])),
);

/** One character of a string that may hold any, in every spelling. */
export const FREE_CHARACTER: Expr = alt(chars(...RAW), ANY_SHORT_ESCAPE, escapedByCode([[0, 0x10ffff]]));

/** One character in the spellings of constrained strings. */
export const CONSTRAINED_CHARACTER: Expr = spelledCharacter([[0, 0x10ffff]]);

/** Any content of a string, in the spellings of constrained strings. */
export const CONSTRAINED_CONTENT: Expr = repeat(CONSTRAINED_CHARACTER, 0);

export function quoted(content: Expr): Expr {
  return seq(text('"'), content, text('"'));
}

/** A string of `min` to `max` code points (-1: any number), in every spelling. */
export function freeString(min = 0, max = -1): Expr {
  return quoted(repeat(FREE_CHARACTER, min, max));
}

/** This text as a JSON string. */
export function spelledText(literal: string): Expr {
  return /^[ !#-[\]-~]*$/.test(literal) ? text(`"${literal}"`) : quoted(spelled(text(literal)));
}

/**
 * The spellings, without quotes, of the texts that `expr` matches. Every spelling means one text, so that intersection
 * and complement carry over.
 */
export function spelled(expr: Expr): Expr {
  switch (expr.kind) {
    case "chars":
      return expr.ranges.every(standForThemselves) ? expr : spelledCharacter(expr.ranges);
    case "bytes": {
      if (expr.bytes.every(standsForItself)) return expr;
      const literal = new TextDecoder("utf-8", { ignoreBOM: true }).decode(Uint8Array.from(expr.bytes));
      return seq(...[...literal].map(spelledLiteralCharacter));
    }
    case "empty":
    case "never":
    case "token":
    case "rule":
      return expr;
  }
  let found = knownSpellings.get(expr);
  if (found === undefined) {
    found = spelledParts(expr);
    knownSpellings.set(expr, found);
  }
  return found;
}

function spelledParts(expr: Extract<Expr, { kind: "seq" | "alt" | "and" | "repeat" | "not" }>): Expr {
  if (expr.kind === "not") return and(CONSTRAINED_CONTENT, not(spelled(expr.item)));
  if (expr.kind === "repeat") {
    const item = spelled(expr.item);
    return item === expr.item ? expr : repeat(item, expr.min, expr.max);
  }
  const items = expr.items.map(spelled);
  if (items.every((item, i) => item === expr.items[i])) return expr;
  return expr.kind === "seq" ? seq(...items) : expr.kind === "alt" ? alt(...items) : and(...items);
}

function spelledLiteralCharacter(character: string): Expr {
  const code = character.codePointAt(0)!;
  return standsForItself(code) ? text(character) : spelledCharacter([[code, code]]);
}

function standsForItself(code: number): boolean {
  return code >= 0x20 && code <= 0x7e && code !== 0x22 && code !== 0x5c;
}

/** The quotation mark and the backslash lie between such ranges. */
function standForThemselves([low, high]: Range): boolean {
  return standsForItself(low) && standsForItself(high) && (low > 0x22 || high < 0x22) && (low > 0x5c || high < 0x5c);
}

function spelledCharacter(ranges: readonly Range[]): Expr {
  if (ranges.length <= SMALL) return knownSmallSets.get(ranges.join(" "), () => newSpelledCharacter(ranges));
  let expr = knownSets.get(ranges);
  if (expr === undefined) {
    expr = newSpelledCharacter(ranges);
    knownSets.set(ranges, expr);
  }
  return expr;
}

function newSpelledCharacter(ranges: readonly Range[]): Expr {
  const escapes = [...SHORT_ESCAPES]
    .filter(([code]) => ranges.some(([low, high]) => low <= code && code <= high))
    .map(([, letter]) => text(`\\${letter}`));
  return alt(chars(...intersection(ranges, RAW)), ...escapes, escapedByCode(intersection(ranges, ESCAPED_BY_CODE)));
}

/** `\uXXXX`, or two of them beyond the basic plane. */
function escapedByCode(ranges: readonly Range[]): Expr {
  const basic = intersection(ranges, [[0, 0xffff]]);
  const marker = text("\\u");
  const found: Expr[] = basic.length === 0 ? [] : [seq(marker, hexadecimal(basic, 4))];
  // Code points beyond it as 20 bits: the upper ten in one half of the pair, the lower ten in the other.
  const pairs = ranges
    .filter(([, high]) => high > 0xffff)
    .map(([low, high]): Range => [Math.max(low, 0x10000) - 0x10000, high - 0x10000]);
  const byLower = new Map<string, { lower: Range[]; upper: Range[] }>();
  for (let upper = 0; pairs.length > 0 && upper < 1024; upper++) {
    const lower = clipped(pairs, upper * 1024, 1024);
    if (lower.length === 0) continue;
    const key = JSON.stringify(lower);
    const group = byLower.get(key) ?? { lower, upper: [] };
    group.upper.push([0xd800 + upper, 0xd800 + upper]);
    byLower.set(key, group);
  }
  for (const { lower, upper } of byLower.values()) {
    const second = lower.map(([low, high]): Range => [low + 0xdc00, high + 0xdc00]);
    found.push(seq(marker, hexadecimal(joined(upper), 4), marker, hexadecimal(second, 4)));
  }
  return alt(...found);
}

/** Numbers of the given ranges in `digits` hexadecimal digits, as a tree over the digits. */
function hexadecimal(ranges: readonly Range[], digits: number): Expr {
  if (ranges.length === 0) return NEVER;
  if (digits === 0) return EMPTY;
  const size = 16 ** (digits - 1);
  const groups = new Map<string, { rest: Range[]; digits: number[] }>();
  for (let digit = 0; digit < 16; digit++) {
    const rest = clipped(ranges, digit * size, size);
    if (rest.length === 0) continue;
    const key = JSON.stringify(rest);
    const group = groups.get(key) ?? { rest, digits: [] };
    group.digits.push(digit);
    groups.set(key, group);
  }
  return alt(...[...groups.values()].map((group) => seq(hexDigit(group.digits), hexadecimal(group.rest, digits - 1))));
}

function hexDigit(values: readonly number[]): Expr {
  return hexDigits.get(values.join(" "), () => newHexDigit(values));
}

function newHexDigit(values: readonly number[]): Expr {
  const codes = values.flatMap((value) => {
    const digit = value.toString(16);
    return [digit.charCodeAt(0), digit.toUpperCase().charCodeAt(0)];
  });
  return chars(...codes.map((code): Range => [code, code]));
}

/** The part of the ascending ranges within [from, from + size), counted from `from`. */
function clipped(ranges: readonly Range[], from: number, size: number): Range[] {
  let first = 0;
  for (let past = ranges.length; first < past; ) {
    const middle = (first + past) >> 1;
    if (ranges[middle]![1] < from) first = middle + 1;
    else past = middle;
  }
  const found: Range[] = [];
  for (let i = first; i < ranges.length && ranges[i]![0] < from + size; i++) {
    const [low, high] = ranges[i]!;
    found.push([Math.max(low - from, 0), Math.min(high - from, size - 1)]);
  }
  return found;
}

/** Neighbouring numbers joined; `ranges` ascend. */
function joined(ranges: readonly Range[]): Range[] {
  const result: [number, number][] = [];
  for (const [low, high] of ranges) {
    const last = result.at(-1);
    if (last !== undefined && last[1] + 1 === low) last[1] = high;
    else result.push([low, high]);
  }
  return result;
}

/** Of ascending ranges. */
function intersection(a: readonly Range[], b: readonly Range[]): Range[] {
  return normalise(
    b.flatMap(([from, to]) => clipped(a, from, to - from + 1).map(([low, high]): Range => [low + from, high + from])),
  );
}
