// Strings of decimal digits between two others.

import { alt, chars, EMPTY, type Expr, NEVER, repeat, seq, text } from "../grammar/ir.js";

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
