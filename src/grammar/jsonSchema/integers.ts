// Integers within bounds, and multiples.

import { GrammarError } from "../grammarError.js";
import { alt, chars, EMPTY, type Expr, NEVER, repeat, seq, text } from "../ir.js";
import { INTEGER } from "../jsonValues.js";
import type { RuleBook } from "../ruleBook.js";

const DIGIT = chars([0x30, 0x39]);
/** Multiples between bounds are listed up to this many. */
const MOST_LISTED = 1000n;
/** Remainders are states. */
const LARGEST_MULTIPLE = 1000n;

/** Integers from `low` to `high`, both included; null: no bound. No minus zero. */
export function integerRange(low: bigint | null, high: bigint | null): Expr {
  if (low === null && high === null) return INTEGER;
  return bySign(low, high, naturalRange);
}

/** Those of them that are multiples of `step`. */
export function multiplesInRange(rules: RuleBook, low: bigint | null, high: bigint | null, step: bigint): Expr {
  if (step === 1n) return integerRange(low, high);
  const isBounded = low !== null && high !== null;
  if (isBounded && (high - low) / step <= MOST_LISTED) {
    const found: Expr[] = [];
    for (let value = ceilTo(low, step); value <= high; value += step) found.push(text(String(value)));
    return alt(...found);
  }
  if (step > LARGEST_MULTIPLE)
    throw new GrammarError(`steps above ${LARGEST_MULTIPLE} are supported only between close bounds`);
  const multiples = new Multiples(rules, Number(step));
  return bySign(low, high, (from, to) => multiples.range(from, to));
}

function ceilTo(value: bigint, step: bigint): bigint {
  const rest = ((value % step) + step) % step;
  return rest === 0n ? value : value + step - rest;
}

/** Both signs from the sizes that each may have. */
function bySign(low: bigint | null, high: bigint | null, sizes: (from: bigint, to: bigint | null) => Expr): Expr {
  const parts: Expr[] = [];
  if (high === null || high >= 0n) parts.push(sizes(low !== null && low > 0n ? low : 0n, high));
  if (low === null || low < 0n) {
    const from = high !== null && high < 0n ? -high : 1n;
    parts.push(seq(text("-"), sizes(from, low === null ? null : -low)));
  }
  return alt(...parts);
}

/** Decimal numbers without sign and leading zeros from `from` to `to`. */
export function naturalRange(from: bigint, to: bigint | null): Expr {
  if (to !== null && to < from) return NEVER;
  const low = String(from);
  if (to === null) {
    const longer = seq(chars([0x31, 0x39]), repeat(DIGIT, low.length));
    return alt(digitsBetween(low, "9".repeat(low.length)), longer);
  }
  const high = String(to);
  if (low.length === high.length) return digitsBetween(low, high);
  const parts = [digitsBetween(low, "9".repeat(low.length))];
  if (high.length - low.length > 1) {
    parts.push(seq(chars([0x31, 0x39]), repeat(DIGIT, low.length, high.length - 2)));
  }
  parts.push(digitsBetween(`1${"0".repeat(high.length - 1)}`, high));
  return alt(...parts);
}

/** Between two strings of digits of equal length. */
function digitsBetween(low: string, high: string): Expr {
  if (low === "") return EMPTY;
  const rest = low.length - 1;
  if (/^0+ 9+$/.test(`${low} ${high}`)) return repeat(DIGIT, low.length, low.length);
  if (low[0] === high[0]) return seq(text(low[0]!), digitsBetween(low.slice(1), high.slice(1)));
  return alt(
    seq(text(low[0]!), digitsBetween(low.slice(1), "9".repeat(rest))),
    seq(digits(Number(low[0]) + 1, Number(high[0]) - 1), repeat(DIGIT, rest, rest)),
    seq(text(high[0]!), digitsBetween("0".repeat(rest), high.slice(1))),
  );
}

export function digits(from: number, to: number): Expr {
  return chars([0x30 + from, 0x30 + to]);
}

/** Numbers by their remainder: one rule for each, going on with one more digit. */
class Multiples {
  private readonly known = new Map<string, Expr>();

  constructor(
    private readonly rules: RuleBook,
    private readonly step: number,
  ) {}

  range(from: bigint, to: bigint | null): Expr {
    if (to !== null && to < from) return NEVER;
    const low = String(from);
    const high = to === null ? null : String(to);
    const parts: Expr[] = [];
    const longest = high === null ? low.length : high.length;
    for (let length = low.length; length <= longest; length++) {
      const least = length === low.length ? low : `1${"0".repeat(length - 1)}`;
      const most = length === high?.length ? high : "9".repeat(length);
      parts.push(this.between(least, most, 0));
    }
    if (high === null) {
      for (let digit = 1; digit <= 9; digit++) {
        parts.push(seq(text(String(digit)), this.atLeast(low.length, digit % this.step)));
      }
    }
    return alt(...parts);
  }

  /** Digits between two strings of equal length that complete a number of this remainder to a multiple. */
  private between(low: string, high: string, remainder: number): Expr {
    if (low === "") return remainder === 0 ? EMPTY : NEVER;
    return this.rule(`${low} ${high} ${remainder}`, () => {
      const parts: Expr[] = [];
      const rest = low.length - 1;
      for (let digit = Number(low[0]); digit <= Number(high[0]); digit++) {
        const least = digit === Number(low[0]) ? low.slice(1) : "0".repeat(rest);
        const most = digit === Number(high[0]) ? high.slice(1) : "9".repeat(rest);
        parts.push(seq(text(String(digit)), this.between(least, most, this.after(remainder, digit))));
      }
      return alt(...parts);
    });
  }

  /** The same with at least `count` digits. */
  private atLeast(count: number, remainder: number): Expr {
    return this.rule(`+${count} ${remainder}`, () => {
      const parts: Expr[] = count === 0 && remainder === 0 ? [EMPTY] : [];
      for (let digit = 0; digit <= 9; digit++) {
        const next = this.atLeast(Math.max(0, count - 1), this.after(remainder, digit));
        parts.push(seq(text(String(digit)), next));
      }
      return alt(...parts);
    });
  }

  private after(remainder: number, digit: number): number {
    return (remainder * 10 + digit) % this.step;
  }

  private rule(key: string, make: () => Expr): Expr {
    let expr = this.known.get(key);
    if (expr === undefined) {
      const reference = this.rules.reserve(`multiple of ${this.step}`);
      this.known.set(key, reference);
      this.rules.define(reference, make());
      expr = reference;
    }
    return expr;
  }
}
