// Exact decimal numbers: bounds as the schema wrote them.

/** (-1)^negative * 0.d1d2d3... * 10^exponent with d1 and the last digit not 0; zero has no digits. */
export interface Decimal {
  negative: boolean;
  digits: string;
  exponent: number;
}

/** The shortest decimal that is read back as this number. */
export function toDecimal(value: number | bigint): Decimal {
  const match = /^(-?)(\d+)(?:\.(\d+))?(?:e([+-]?\d+))?$/.exec(String(value));
  if (match === null) return { negative: false, digits: "", exponent: 0 };
  const [, sign = "", whole = "", fraction = "", exponent = "0"] = match;
  const leading = /^0*/.exec(whole + fraction)![0].length;
  const digits = (whole + fraction).slice(leading).replace(/0+$/, "");
  if (digits === "") return { negative: false, digits: "", exponent: 0 };
  return { negative: sign === "-", digits, exponent: whole.length - leading + Number(exponent) };
}

/** Times ten to this power. */
export function shifted(decimal: Decimal, power: number): Decimal {
  return decimal.digits === "" ? decimal : { ...decimal, exponent: decimal.exponent + power };
}

export function compareDecimals(a: Decimal, b: Decimal): number {
  if (a.negative !== b.negative) return a.negative ? -1 : 1;
  return a.negative ? compareSizes(b, a) : compareSizes(a, b);
}

function compareSizes(a: Decimal, b: Decimal): number {
  if (a.digits === "" || b.digits === "") return a.digits.length - b.digits.length;
  if (a.exponent !== b.exponent) return a.exponent - b.exponent;
  return a.digits < b.digits ? -1 : a.digits > b.digits ? 1 : 0;
}

export function isInteger(decimal: Decimal): boolean {
  return decimal.digits.length <= decimal.exponent || decimal.digits === "";
}

/** The largest integer that is not above it. */
export function floor(decimal: Decimal): bigint {
  const size = wholePart(decimal);
  if (!decimal.negative) return size;
  return isInteger(decimal) ? -size : -size - 1n;
}

/** Digits before the point, as a number. */
export function wholePart({ digits, exponent }: Decimal): bigint {
  return exponent <= 0 ? 0n : BigInt(digits.slice(0, exponent).padEnd(exponent, "0"));
}

/** Digits after the point, without trailing zeros. */
export function fractionDigits({ digits, exponent }: Decimal): string {
  if (digits === "") return "";
  return exponent >= 0 ? digits.slice(exponent) : "0".repeat(-exponent) + digits;
}

/** As [numerator, 10^k]. */
export function asFraction(decimal: Decimal): [numerator: bigint, denominator: bigint] {
  const fraction = fractionDigits(decimal);
  const denominator = 10n ** BigInt(fraction.length);
  const size = wholePart(decimal) * denominator + BigInt(fraction || "0");
  return [decimal.negative ? -size : size, denominator];
}

/** The least number that all `steps` (and 1, if `integer`) divide, as [n, places]: n / 10^places. */
export function commonMultiple(steps: readonly Decimal[], integer: boolean): [step: bigint, places: number] {
  const all = integer ? [...steps, toDecimal(1)] : steps;
  const places = Math.max(...all.map((one) => fractionDigits(one).length));
  let common = 1n;
  for (const one of all) {
    const [size] = asFraction(shifted(one, places));
    common = leastCommonMultiple(common, size);
  }
  const needed = Math.max(0, places - (/0*$/.exec(String(common))?.[0].length ?? 0));
  return [common / 10n ** BigInt(places - needed), needed];
}

export function leastCommonMultiple(a: bigint, b: bigint): bigint {
  return (a / greatestDivisor(a, b)) * b;
}

function greatestDivisor(a: bigint, b: bigint): bigint {
  return b === 0n ? a : greatestDivisor(b, a % b);
}
