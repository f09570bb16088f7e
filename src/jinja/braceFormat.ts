// `"{} of {total:>8.2f}".format(...)`, Python's new formatting.

import { budget } from "./budget.js";
import { numberOf } from "./comparison.js";
import { attribute, item } from "./lookup.js";
import { fixed, floatText, grouped, withTwoDigitExponent } from "./numberText.js";
import { characterOf, generalText, STEPS_PER_NUMBER } from "./percentFormat.js";
import { representation, textOfValue } from "./printing.js";
import {
  type CallValues,
  charactersOf,
  Float,
  raise,
  STEPS_PER_BIG_INTEGER,
  typeName,
  type Value,
  wideCharacters,
} from "./values.js";

const FIELD = /\{\{|\}\}|\{([^{}!:]*)(?:!([rsa]))?(?::([^{}]*))?\}|[{}]/g;
const SPECIFICATION = /^(?:([\s\S])?([<>=^]))?([-+ ])?(#)?(0)?(\d+)?([,_])?(?:\.(\d+))?([bcdeEfFgGnosxX%])?$/u;
const MAX_WIDTH = 10_000;

export function braceFormat(format: string, values: CallValues): string {
  let automatic = 0;
  budget().text(format.length);
  return format.replace(FIELD, (whole, path: string | undefined, conversion, specification) => {
    budget().step();
    if (whole === "{{") return "{";
    if (whole === "}}") return "}";
    if (path === undefined) return raise("ValueError", `Single '${whole}' encountered in format string`);
    const name = /^[^.[]*/.exec(path)![0];
    const index = name === "" ? String(automatic++) : name;
    const value = followPath(argumentNamed(values, index), path.slice(name.length));
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
function followPath(start: Value, path: string): Value {
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
