// Python's formats: `"%s of %d" % values`, `"{} of {total:>8.2f}".format(...)` and `strftime`.

import { budget } from "./budget.js";
import { numberOf } from "./comparison.js";
import { fixed, floatText, grouped, representation, textOfValue, withTwoDigitExponent } from "./printing.js";
import {
  type CallValues,
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
  wideCharacters,
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
  if ("xXo".includes(conversion) && value instanceof Float) {
    return raise("TypeError", `%${conversion} format: an integer is required, not float`);
  }
  const digits = numberText(number, value instanceof Float, conversion, precision);
  const isMarked = flags.includes("#") && "xXo".includes(conversion);
  const text = isMarked ? digits.replace(/^-?/, (sign) => `${sign}0${conversion}`) : digits;
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
      return generalText(Number(number), precision ?? 6);
    case "G":
      return generalText(Number(number), precision ?? 6).toUpperCase();
    default:
      return raise("ValueError", `unsupported format character '${conversion}'`);
  }
}

/** `%g`: the shorter of fixed and exponent form, without trailing zeros. */
export function generalText(value: number, precision: number): string {
  if (!Number.isFinite(value)) return floatText(value);
  if (value === 0) return Object.is(value, -0) ? "-0" : "0";
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
  const sign = /^[+\- ]?(?:0[xXo])?/.exec(text)![0];
  return sign + text.slice(sign.length).padStart(width - sign.length, "0");
}

