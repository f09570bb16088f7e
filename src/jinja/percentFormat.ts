// `"%s of %d" % values`, Python's old formatting.

import { budget } from "./budget.js";
import { numberOf } from "./comparison.js";
import { fixed, withTwoDigitExponent } from "./numberText.js";
import { representation, textOfValue } from "./printing.js";
import {
  charactersOf,
  Dict,
  Float,
  isText,
  raise,
  STEPS_PER_BIG_INTEGER,
  Tuple,
  textOf,
  typeName,
  type Value,
} from "./values.js";

const CONVERSION = /%(?:\(([^()]*)\))?([-+ 0#]*)(\d+|\*)?(?:\.(\d*))?[hlL]?([\s\S]?)/g;
const MAX_WIDTH = 10_000;
/** What writing a number in any form costs. */
export const STEPS_PER_NUMBER = 16;

export function percentFormat(format: string, values: Value): string {
  budget().text(format.length);
  const mapping = values instanceof Dict ? values : null;
  const list = values instanceof Tuple ? values.items : [values];
  let used = 0;
  const next = (): Value => list[used++] ?? (used > list.length ? notEnough() : null);
  const text = format.replace(CONVERSION, (_whole, key, flags, width, precision, conversion) => {
    if (conversion === "%") return "%";
    if (conversion === "") return raise("ValueError", "incomplete format");
    if (key !== undefined && mapping === null) raise("TypeError", "format requires a mapping");
    const size = width === "*" ? Number(numberOf(next()) ?? 0) : Number(width ?? 0);
    const value = key === undefined ? next() : mapping!.get(key);
    if (value === undefined) return raise("KeyError", representation(key!));
    const digits = precision === undefined ? null : Number(precision);
    if (size > MAX_WIDTH || (digits ?? 0) > MAX_WIDTH) raise("ValueError", "width too big");
    budget().step(typeof value === "bigint" ? STEPS_PER_BIG_INTEGER : STEPS_PER_NUMBER);
    budget().text(size + (digits ?? 0));
    const written = converted(value, conversion, flags, digits);
    // The whole is put together when all values are known, so each is charged for as it comes.
    budget().text(written.length);
    return padded(written, conversion, flags, size);
  });
  const leftOver = values instanceof Tuple ? used < list.length : used === 0 && mapping === null && !isList(values);
  if (leftOver) raise("TypeError", "not all arguments converted during string formatting");
  return text;
}

function isList(value: Value): boolean {
  return Array.isArray(value);
}

function notEnough(): never {
  return raise("TypeError", "not enough arguments for format string");
}

function converted(value: Value, conversion: string, flags: string, precision: number | null): string {
  if (conversion === "s" || conversion === "r" || conversion === "a") {
    const text = conversion === "s" ? textOfValue(value) : representation(value);
    return precision === null ? text : charactersOf(text).slice(0, precision).join("");
  }
  if (conversion === "c") return isText(value) ? textOf(value) : characterOf(numberOf(value) ?? 0);
  const number = numberOf(value);
  if (number === null) {
    const need = "diu".includes(conversion) ? "a real number is required" : "an integer is required";
    return raise("TypeError", `%${conversion} format: ${need}, not ${typeName(value)}`);
  }
  const text = numberText(number, value instanceof Float, conversion, precision);
  if (text.startsWith("-")) return text;
  return flags.includes("+") ? `+${text}` : flags.includes(" ") ? ` ${text}` : text;
}

/** The character of a code point. */
export function characterOf(code: number | bigint): string {
  const point = Number(code);
  const isCode = Number.isInteger(point) && point >= 0 && point <= 0x10ffff;
  return isCode ? String.fromCodePoint(point) : raise("OverflowError", "%c arg not in range(0x110000)");
}

function numberText(number: number | bigint, isFloat: boolean, conversion: string, precision: number | null): string {
  const whole = () => {
    if (!isFloat) return BigInt(number);
    if (Number.isFinite(Number(number))) return BigInt(Math.trunc(Number(number)));
    return raise("OverflowError", "cannot convert float infinity or NaN to integer");
  };
  switch (conversion) {
    case "d":
    case "i":
    case "u":
      return whole().toString();
    case "x":
      return whole().toString(16);
    case "X":
      return whole().toString(16).toUpperCase();
    case "o":
      return whole().toString(8);
    case "f":
    case "F":
      return fixed(Number(number), precision ?? 6);
    case "e":
    case "E": {
      const text = withTwoDigitExponent(Number(number).toExponential(Math.min(100, precision ?? 6)));
      return conversion === "E" ? text.toUpperCase() : text;
    }
    case "g":
    case "G":
      return generalText(Number(number), precision ?? 6);
    default:
      return raise("ValueError", `unsupported format character '${conversion}'`);
  }
}

/** `%g`: the shorter of fixed and exponent form, without trailing zeros. */
export function generalText(value: number, precision: number): string {
  if (value === 0 || !Number.isFinite(value)) return String(value);
  const digits = Math.max(1, Math.min(100, precision));
  const [mantissa, exponentText] = value.toExponential(digits - 1).split("e");
  const exponent = Number(exponentText);
  const trimmed = (text: string) => (text.includes(".") ? text.replace(/\.?0+$/, "") : text);
  if (exponent < -4 || exponent >= digits) return withTwoDigitExponent(`${trimmed(mantissa!)}e${exponentText}`);
  return trimmed(fixed(value, Math.max(0, digits - 1 - exponent)));
}

function padded(text: string, conversion: string, flags: string, width: number): string {
  if (flags.includes("-")) return text.padEnd(width);
  if (!flags.includes("0") || "sra c".includes(conversion)) return text.padStart(width);
  const sign = /^[+\- ]/.exec(text)?.[0] ?? "";
  return sign + text.slice(sign.length).padStart(width - sign.length, "0");
}
