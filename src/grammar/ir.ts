// The intermediate form that every front end (regex, JSON Schema, EBNF, structural tags) writes and the native engine
// reads: rules over Unicode code points, bytes and special tokens.

/** Inclusive range of code points. */
export type Range = readonly [low: number, high: number];

/** Expressions that are numbered where they are encoded: a program writes each of them once. */
interface Numbered {
  /** Under which it was last encoded. */
  number: number;
}

export type Expr =
  /** Matches "". */
  | { kind: "empty" }
  /** Matches nothing. */
  | { kind: "never" }
  /** One code point; ranges ascending, disjoint, without surrogates. */
  | ({ kind: "chars"; ranges: readonly Range[] } & Numbered)
  /** These bytes, each as the character of its number. */
  | { kind: "bytes"; bytes: string }
  /** One special token of the vocabulary, which is not text. */
  | { kind: "token"; id: number }
  | ({ kind: "seq"; items: readonly Expr[] } & Numbered)
  | ({ kind: "alt"; items: readonly Expr[] } & Numbered)
  /** `max` -1: without bound. */
  | ({ kind: "repeat"; item: Expr; min: number; max: number } & Numbered)
  | { kind: "rule"; rule: number }
  /**
   * In JSON, right after the bracket that opens an array whose items differ, and right after each of its items: matches "", and
   * after an item only where it is equal to no earlier one of the array.
   */
  | { kind: "mark"; mark: "opening" | "itemEnd" }
  /** What all items match; no rule may stand inside. */
  | ({ kind: "and"; items: readonly Expr[] } & Numbered)
  /** The valid UTF-8 strings that the item does not match; no rule may stand inside. */
  | ({ kind: "not"; item: Expr } & Numbered);

const NOT_NUMBERED = -1;

export interface Grammar {
  rules: Expr[];
  /** The rule of the whole text. */
  start: number;
}

const VERSION = 1;

/** Numbers of the operations in the encoded program. */
const OPS = {
  empty: 0,
  never: 1,
  chars: 2,
  bytes: 3,
  token: 4,
  seq: 5,
  alt: 6,
  repeat: 7,
  rule: 8,
  and: 9,
  not: 10,
  same: 11,
  mark: 12,
} as const;
const MARKS = { opening: 0, itemEnd: 1 } as const;

/**
 * The grammar in prefix form: `[version, start, ruleCount]`, then the expression of each rule as its operation's number
 * and operands. Lists have their length before them:
 *
 * 0 empty; 1 never; 2 chars: n, n x (low, high); 3 bytes: n, bytes; 4 token: id; 5 seq: n, expressions; 6 alt: n,
 * expressions; 7 repeat: min, max, expression; 8 rule: index; 9 and: n, expressions; 10 not: expression; 11 same: what
 * an earlier expression is, by its number; 12 mark: 0 opening, 1 end of an item. Expressions of the kinds 2, 5, 6, 7, 9 and 10 are numbered as they begin.
 */
