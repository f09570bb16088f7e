// Numbers within bounds. Without bounds any spelling of JSON is accepted; with them, plain decimals (12.50) and
// scientific notation with one digit before the point (1.25e+1), as programs write numbers: of other spellings no
// automaton could tell the size. Minus zero is zero.

import { ExprCache } from "../grammar/exprCache.js";
import { alt, and, chars, EMPTY, type Expr, NEVER, optional, repeat, seq, text } from "../grammar/ir.js";
import { type Decimal, fractionDigits, wholePart } from "./decimals.js";
import { LARGEST_MANTISSA, NUMBER } from "./jsonValues.js";

export const DIGIT: Expr = digits(0, 9);
export const ZEROS: Expr = repeat(text("0"), 0);

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

export interface Bound {
  value: Decimal;
  inclusive: boolean;
}

const knownExponents = new ExprCache(1024);
export const ANY_DIGITS = repeat(DIGIT, 0);
const ANY_FRACTION = optional(seq(text("."), repeat(DIGIT, 1)));
const EXPONENT_MARK = chars([0x45, 0x45], [0x65, 0x65]);
/** Numbers of a smaller one may be read as zero. */
const MIN_EXPONENT = -323;
/** Double precision has it for some mantissas only. */
const MAX_EXPONENT = 308;
/** Numbers between two bounds; null: no bound. */
export function numberRange(low: Bound | null, high: Bound | null): Expr {
  if (low === null && high === null) return NUMBER;
  return alt(
    bySide(low, high, (from, to) => between(from, to, plainAtLeast, plainAtMost, ANY_PLAIN)),
    scientificRange(low, high),
  );
}

/** Those of them in scientific notation, which zero has not. */
export function scientificRange(low: Bound | null, high: Bound | null): Expr {
  return bySide(low, high, (from, to) => between(from, to, scientificAtLeast, scientificAtMost, ANY_SCIENTIFIC));
}

/** One number, as a plain decimal: digits alone where it is an integer. */
export function plainDecimal(decimal: Decimal): string {
  const fraction = fractionDigits(decimal);
  return `${decimal.negative ? "-" : ""}${wholePart(decimal)}${fraction === "" ? "" : `.${fraction}`}`;
}

/** Both signs of integers, from the sizes that each may have. */
export function bySign(
  low: bigint | null,
  high: bigint | null,
  sizes: (from: bigint, to: bigint | null) => Expr,
): Expr {
  const parts: Expr[] = [];
  if (high === null || high >= 0n) parts.push(sizes(low !== null && low > 0n ? low : 0n, high));
  if (low === null || low <= 0n) {
    const from = high !== null && high < 0n ? -high : 0n;
    parts.push(seq(text("-"), sizes(from, low === null ? null : -low)));
  }
  return alt(...parts);
}

/** The same of numbers: `sizes` takes bounds by their sizes. */
function bySide(low: Bound | null, high: Bound | null, sizes: (low: Bound | null, high: Bound | null) => Expr): Expr {
  const isZero = (bound: Bound) => bound.value.digits === "";
  const parts: Expr[] = [];
  if (high === null || !high.value.negative) {
    parts.push(sizes(low === null || low.value.negative ? null : low, high));
  }
  if (low === null || low.value.negative || isZero(low)) {
    const isBelowZero = high !== null && (high.value.negative || (isZero(high) && !high.inclusive));
    parts.push(seq(text("-"), sizes(isBelowZero ? high : null, low)));
  }
  return alt(...parts);
}

function between(
  low: Bound | null,
  high: Bound | null,
  atLeast: (bound: Bound) => Expr,
  atMost: (bound: Bound) => Expr,
  any: Expr,
): Expr {
  if (low === null) return high === null ? any : atMost(high);
  return high === null ? atLeast(low) : and(atLeast(low), atMost(high));
}

const ANY_MANTISSA = seq(digits(1, 9), ANY_FRACTION);
const ANY_PLAIN = seq(naturalRange(0n, null), ANY_FRACTION);
const ANY_SCIENTIFIC = scientific(ANY_MANTISSA, null, null);

function plainAtMost({ value, inclusive }: Bound): Expr {
  const whole = wholePart(value);
  const below = whole === 0n ? NEVER : seq(naturalRange(0n, whole - 1n), ANY_FRACTION);
  return alt(below, seq(text(String(whole)), fractionAtMost(fractionDigits(value), inclusive)));
}

