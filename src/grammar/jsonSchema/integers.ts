// Integers within bounds, and the numbers that are none. A number without fraction is an integer however it is spelled: 12,
// 12.0, 1.2e1. Scientific notation has one digit before the point here and as many after it as double precision can need.

import { alt, and, EMPTY, type Expr, NEVER, not, optional, repeat, seq, text } from "../ir.js";
import { Remembered } from "../remembered.js";
import { toDecimal } from "./decimals.js";
import { DIGIT, digits, naturalRange, ZERO_FRACTION, ZEROS } from "./digitRanges.js";
import { type Bound, bySign, exponents, numberRange, scientificRange } from "./numbers.js";

/** Digits after the point of a double's shortest decimal. */
const MOST_FRACTION_DIGITS = 16;

/** Whether an integer may be written with a fraction of zeros or with an exponent. Draft 4 takes neither for an integer. */
export type IntegerSpelling = "any" | "digits";

const ranges = new Remembered(256);
/** By places, most digits and padding. */
const scientifics = new Remembered(64);

/** Integers from `low` to `high`, both included; null: no bound. Minus zero is zero. */
export function integerRange(low: bigint | null, high: bigint | null, spelling: IntegerSpelling): Expr {
  return ranges.get(`${low} ${high} ${spelling}`, () => newIntegerRange(low, high, spelling));
}

function newIntegerRange(low: bigint | null, high: bigint | null, spelling: IntegerSpelling): Expr {
  if (low !== null && high !== null && low > high) return NEVER;
  const plain = bySign(low, high, naturalRange);
  if (spelling === "digits") return plain;
  const range = scientificRange(low === null ? null : boundAt(low), high === null ? null : boundAt(high));
  const digitsOf = (bound: bigint | null) => (bound === null ? MOST_FRACTION_DIGITS : String(bound).length);
  const most = Math.min(MOST_FRACTION_DIGITS, Math.max(digitsOf(low), digitsOf(high)));
  return alt(seq(plain, ZERO_FRACTION), and(scientificWithPlaces(0, most), range));
}

/** Decimals of at most `places` digits after the point, however they are spelled, within bounds. */
export function fixedPointRange(low: Bound | null, high: Bound | null, places: number): Expr {
  const fraction = optional(seq(text("."), alt(repeat(text("0"), 1), seq(repeat(DIGIT, 1, places), ZEROS))));
  const plain = seq(optional(text("-")), naturalRange(0n, null), fraction);
  return and(alt(plain, scientificWithPlaces(places, MOST_FRACTION_DIGITS)), numberRange(low, high));
}

/** Numbers that are no integers. */
export function fractionalRange(low: Bound | null, high: Bound | null): Expr {
  const fraction = seq(text("."), ZEROS, digits(1, 9), repeat(DIGIT, 0));
  const plain = seq(optional(text("-")), naturalRange(0n, null), fraction);
  const mantissa = seq(digits(1, 9), optional(seq(text("."), repeat(DIGIT, 1, MOST_FRACTION_DIGITS))));
  const scientific = seq(optional(text("-")), mantissa, exponents(null, null));
  const isNone = not(scientificWithPlaces(0, MOST_FRACTION_DIGITS, ZEROS));
  return and(alt(plain, and(scientific, isNone)), numberRange(low, high));
}

function boundAt(value: bigint): Bound {
  return { value: toDecimal(value), inclusive: true };
}

/**
 * Scientific notation of numbers with at most `places` decimals: the exponent takes the rest of up to `most` digits after
 * the mantissa's point. `padding`: what may follow those digits.
 */
function scientificWithPlaces(places: number, most: number, padding: Expr = EMPTY): Expr {
  const key = `${places} ${most} ${padding.kind}`;
  return scientifics.get(key, () => newScientificWithPlaces(places, most, padding));
}

function newScientificWithPlaces(places: number, most: number, padding: Expr): Expr {
  let fraction: Expr = NEVER;
  for (let count = most; count >= 1; count--) {
    fraction = seq(DIGIT, alt(seq(padding, exponents(count - places, null)), fraction));
  }
  const zeroes = padding.kind === "empty" ? NEVER : seq(text("."), repeat(text("0"), 1), exponents(-places, null));
  const mantissa = alt(exponents(-places, null), seq(text("."), fraction), zeroes);
  return seq(optional(text("-")), digits(1, 9), mantissa);
}