export function encodeGrammar(grammar: Grammar): Int32Array {
  const words = new Words();
  words.add(VERSION);
  words.add(grammar.start);
  words.add(grammar.rules.length);
  const firstNumber = nextNumber;
  // A stack of its own: expressions may be nested deeper than calls can be.
  const open: Expr[] = [...grammar.rules].reverse();
  for (let expr = open.pop(); expr !== undefined; expr = open.pop()) {
    switch (expr.kind) {
      case "bytes":
        words.add(OPS.bytes);
        words.add(expr.bytes.length);
        for (let i = 0; i < expr.bytes.length; i++) words.add(expr.bytes.charCodeAt(i));
        continue;
      case "rule":
        words.add(OPS.rule);
        words.add(expr.rule);
        continue;
      case "empty":
        words.add(OPS.empty);
        continue;
      case "never":
        words.add(OPS.never);
        continue;
      case "token":
        words.add(OPS.token);
        words.add(expr.id);
        continue;
      case "mark":
        words.add(OPS.mark);
        words.add(MARKS[expr.mark]);
        continue;
    }
    if (expr.number >= firstNumber) {
      words.add(OPS.same);
      words.add(expr.number - firstNumber);
      continue;
    }
    expr.number = nextNumber++;
    switch (expr.kind) {
      case "repeat":
        words.add(OPS.repeat);
        words.add(expr.min);
        words.add(expr.max);
        open.push(expr.item);
        break;
      case "not":
        words.add(OPS.not);
        open.push(expr.item);
        break;
      case "chars":
        words.add(OPS.chars);
        words.add(expr.ranges.length);
        for (const range of expr.ranges) {
          words.add(range[0]);
          words.add(range[1]);
        }
        break;
      default:
        words.add(OPS[expr.kind]);
        words.add(expr.items.length);
        for (let i = expr.items.length - 1; i >= 0; i--) open.push(expr.items[i]!);
    }
  }
  return words.all();
}

/** Goes on from one grammar to the next: smaller numbers are of earlier ones. */
let nextNumber = 0;

/** Where programs are written; one that is longer has memory of its own. */
const kept = new Int32Array(65_536);

class Words {
  private words = kept;
  private count = 0;

  add(word: number): void {
    if (this.count === this.words.length) {
      const larger = new Int32Array(this.count * 2);
      larger.set(this.words);
      this.words = larger;
    }
    this.words[this.count++] = word;
  }

  all(): Int32Array {
    return this.words.slice(0, this.count);
  }
}

/** Code points of text: all but the surrogates. */
export const ALL_TEXT: readonly Range[] = [
  [0, 0xd7ff],
  [0xe000, 0x10ffff],
];

export const EMPTY: Expr = { kind: "empty" };
export const NEVER: Expr = { kind: "never" };
export const ANY_CHARACTER: Expr = { kind: "chars", ranges: ALL_TEXT, number: NOT_NUMBERED };
/** Any valid UTF-8 text. */
export const ANY_TEXT: Expr = { kind: "repeat", item: ANY_CHARACTER, min: 0, max: -1, number: NOT_NUMBERED };

/** This text. A lone surrogate, which UTF-8 does not have, matches nothing. */
export function text(literal: string): Expr {
  if (literal === "") return EMPTY;
  for (let i = 0; i < literal.length; i++) {
    if (literal.charCodeAt(i) < 0x80) continue;
    return literal.isWellFormed() ? { kind: "bytes", bytes: Buffer.from(literal).toString("latin1") } : NEVER;
  }
  return { kind: "bytes", bytes: literal };
}

/** One after the other; what is trivial is folded. */
export function seq(...items: readonly Expr[]): Expr {
  if (items.length > 1 && !isFoldable(items)) return { kind: "seq", items, number: NOT_NUMBERED };
  const kept: Expr[] = [];
  for (const item of items) {
    if (item.kind === "never") return NEVER;
    if (item.kind === "seq") for (const inner of item.items) append(kept, inner);
    else append(kept, item);
  }
  if (kept.length === 0) return EMPTY;
  return kept.length === 1 ? kept[0]! : { kind: "seq", items: kept.slice(), number: NOT_NUMBERED };
}

function isFoldable(items: readonly Expr[]): boolean {
  let isAfterBytes = false;
  for (const { kind } of items) {
    if (kind === "seq" || kind === "empty" || kind === "never" || (kind === "bytes" && isAfterBytes)) return true;
    isAfterBytes = kind === "bytes";
  }
  return false;
}

/** To a sequence. */
function append(kept: Expr[], item: Expr): void {
  if (item.kind === "empty") return;
  const last = kept.at(-1);
  if (item.kind !== "bytes" || last?.kind !== "bytes") kept.push(item);
  else kept[kept.length - 1] = { kind: "bytes", bytes: last.bytes + item.bytes };
}

