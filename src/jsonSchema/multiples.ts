// Multiples of a decimal number.

import { ExprCache } from "../grammar/exprCache.js";
import { GrammarError } from "../grammar/grammarError.js";
import { alt, chars, EMPTY, type Expr, NEVER, type Range, seq, text } from "../grammar/ir.js";
import type { RuleBook } from "../grammar/ruleBook.js";
import { leastCommonMultiple, shifted, toDecimal } from "./decimals.js";
import { bySign, plainDecimal, ZEROS } from "./numbers.js";

/** Multiples between bounds are listed up to this many. */
const MAX_LISTED = 200n;
/** Remainders are states. */
const MAX_STEP = 1000n;
const MAX_DIGITS = 15n;
/** Each remainder is a state at each digit then. */
const MAX_COUNTED = 200n;

/**
 * Multiples of `step` / 10^`places` between `low` / 10^`places` and `high` / 10^`places`, both included; null: no bound.
 * As plain decimals where they are too many to be listed, and without a bound up to fifteen digits: of longer ones, double
 * precision no longer tells whether they are multiples. `excluded`: integers only, that are multiples of none of these.
 */
export function multiplesInRange(
  rules: RuleBook,
  low: bigint | null,
  high: bigint | null,
  step: bigint,
  places: number,
  excluded: readonly bigint[] = [],
): Expr {
  const isBounded = low !== null && high !== null;
  if (isBounded && (high - low) / step <= MAX_LISTED) {
    const found: Expr[] = [];
    for (let value = ceilTo(low, step); value <= high; value += step) {
      if (excluded.some((one) => value % one === 0n)) continue;
      found.push(text(plainDecimal(shifted(toDecimal(value), -places))));
    }
    return alt(...found);
  }
  const modulus = excluded.reduce(leastCommonMultiple, step);
  if (modulus > MAX_STEP) {
    throw new GrammarError(`steps of more than ${MAX_STEP} units can be enforced only between close bounds`);
  }
  const isWanted = (remainder: number) =>
    BigInt(remainder) % step === 0n && excluded.every((one) => BigInt(remainder) % one !== 0n);
  const multiples = new Multiples(rules, Number(modulus), places, isWanted);
  const limit = modulus > MAX_COUNTED ? null : 10n ** MAX_DIGITS - 1n;
  const most = high ?? (limit !== null && (low === null || low <= limit) ? limit : null);
  const least = low ?? (limit !== null && (high === null || high >= -limit) ? -limit : null);
  return bySign(least, most, (from, to) => multiples.range(from, to));
}

function ceilTo(value: bigint, step: bigint): bigint {
  const rest = ((value % step) + step) % step;
  return rest === 0n ? value : value + step - rest;
}

/** Decimals, as strings of digits without their point, by remainder: one rule for each, going on with one more digit. */
class Multiples {
  private readonly known = new Map<string, Expr>();

  constructor(
    private readonly rules: RuleBook,
    private readonly step: number,
    private readonly places: number,
    /** Remainders of integers that are wanted. */
    private readonly isWanted: (remainder: number) => boolean,
  ) {}

  range(from: bigint, to: bigint | null): Expr {
    if (to !== null && to < from) return NEVER;
    const written = (value: bigint) => String(value).padStart(this.places + 1, "0");
    const low = written(from);
    const high = to === null ? null : written(to);
    const parts: Expr[] = [];
    const longest = high === null ? low.length : high.length;
    for (let length = low.length; length <= longest; length++) {
      const least = length === low.length ? low : `1${"0".repeat(length - 1)}`;
      const most = length === high?.length ? high : "9".repeat(length);
      parts.push(this.between(least, most, 0));
    }
    if (high === null) {
      parts.push(...afterDigits(1, 9, (digit) => this.atLeast(low.length - this.places, digit % this.step)));
    }
    return alt(...parts);
  }

  /** Digits between two strings of equal length that complete a number of this remainder to a multiple. */
  private between(low: string, high: string, remainder: number): Expr {
    if (low === "") {
      if (this.places === 0) return this.isWanted(remainder) ? EMPTY : NEVER;
      return remainder === 0 ? ZEROS : NEVER;
    }
    return this.ruleBefore(low.length, remainder, `${low} ${high}`, (remainder) => {
      const rest = low.length - 1;
      const [from, to] = [Number(low[0]), Number(high[0])];
      const parts = afterDigits(from, to, (digit) => {
        const least = digit === from ? low.slice(1) : "0".repeat(rest);
        const most = digit === to ? high.slice(1) : "9".repeat(rest);
        return this.between(least, most, this.after(remainder, digit));
      });
      if (low.length > this.places) return alt(...parts);
      const canEnd = /^0*$/.test(low) && (remainder * 10 ** low.length) % this.step === 0;
      const end = canEnd ? EMPTY : NEVER;
      return low.length === this.places ? alt(end, seq(text("."), alt(...parts))) : alt(end, ...parts);
    });
  }

  /** The same with at least `count` digits before the point. */
  private atLeast(count: number, remainder: number): Expr {
    return this.ruleBefore(count + this.places, remainder, `+${count}`, (remainder) => {
      const fraction = this.between("0".repeat(this.places), "9".repeat(this.places), remainder);
      const more = afterDigits(0, 9, (digit) => this.atLeast(Math.max(0, count - 1), this.after(remainder, digit)));
      return count === 0 ? alt(fraction, ...more) : alt(...more);
    });
  }

  private after(remainder: number, digit: number): number {
    return (remainder * 10 + digit) % this.step;
  }

  /** Remainders are one where so many more digits leave the same of them. */
  private ruleBefore(digits: number, remainder: number, what: string, make: (remainder: number) => Expr): Expr {
    let told = this.step;
    for (let i = 0; i < digits && (told % 2 === 0 || told % 5 === 0); i++) {
      told /= (told % 2 === 0 ? 2 : 1) * (told % 5 === 0 ? 5 : 1);
    }
    const least = remainder % told;
    return this.rules.once(this.known, `${what} ${least}`, () => make(least));
  }
}

const digitSets = new ExprCache(1024);

/** The same expression for the same digits. */
function digitSet(digits: readonly number[]): Expr {
  return digitSets.get(digits.join(""), () => chars(...digits.map((digit): Range => [0x30 + digit, 0x30 + digit])));
}

/** One digit and what follows it, for each from `from` to `to`; those that the same follows are one set. */
function afterDigits(from: number, to: number, following: (digit: number) => Expr): Expr[] {
  const digits = new Map<Expr, number[]>();
  for (let digit = from; digit <= to; digit++) {
    const next = following(digit);
    const known = digits.get(next);
    if (known === undefined) digits.set(next, [digit]);
    else known.push(digit);
  }
  return [...digits].map(([next, [first, ...others]]) => {
    if (others.length === 0) return seq(text(String(first)), next);
    return seq(digitSet([first!, ...others]), next);
  });
}