function plainAtLeast({ value, inclusive }: Bound): Expr {
  const whole = wholePart(value);
  const above = seq(naturalRange(whole + 1n, null), ANY_FRACTION);
  return alt(above, seq(text(String(whole)), fractionAtLeast(fractionDigits(value), inclusive)));
}

/** The point and digits that come to at most 0.`bound`, or nothing if that does. */
function fractionAtMost(bound: string, inclusive: boolean): Expr {
  const none = inclusive || bound !== "" ? EMPTY : NEVER;
  return alt(none, seq(text("."), digitsAtMost(bound, inclusive, true)));
}

/** Digits after the point that come to at most 0.`bound`. */
export function digitsAtMost(bound: string, inclusive: boolean, needsDigit: boolean): Expr {
  if (bound === "") return inclusive ? repeat(text("0"), needsDigit ? 1 : 0) : NEVER;
  const digit = Number(bound[0]);
  return alt(
    needsDigit ? NEVER : EMPTY,
    digit === 0 ? NEVER : seq(digits(0, digit - 1), ANY_DIGITS),
    seq(text(bound[0]!), digitsAtMost(bound.slice(1), inclusive, false)),
  );
}

function fractionAtLeast(bound: string, inclusive: boolean): Expr {
  const none = inclusive && bound === "" ? EMPTY : NEVER;
  return alt(none, seq(text("."), digitsAtLeast(bound, inclusive, true)));
}

/** Digits after the point that come to at least 0.`bound`. */
export function digitsAtLeast(bound: string, inclusive: boolean, needsDigit: boolean): Expr {
  if (bound === "") {
    return inclusive ? repeat(DIGIT, needsDigit ? 1 : 0) : seq(repeat(text("0"), 0), digits(1, 9), ANY_DIGITS);
  }
  const digit = Number(bound[0]);
  return alt(
    digit === 9 ? NEVER : seq(digits(digit + 1, 9), ANY_DIGITS),
    seq(text(bound[0]!), digitsAtLeast(bound.slice(1), inclusive, false)),
  );
}

/** The mantissa decides where the exponents are equal. */
function scientificAtMost({ value, inclusive }: Bound): Expr {
  if (value.digits === "") return NEVER;
  const exponent = value.exponent - 1;
  const mantissa = { value: { ...value, negative: false, exponent: 1 }, inclusive };
  return alt(
    scientific(ANY_MANTISSA, null, exponent - 1),
    scientific(and(ANY_MANTISSA, plainAtMost(mantissa)), exponent, exponent),
  );
}

function scientificAtLeast({ value, inclusive }: Bound): Expr {
  if (value.digits === "") return scientific(ANY_MANTISSA, null, null);
  const exponent = value.exponent - 1;
  const mantissa = { value: { ...value, negative: false, exponent: 1 }, inclusive };
  return alt(
    scientific(ANY_MANTISSA, exponent + 1, null),
    scientific(and(ANY_MANTISSA, plainAtLeast(mantissa)), exponent, exponent),
  );
}

function scientific(mantissa: Expr, low: number | null, high: number | null): Expr {
  const below = Math.min(high ?? MAX_EXPONENT, MAX_EXPONENT - 1);
  const found = seq(mantissa, exponents(low, below));
  if ((high ?? MAX_EXPONENT) < MAX_EXPONENT) return found;
  return alt(found, seq(and(mantissa, LARGEST_MANTISSA), exponents(MAX_EXPONENT, MAX_EXPONENT)));
}

/** From the mark on. */
export function exponents(low: number | null, high: number | null): Expr {
  return knownExponents.get(`${low} ${high}`, () => newExponents(low, high));
}

function newExponents(low: number | null, high: number | null): Expr {
  const min = Math.max(low ?? MIN_EXPONENT, MIN_EXPONENT);
  const max = Math.min(high ?? MAX_EXPONENT, MAX_EXPONENT);
  if (min > max) return NEVER;
  const parts: Expr[] = [];
  if (max >= 0) {
    parts.push(seq(optional(text("+")), ZEROS, naturalRange(BigInt(Math.max(min, 0)), BigInt(max))));
  }
  if (min <= 0) {
    parts.push(seq(text("-"), ZEROS, naturalRange(BigInt(Math.max(-max, 0)), BigInt(-min))));
  }
  return seq(EXPONENT_MARK, alt(...parts));
}