const FIELD = /\{\{|\}\}|\{([^{}!:]*)(?:!([rsa]))?(?::([^{}]*))?\}|[{}]/g;
const SPECIFICATION = /^(?:([\s\S])?([<>=^]))?([-+ ])?(#)?(0)?(\d+)?([,_])?(?:\.(\d+))?([bcdeEfFgGnosxX%])?$/u;

/** How fields of a format look into values. */
export interface FieldLookup {
  attribute(value: Value, name: string): Value;
  item(value: Value, key: Value): Value;
}

export function braceFormat(format: string, values: CallValues, lookup: FieldLookup): string {
  let automatic = 0;
  budget().text(format.length);
  return format.replace(FIELD, (whole, path: string | undefined, conversion, specification) => {
    budget().step();
    if (whole === "{{") return "{";
    if (whole === "}}") return "}";
    if (path === undefined) return raise("ValueError", `Single '${whole}' encountered in format string`);
    const name = /^[^.[]*/.exec(path)![0];
    const index = name === "" ? String(automatic++) : name;
    const value = followPath(argumentNamed(values, index), path.slice(name.length), lookup);
    const shown = conversion === undefined ? value : conversion === "s" ? textOfValue(value) : representation(value);
    const text = formatted(shown, specification ?? "");
    // The whole is put together when all fields are known, so each is charged for as it comes.
    budget().text(text.length);
    return text;
  });
}

function argumentNamed(values: CallValues, name: string): Value {
  if (/^\d+$/.test(name)) {
    const value = values.positional[Number(name)];
    return value !== undefined
      ? value
      : raise("IndexError", "Replacement index out of range for positional args tuple");
  }
  const value = values.named.get(name);
  return value !== undefined ? value : raise("KeyError", representation(name));
}

/** `.name` and `[key]` after the argument; digits in brackets are an index. */
function followPath(start: Value, path: string, { attribute, item }: FieldLookup): Value {
  let value = start;
  for (const [, name, key] of path.matchAll(/\.([^.[]+)|\[([^[\]]*)\]/g)) {
    budget().step();
    value = name !== undefined ? attribute(value, name) : item(value, /^\d+$/.test(key!) ? Number(key) : key!);
  }
  return value;
}

/** Python's `format(value, specification)`. */
export function formatted(value: Value, specification: string): string {
  if (specification === "") return textOfValue(value);
  const match = SPECIFICATION.exec(specification);
  if (match === null) return raise("ValueError", `Invalid format specifier '${specification}'`);
  const [, fill, align, sign, alternate, zero, width, separator, precision, type] = match;
  const size = Number(width ?? 0);
  const digits = precision === undefined ? null : Number(precision);
  if (size > MAX_WIDTH || (digits ?? 0) > MAX_WIDTH) raise("ValueError", "Too many decimal digits in format string");
  budget().step(typeof value === "bigint" ? STEPS_PER_BIG_INTEGER : STEPS_PER_NUMBER);
  budget().text(size + (digits ?? 0));
  const number = typeof value === "boolean" && type === undefined ? null : numberOf(value);
  if (number === null) {
    if (type !== undefined && type !== "s") {
      raise("ValueError", `Unknown format code '${type}' for object of type '${typeName(value)}'`);
    }
    const text = firstCharacters(textOfValue(value), digits);
    return aligned(text, "", align ?? "<", fill ?? " ", size);
  }
  const body = numberBody(number, value instanceof Float, type, digits, separator, alternate !== undefined);
  const negative = body.startsWith("-");
  const prefix = negative ? "-" : sign === "+" || sign === " " ? sign : "";
  const padding = fill ?? (zero === undefined ? " " : "0");
  return aligned(negative ? body.slice(1) : body, prefix, align ?? (zero === undefined ? ">" : "="), padding, size);
}

function firstCharacters(text: string, count: number | null): string {
  return count === null ? text : charactersOf(text).slice(0, count).join("");
}

function aligned(text: string, sign: string, align: string, fill: string, width: number): string {
  const missing = width - sign.length - (wideCharacters(text)?.length ?? text.length);
  if (missing <= 0) return sign + text;
  if (align === "=") return sign + fill.repeat(missing) + text;
  if (align === "<") return sign + text + fill.repeat(missing);
  if (align === ">") return fill.repeat(missing) + sign + text;
  const left = Math.floor(missing / 2);
  return fill.repeat(left) + sign + text + fill.repeat(missing - left);
}

function numberBody(
  number: number | bigint,
  isFloat: boolean,
  type: string | undefined,
  precision: number | null,
  separator: string | undefined,
  alternate: boolean,
): string {
  const text = digitsOf(number, isFloat, type, precision, alternate);
  if (separator === undefined) return text;
  const [, sign, whole, rest] = /^(-?)(\d*)([\s\S]*)$/.exec(text)!;
  return sign + grouped(whole!, separator) + rest;
}

function digitsOf(
  number: number | bigint,
  isFloat: boolean,
  type: string | undefined,
  precision: number | null,
  alternate: boolean,
): string {
  const inBase = (base: number, prefix: string) => {
    if (isFloat) raise("ValueError", `Unknown format code '${type}' for object of type 'float'`);
    const digits = number.toString(base);
    return alternate ? digits.replace(/^-?/, (sign) => sign + prefix) : digits;
  };
  switch (type) {
    case "b":
      return inBase(2, "0b");
    case "o":
      return inBase(8, "0o");
    case "x":
      return inBase(16, "0x");
    case "X":
      return inBase(16, "0X").toUpperCase();
    case "d":
      return inBase(10, "");
    case "c":
      return characterOf(number);
    case "s":
      return raise("ValueError", `Unknown format code 's' for object of type '${isFloat ? "float" : "int"}'`);
    case "f":
    case "F":
      return fixed(Number(number), precision ?? 6);
    case "e":
      return withTwoDigitExponent(Number(number).toExponential(Math.min(100, precision ?? 6)));
    case "E":
      return withTwoDigitExponent(Number(number).toExponential(Math.min(100, precision ?? 6))).toUpperCase();
    case "%":
      return `${fixed(Number(number) * 100, precision ?? 6)}%`;
    case "g":
    case "n":
      return generalText(Number(number), precision ?? 6);
    case "G":
      return generalText(Number(number), precision ?? 6).toUpperCase();
    default:
      if (precision !== null) return generalText(Number(number), precision);
      return isFloat ? floatText(Number(number)) : number.toString();
  }
}

const DAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS = [
  ...["January", "February", "March", "April", "May", "June"],
  ...["July", "August", "September", "October", "November", "December"],
];
const DAY_MILLISECONDS = 86_400_000;
/** What one directive costs: it may ask the calendar several times. */
const STEPS_PER_DIRECTIVE = 32;

export function strftime(date: Date, format: string): string {
  budget().text(format.length);
  return format.replace(/%([-_0^#]?)([a-zA-Z%])/g, (whole, flag: string, directive: string) => {
    budget().step(STEPS_PER_DIRECTIVE);
    const text = directiveText(date, directive);
    if (text === undefined) return whole;
    if (flag === "-") return text.replace(/^[0 ]+(?=.)/, "");
    if (flag === "_") return text.replace(/^0+(?=.)/, (zeros) => " ".repeat(zeros.length));
    return flag === "^" || flag === "#" ? text.toUpperCase() : text;
  });
}

function directiveText(date: Date, directive: string): string | undefined {
  const two = (value: number) => String(value).padStart(2, "0");
  const spaced = (value: number) => String(value).padStart(2);
  const weekday = date.getDay();
  const hour12 = date.getHours() % 12 === 0 ? 12 : date.getHours() % 12;
  const all = (format: string) => strftime(date, format);
  switch (directive) {
    case "Y":
      return String(date.getFullYear());
    case "C":
      return two(Math.floor(date.getFullYear() / 100));
    case "y":
      return two(date.getFullYear() % 100);
    case "m":
      return two(date.getMonth() + 1);
    case "d":
      return two(date.getDate());
    case "e":
      return spaced(date.getDate());
    case "H":
      return two(date.getHours());
    case "k":
      return spaced(date.getHours());
    case "I":
      return two(hour12);
    case "l":
      return spaced(hour12);
    case "M":
      return two(date.getMinutes());
    case "S":
      return two(date.getSeconds());
    case "f":
      return String(date.getMilliseconds() * 1000).padStart(6, "0");
    case "p":
      return date.getHours() < 12 ? "AM" : "PM";
    case "P":
      return date.getHours() < 12 ? "am" : "pm";
    case "a":
      return DAYS[weekday]!.slice(0, 3);
    case "A":
      return DAYS[weekday]!;
    case "b":
    case "h":
      return MONTHS[date.getMonth()]!.slice(0, 3);
    case "B":
      return MONTHS[date.getMonth()]!;
    case "w":
      return String(weekday);
    case "u":
      return String(weekday === 0 ? 7 : weekday);
    case "j":
      return String(dayOfYear(date) + 1).padStart(3, "0");
    case "U":
      return two(Math.floor((dayOfYear(date) + 7 - weekday) / 7));
    case "W":
      return two(Math.floor((dayOfYear(date) + 7 - ((weekday + 6) % 7)) / 7));
    case "s":
      return String(Math.floor(date.getTime() / 1000));
    case "c":
      return all("%a %b %e %H:%M:%S %Y");
    case "x":
    case "D":
      return all("%m/%d/%y");
    case "X":
    case "T":
      return all("%H:%M:%S");
    case "R":
      return all("%H:%M");
    case "F":
      return all("%Y-%m-%d");
    case "n":
      return "\n";
    case "t":
      return "\t";
    // A naive Python datetime has no zone.
    case "z":
    case "Z":
      return "";
    case "%":
      return "%";
    default:
      return undefined;
  }
}

/** Days since 1 January, counted on the calendar, not on the clock: days may have 23 or 25 hours. */
function dayOfYear(date: Date): number {
  const day = Date.UTC(date.getFullYear(), date.getMonth(), date.getDate());
  return Math.round((day - Date.UTC(date.getFullYear(), 0, 1)) / DAY_MILLISECONDS);
}
