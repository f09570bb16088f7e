// Integers within bounds, and the numbers that are none. An integer is digits alone, as programs write it: neither 12.0 nor
// 1.2e1. Where a number need not be an integer, scientific notation has one digit before the point and as many after it as
// double precision can need.

import { ExprCache } from "../grammar/exprCache.js";
import { alt, and, EMPTY, type Expr, NEVER, not, optional, repeat, seq, text } from "../grammar/ir.js";
import {
  type Bound,
  bySign,
  DIGIT,
  digits,
  digitsAtLeast,
  digitsAtMost,
  exponents,
  naturalRange,
  numberRange,
  ZEROS,
} from "./numbers.js";

/** Digits after the point of a double's shortest decimal. */
const MAX_FRACTION_DIGITS = 16;

/** Numbers of so many digits are different ones in double precision, too. */
const CERTAIN_DIGITS = 15;
/** Binary digits of a double. */
const PRECISION = 53;

const ranges = new ExprCache(256);
/** By places, most digits and padding. */
const scientifics = new ExprCache(64);
let fractional: Expr | undefined;

/** Integers from `low` to `high`, both included; null: no bound. Minus zero is zero. */
export function integerRange(low: bigint | null, high: bigint | null): Expr {
  return ranges.get(`${low} ${high}`, () =>
    low !== null && high !== null && low > high ? NEVER : bySign(low, high, naturalRange),
  );
}

/** Decimals of at most `places` digits after the point, however they are spelled, within bounds. */
export function fixedPointRange(low: Bound | null, high: Bound | null, places: number): Expr {
  const fraction = optional(seq(text("."), alt(repeat(text("0"), 1), seq(repeat(DIGIT, 1, places), ZEROS))));
  const plain = seq(optional(text("-")), naturalRange(0n, null), fraction);
  return and(alt(plain, scientificWithPlaces(places, MAX_FRACTION_DIGITS)), numberRange(low, high));
}

/** Numbers that are no integers, and that double precision does not round to one as it does 4503599627370497.1. */
export function fractionalRange(low: Bound | null, high: Bound | null): Expr {
  fractional ??= newFractional();
  return low === null && high === null ? fractional : and(fractional, numberRange(low, high));
}

function newFractional(): Expr {
  const [, belowOne] = farFromIntegers(2 ** (-1 - PRECISION));
  const small = seq(text("0."), and(digitsAtLeast("", false, true), digitsAtMost(belowOne, true, true)));
  // Between 2^n and 2^(n+1), what is closer than 2^(n-53) to an integer is rounded to it.
  const others = Array.from({ length: PRECISION - 1 }, (_, n) => {
    const [low, high] = farFromIntegers(2 ** (n - PRECISION));
    const whole = naturalRange(2n ** BigInt(n), 2n ** BigInt(n + 1) - 1n);
    return seq(whole, text("."), and(digitsAtLeast(low, true, true), digitsAtMost(high, true, true)));
  });
  const mantissa = (places: number) => seq(digits(1, 9), optional(seq(text("."), repeat(DIGIT, 1, places))));
  const scientific = alt(
    seq(mantissa(MAX_FRACTION_DIGITS), exponents(null, -2)),
    and(seq(mantissa(CERTAIN_DIGITS - 1), exponents(-1, null)), not(unsignedWithPlaces(0, CERTAIN_DIGITS - 1, ZEROS))),
  );
  return seq(optional(text("-")), alt(small, ...others, scientific));
}

/** Digits after the point between which numbers are at least this far from integers. */
function farFromIntegers(distance: number): [low: string, high: string] {
  const [mantissa, exponent] = distance.toExponential().split("e").map(Number) as [number, number];
  // Up to 9, or the 1 of the digit before.
  const digit = mantissa > 9 ? 1 : Math.ceil(mantissa);
  const others = -exponent - (mantissa > 9 ? 2 : 1);
  return [`${"0".repeat(others)}${digit}`, `${"9".repeat(others)}${10 - digit}`];
}

/**
 * Scientific notation of numbers with at most `places` decimals: the exponent takes the rest of up to `most` digits after
 * the mantissa's point. `padding`: what may follow those digits.
 */
function scientificWithPlaces(places: number, most: number, padding: Expr = EMPTY): Expr {
  const key = `${places} ${most} ${padding.kind}`;
  return scientifics.get(key, () => seq(optional(text("-")), unsignedWithPlaces(places, most, padding)));
}

function unsignedWithPlaces(places: number, most: number, padding: Expr): Expr {
  let fraction: Expr = NEVER;
  for (let count = most; count >= 1; count--) {
    fraction = seq(DIGIT, alt(seq(padding, exponents(count - places, null)), fraction));
  }
  const zeroes = padding.kind === "empty" ? NEVER : seq(text("."), repeat(text("0"), 1), exponents(-places, null));
  const mantissa = alt(exponents(-places, null), seq(text("."), fraction), zeroes);
  return seq(digits(1, 9), mantissa);
}
