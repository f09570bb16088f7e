// Numbers within bounds. Without bounds any spelling of JSON is accepted; with them, plain decimals (12.50) and
// scientific notation with one digit before the point (1.25e+1), as programs write numbers: of other spellings no
// automaton could tell the size. Minus zero is accepted where negative numbers are.

import { alt, and, chars, EMPTY, type Expr, NEVER, optional, repeat, seq, text } from "../ir.js";
import { NUMBER } from "../jsonValues.js";
import { type Decimal, fractionDigits, wholePart } from "./decimals.js";
import { digits, naturalRange } from "./integers.js";

export interface Bound {
  value: Decimal;
  inclusive: boolean;
}

const DIGIT = chars([0x30, 0x39]);
const ANY_DIGITS = repeat(DIGIT, 0);
const ANY_FRACTION = optional(seq(text("."), repeat(DIGIT, 1)));
const EXPONENT_MARK = chars([0x45, 0x45], [0x65, 0x65]);
/** Double precision has larger exponents for some mantissas only. */
const LARGEST_EXPONENT = 307;

/** Numbers between two bounds; null: no bound. */
export function numberRange(low: Bound | null, high: Bound | null): Expr {
  if (low === null && high === null) return NUMBER;
  const positive = sizes(low === null || low.value.negative ? null : low, high);
  const canBePositive = high === null || !high.value.negative;
  const parts: Expr[] = canBePositive ? [positive] : [];
  if (low === null || low.value.negative) {
    const least = high?.value.negative ? high : null;
    const aboveZero = high !== null && high.value.digits === "" && !high.inclusive ? high : null;
    parts.push(seq(text("-"), sizes(least ?? aboveZero, low)));
  }
  return alt(...parts);
}

/** Decimals of at most `places` digits after the point (more, if zeros), within bounds. */
export function fixedPointRange(low: Bound | null, high: Bound | null, places: number): Expr {
  const fraction = optional(
    seq(text("."), alt(repeat(text("0"), 1), seq(repeat(DIGIT, 1, places), repeat(text("0"), 0)))),
  );
  const form = seq(optional(text("-")), naturalRange(0n, null), fraction);
  return low === null && high === null ? form : and(form, numberRange(low, high));
}

/** Numbers that are no integers, as plain decimals. */
export function fractionalRange(low: Bound | null, high: Bound | null): Expr {
  const fraction = seq(text("."), repeat(text("0"), 0), digits(1, 9), ANY_DIGITS);
  const form = seq(optional(text("-")), naturalRange(0n, null), fraction);
  return low === null && high === null ? form : and(form, numberRange(low, high));
}

/** Sizes without sign. Bounds count without their signs. */
function sizes(low: Bound | null, high: Bound | null): Expr {
  const parts: Expr[] = [];
  if (low !== null) parts.push(alt(plainAtLeast(low), scientificAtLeast(low)));
  if (high !== null) parts.push(alt(plainAtMost(high), scientificAtMost(high)));
  if (parts.length === 0)
    parts.push(alt(seq(naturalRange(0n, null), ANY_FRACTION), scientific(ANY_MANTISSA, null, null)));
  return and(...parts);
}

const ANY_MANTISSA = seq(digits(1, 9), ANY_FRACTION);

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

function digitsAtMost(bound: string, inclusive: boolean, needsDigit: boolean): Expr {
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

function digitsAtLeast(bound: string, inclusive: boolean, needsDigit: boolean): Expr {
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
  const least = Math.max(low ?? -LARGEST_EXPONENT, -LARGEST_EXPONENT);
  const most = Math.min(high ?? LARGEST_EXPONENT, LARGEST_EXPONENT);
  if (least > most) return NEVER;
  const zeros = repeat(text("0"), 0);
  const parts: Expr[] = [];
  if (most >= 0) {
    parts.push(seq(optional(text("+")), zeros, naturalRange(BigInt(Math.max(least, 0)), BigInt(most))));
  }
  if (least <= 0) {
    parts.push(seq(text("-"), zeros, naturalRange(BigInt(Math.max(-most, 0)), BigInt(-least))));
  }
  return seq(mantissa, EXPONENT_MARK, alt(...parts));
}
