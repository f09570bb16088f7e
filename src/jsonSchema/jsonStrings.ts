// How texts are spelled as JSON strings: every text in one way. Characters stand as themselves, but for those that JSON
// does not take so: the quotation mark, the backslash and control characters have their short escape, or where there is none
// \u00XX. That is what JSON.stringify and Python's json.dumps(ensure_ascii=False) write, and it leaves a model nothing to
// choose about a text but the text.

import { ExprCache } from "../grammar/exprCache.js";
import {
  alt,
  and,
  chars,
  complement,
  type Expr,
  NEVER,
  normalise,
  not,
  type Range,
  repeat,
  seq,
  text,
} from "../grammar/ir.js";

const QUOTE = 0x22;
const BACKSLASH = 0x5c;
const FIRST_PLAIN = 0x20;

/** Characters that stand in a JSON string as themselves. */
const PLAIN: readonly Range[] = complement([
  [0, FIRST_PLAIN - 1],
  [QUOTE, QUOTE],
  [BACKSLASH, BACKSLASH],
]);

/** The others. */
const ESCAPED: readonly number[] = [...Array(FIRST_PLAIN).keys(), QUOTE, BACKSLASH];

/** What was spelled before: formats, again and again. */
const knownSpellings = new WeakMap<Expr, Expr>();

/** Spelled characters, by their ranges: regular expressions use few sets, again and again. */
const knownSets = new WeakMap<readonly Range[], Expr>();
const knownSmallSets = new ExprCache(256);
const MAX_SMALL_RANGES = 32;

/** One character of any string. */
const STRING_CHARACTER: Expr = spelledCharacter([[0, 0x10ffff]]);
const STRING_CONTENT: Expr = repeat(STRING_CHARACTER, 0);

export function quoted(content: Expr): Expr {
  return seq(text('"'), content, text('"'));
}

/** A string of `min` to `max` code points (-1: any number). */
export function freeString(min = 0, max = -1): Expr {
  return quoted(counted(min, max));
}

/** Characters are counted one by one up to here, and more of them by blocks, each of which is one rule. */
const MAX_SINGLE = 4096;
const BLOCK = 2048;

function counted(min: number, max: number): Expr {
  if (min > MAX_SINGLE) return seq(exactly(min), counted(0, max === -1 ? -1 : max - min));
  if (max <= MAX_SINGLE) return repeat(STRING_CHARACTER, min, max);
  if (min > 0) return seq(exactly(min), counted(0, max - min));
  // What is left of `max` after the last block is at least a block less one, so that every count can be reached.
  const blocks = Math.floor((max + 1) / BLOCK) - 1;
  return seq(repeat(exactly(BLOCK), 0, blocks), repeat(STRING_CHARACTER, 0, max - blocks * BLOCK));
}

function exactly(count: number): Expr {
  if (count <= MAX_SINGLE) return repeat(STRING_CHARACTER, count, count);
  const blocks = Math.floor(count / BLOCK);
  const rest = count - blocks * BLOCK;
  return seq(repeat(exactly(BLOCK), blocks, blocks), repeat(STRING_CHARACTER, rest, rest));
}

/** This text as a JSON string. */
export function spelledText(literal: string): Expr {
  // A lone surrogate is no text.
  return literal.isWellFormed() ? text(JSON.stringify(literal)) : NEVER;
}

/**
 * The spellings, without quotes, of the texts that `expr` matches. Each text has one, so that intersection and complement
 * carry over.
 */
export function spelled(expr: Expr): Expr {
  switch (expr.kind) {
    case "chars":
      return expr.ranges.every(isPlain) ? expr : spelledCharacter(expr.ranges);
    case "bytes":
      return standsForItself(expr.bytes) ? expr : text(spelling(expr.bytes));
    case "empty":
    case "never":
    case "token":
    case "mark":
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
  if (expr.kind === "not") return and(STRING_CONTENT, not(spelled(expr.item)));
  if (expr.kind === "repeat") {
    const item = spelled(expr.item);
    return item === expr.item ? expr : repeat(item, expr.min, expr.max);
  }
  const items = expr.items.map(spelled);
  if (items.every((item, i) => item === expr.items[i])) return expr;
  return expr.kind === "seq" ? seq(...items) : expr.kind === "alt" ? alt(...items) : and(...items);
}

function spelling(bytes: string): string {
  return JSON.stringify(Buffer.from(bytes, "latin1").toString()).slice(1, -1);
}

/** Bytes of characters beyond ASCII do, too. */
function standsForItself(bytes: string): boolean {
  for (let i = 0; i < bytes.length; i++) {
    const byte = bytes.charCodeAt(i);
    if (byte < FIRST_PLAIN || byte === QUOTE || byte === BACKSLASH) return false;
  }
  return true;
}

function isPlain([low, high]: Range): boolean {
  return low >= FIRST_PLAIN && (low > QUOTE || high < QUOTE) && (low > BACKSLASH || high < BACKSLASH);
}

function spelledCharacter(ranges: readonly Range[]): Expr {
  if (ranges.length <= MAX_SMALL_RANGES) return knownSmallSets.get(ranges.join(" "), () => newSpelledCharacter(ranges));
  let expr = knownSets.get(ranges);
  if (expr === undefined) {
    expr = newSpelledCharacter(ranges);
    knownSets.set(ranges, expr);
  }
  return expr;
}

function newSpelledCharacter(ranges: readonly Range[]): Expr {
  const escaped = ESCAPED.filter((code) => ranges.some(([low, high]) => low <= code && code <= high));
  return alt(
    chars(...intersection(ranges, PLAIN)),
    ...escaped.map((code) => text(spelling(String.fromCharCode(code)))),
  );
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

/** Of ascending ranges. */
function intersection(a: readonly Range[], b: readonly Range[]): Range[] {
  return normalise(
    b.flatMap(([from, to]) => clipped(a, from, to - from + 1).map(([low, high]): Range => [low + from, high + from])),
  );
}
