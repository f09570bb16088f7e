// Integers within bounds, and the numbers that are none. An integer is digits alone, as programs write it: neither 12.0 nor
// 1.2e1. Where a number need not be an integer, scientific notation has one digit before the point and as many after it as
// double precision can need.

import { ExprCache } from "../grammar/exprCache.js";
import { alt, and, EMPTY, type Expr, NEVER, not, optional, repeat, seq, text } from "../grammar/ir.js";
import {
  ANY_DIGITS,
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
  const parts = new FractionalParts();
  const [, belowOne] = farFromIntegers(2 ** (-1 - PRECISION));
  const small = seq(text("0."), and(digitsAtLeast("", false, true), digitsAtMost(belowOne, true, true)));
  // Between 2^n and 2^(n+1), what is closer than 2^(n-53) to an integer is rounded to it: the more, the larger n is, so that
  // smaller numbers may be there again.
  const others = Array.from({ length: PRECISION - 1 }, (_, n) => {
    const most = String(2n ** BigInt(n + 1) - 1n);
    const isLonger = most.length > String(2n ** BigInt(n)).length;
    const shorter = isLonger ? parts.wholeAtMost("9".repeat(most.length - 1)) : NEVER;
    return seq(
      alt(shorter, parts.wholeAtMost(most)),
      text("."),
      parts.fraction(...farFromIntegers(2 ** (n - PRECISION))),
    );
  });
  const mantissa = (places: number) => seq(digits(1, 9), optional(seq(text("."), repeat(DIGIT, 1, places))));
  const scientific = alt(
    seq(mantissa(MAX_FRACTION_DIGITS), exponents(null, -2)),
    and(seq(mantissa(CERTAIN_DIGITS - 1), exponents(-1, null)), not(unsignedWithPlaces(0, CERTAIN_DIGITS - 1, ZEROS))),
  );
  return seq(optional(text("-")), alt(small, ...others, scientific));
}

/** What several parts end with is one expression. */
class FractionalParts {
  private readonly known = new ExprCache(Number.POSITIVE_INFINITY);

  /** As many digits as `most` has, the first not zero, that come to at most that. */
  wholeAtMost(most: string): Expr {
    return this.before(most, 1, (rest) => this.digitsAtMost(rest));
  }

  private digitsAtMost(most: string): Expr {
    return this.known.get(`whole ${most}`, () => {
      if (/^9*$/.test(most)) return repeat(DIGIT, most.length, most.length);
      return this.before(most, 0, (rest) => this.digitsAtMost(rest));
    });
  }

  private before(most: string, from: number, then: (rest: string) => Expr): Expr {
    const [digit, rest] = [Number(most[0]), most.slice(1)];
    const smaller = this.known.get(`${from} ${digit} ${rest.length}`, () =>
      digit > from ? seq(digits(from, digit - 1), repeat(DIGIT, rest.length, rest.length)) : NEVER,
    );
    return alt(smaller, seq(text(most[0]!), then(rest)));
  }

  /** Digits after the point from `low` to `high`, which begin with 0 and 9, or have one digit. */
  fraction(low: string, high: string): Expr {
    if (low.length === 1) return and(digitsAtLeast(low, true, true), digitsAtMost(high, true, true));
    return alt(
      seq(text("0"), this.atLeast(low.slice(1))),
      seq(digits(1, 8), ANY_DIGITS),
      seq(text("9"), this.atMost(high.slice(1))),
    );
  }

  private atLeast(low: string): Expr {
    return this.known.get(`least ${low}`, () =>
      low.length === 1
        ? digitsAtLeast(low, true, false)
        : alt(seq(digits(1, 9), ANY_DIGITS), seq(text("0"), this.atLeast(low.slice(1)))),
    );
  }

  private atMost(high: string): Expr {
    return this.known.get(`most ${high}`, () =>
      high.length === 1
        ? digitsAtMost(high, true, false)
        : alt(EMPTY, seq(digits(0, 8), ANY_DIGITS), seq(text("9"), this.atMost(high.slice(1)))),
    );
  }
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
