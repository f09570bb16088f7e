// Numbers as Python prints them, and rounded as Python rounds them.

/** `repr` of a float: shortest digits, exponent from 1e16 and below 1e-4. */
export function floatText(value: number): string {
  if (Number.isNaN(value)) return "nan";
  if (!Number.isFinite(value)) return value > 0 ? "inf" : "-inf";
  const size = Math.abs(value);
  if (size !== 0 && (size >= 1e16 || size < 1e-4)) return withTwoDigitExponent(value.toExponential());
  const text = Object.is(value, -0) ? "-0" : String(value);
  return text.includes(".") ? text : `${text}.0`;
}

/** `1e-7` as Python writes it: `1e-07`. */
export function withTwoDigitExponent(text: string): string {
  return text.replace(/e([+-])(\d)$/, "e$10$2");
}

/**
 * `value` with `precision` decimals, correctly rounded, halves to even. toFixed is exact but rounds halves up, so the
 * digits after the last one decide.
 */
export function fixed(value: number, precision: number): string {
  if (!Number.isFinite(value)) return floatText(value);
  if (Math.abs(value) >= 1e21) return BigInt(value).toString() + (precision > 0 ? `.${"0".repeat(precision)}` : "");
  const places = Math.min(100, precision);
  const exact = value.toFixed(Math.min(100, places + 40));
  const end = exact.indexOf(".") + (places === 0 ? 0 : places + 1);
  const kept = exact.slice(0, end);
  const isHalf = /^\.?50*$/.test(exact.slice(end));
  const lastDigit = Number(kept.replace(".", "").at(-1));
  const rounded = isHalf && lastDigit % 2 === 0 ? kept : value.toFixed(places);
  return rounded + "0".repeat(precision - places);
}

/** Python's `round(value, precision)` of a float; a negative precision rounds before the point. */
export function rounded(value: number, precision: number): number {
  if (!Number.isFinite(value) || value === 0) return value;
  if (precision >= 0) return Number(fixed(value, Math.min(precision, 100)));
  const unit = 10 ** -precision;
  if (unit > 2 * Math.abs(value)) return 0;
  return roundHalfEven(value / unit) * unit;
}

function roundHalfEven(value: number): number {
  const floor = Math.floor(value);
  if (value - floor !== 0.5) return Math.round(value);
  return floor % 2 === 0 ? floor : floor + 1;
}

/** Digits in groups from the right, as the `,` and `_` options of a format ask. */
export function grouped(digits: string, separator: string): string {
  const first = digits.length % 3;
  const groups = digits.slice(first).match(/\d{3}/g) ?? [];
  return (first === 0 ? groups : [digits.slice(0, first), ...groups]).join(separator);
}
