// Integers within bounds in scientific notation: one digit before the point, not zero, as many after it as double precision
// can need, and an exponent that leaves no fraction. Written out exponent by exponent, so that no intersection is needed.

import { alt, EMPTY, type Expr, NEVER, repeat, seq, text } from "../ir.js";
import { DIGIT, digits } from "./digitRanges.js";
import { exponents } from "./numbers.js";

/** Digits after the point of a double's shortest decimal. */
export const MOST_FRACTION_DIGITS = 16;

/** The largest double; larger numbers are read as infinite. */
const LARGEST = 17976931348623157n * 10n ** 292n;

/** From `low` to `high`, both included; null: no bound. Zero has no such notation. */
export function scientificIntegers(low: bigint | null, high: bigint | null): Expr {
  return alt(sizes(low, high), seq(text("-"), sizes(high === null ? null : -high, low === null ? null : -low)));
}

function sizes(low: bigint | null, high: bigint | null): Expr {
  const from = low === null || low < 1n ? 1n : low;
  const to = high === null || high > LARGEST ? LARGEST : high;
  if (to < from) return NEVER;
  const [least, most] = [String(from), String(to)];
  const [first, last] = [least.length - 1, most.length - 1];
  if (first === last) return seq(digitsFrom(0, first, least, most), exponents(last, last));
  return alt(
    seq(digitsFrom(0, first, least, null), exponents(first, first)),
    anyMantissa(first + 1, last - 1),
    seq(digitsFrom(0, last, null, most), exponents(last, last)),
  );
}

function anyMantissa(least: number, most: number): Expr {
  let fraction: Expr = NEVER;
  for (let places = Math.min(most, MOST_FRACTION_DIGITS); places > 0; places--) {
    fraction = seq(DIGIT, alt(exponents(Math.max(least, places), most), fraction));
  }
  return seq(digits(1, 9), alt(exponents(least, most), seq(text("."), fraction)));
}

/**
 * The digits of a mantissa from the one at `at` on, the point among them; zeros at its end may be left out. `low`, `high`:
 * the digits that bound it, where those before are the bound's own; null where they decide already.
 */
function digitsFrom(at: number, exponent: number, low: string | null, high: string | null): Expr {
  if (at > 0 && low === null && high === null) return repeat(DIGIT, 1, lastPlace(exponent) - at + 1);
  const after = (from: string | null, to: string | null) => digitsAfter(at, exponent, from, to);
  const least = low === null ? (at === 0 ? 1 : 0) : Number(low[at]);
  const most = high === null ? 9 : Number(high[at]);
  if (low !== null && high !== null && least === most) return seq(digits(least, most), after(low, high));
  return alt(
    low === null ? NEVER : seq(digits(least, least), after(low, null)),
    seq(digits(low === null ? least : least + 1, high === null ? most : most - 1), after(null, null)),
    high === null ? NEVER : seq(digits(most, most), after(null, high)),
  );
}

function digitsAfter(at: number, exponent: number, low: string | null, high: string | null): Expr {
  const end = low === null || /^0*$/.test(low.slice(at + 1)) ? EMPTY : NEVER;
  if (at === lastPlace(exponent)) return end;
  return alt(end, seq(at === 0 ? text(".") : EMPTY, digitsFrom(at + 1, exponent, low, high)));
}

function lastPlace(exponent: number): number {
  return Math.min(exponent, MOST_FRACTION_DIGITS);
}