/** One after the other, each kept as it is: what is part of many sequences is written once. */
export function chain(...items: readonly Expr[]): Expr {
  let count = 0;
  for (const { kind } of items) {
    if (kind === "never") return NEVER;
    if (kind !== "empty") count++;
  }
  const kept = count === items.length ? items : items.filter(({ kind }) => kind !== "empty");
  if (kept.length === 0) return EMPTY;
  return kept.length === 1 ? kept[0]! : { kind: "seq", items: kept, number: NOT_NUMBERED };
}

/** One of them; what is trivial is folded. */
export function alt(...items: readonly Expr[]): Expr {
  if (items.length === 1) return items[0]!;
  if (items.length > 1 && items.every(({ kind }) => kind !== "alt" && kind !== "never" && kind !== "empty")) {
    return { kind: "alt", items, number: NOT_NUMBERED };
  }
  const kept: Expr[] = [];
  let hasEmpty = false;
  const add = (inner: Expr) => {
    if (inner.kind === "never" || (inner.kind === "empty" && hasEmpty)) return;
    hasEmpty ||= inner.kind === "empty";
    kept.push(inner);
  };
  for (const item of items) {
    if (item.kind === "alt") for (const inner of item.items) add(inner);
    else add(item);
  }
  if (kept.length === 0) return NEVER;
  return kept.length === 1 ? kept[0]! : { kind: "alt", items: kept.slice(), number: NOT_NUMBERED };
}

/** That a grammar may ask for in so many words. */
export const MAX_REPETITIONS = 1_000_000;

export function repeat(item: Expr, min: number, max = -1): Expr {
  if (max !== -1 && max < min) return NEVER;
  if (max === 0 || item.kind === "empty") return EMPTY;
  if (item.kind === "never") return min === 0 ? EMPTY : NEVER;
  return min === 1 && max === 1 ? item : { kind: "repeat", item, min, max, number: NOT_NUMBERED };
}

export function optional(item: Expr): Expr {
  return repeat(item, 0, 1);
}

/** One code point of these ranges, in any order and overlapping; surrogates are left out. */
export function chars(...ranges: readonly Range[]): Expr {
  const clean = normalise(ranges);
  return clean.length === 0 ? NEVER : { kind: "chars", ranges: clean, number: NOT_NUMBERED };
}

/** What all of them match. */
export function and(...items: readonly Expr[]): Expr {
  if (items.some((item) => item.kind === "never")) return NEVER;
  return items.length === 1 ? items[0]! : { kind: "and", items, number: NOT_NUMBERED };
}

/** The texts that `item` does not match. */
export function not(item: Expr): Expr {
  return item.kind === "never" ? ANY_TEXT : { kind: "not", item, number: NOT_NUMBERED };
}

/** Ascending, disjoint, not touching, without surrogates. */
export function normalise(ranges: readonly Range[]): Range[] {
  const parts: [number, number][] = [];
  for (const [low, high] of ranges) {
    for (const [from, to] of ALL_TEXT) {
      const part: [number, number] = [Math.max(low, from), Math.min(high, to)];
      if (part[0] <= part[1]) parts.push(part);
    }
  }
  parts.sort((a, b) => a[0] - b[0]);
  const merged: [number, number][] = [];
  for (const part of parts) {
    const last = merged.at(-1);
    // U+D7FF and U+E000 stay apart: what lies between is no text.
    if (last !== undefined && part[0] <= last[1] + 1) last[1] = Math.max(last[1], part[1]);
    else merged.push(part);
  }
  return merged;
}

/** The characters of text that lie in none of the ranges. */
export function complement(ranges: readonly Range[]): Range[] {
  const result: Range[] = [];
  let next = 0;
  for (const [low, high] of normalise(ranges)) {
    if (low > next) result.push([next, low - 1]);
    next = high + 1;
  }
  if (next <= 0x10ffff) result.push([next, 0x10ffff]);
  return normalise(result);
}
