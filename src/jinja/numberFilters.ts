// Filters that make numbers.

import { binary } from "./arithmetic.js";
import { attributePath } from "./attributePath.js";
import { budget } from "./budget.js";
import { bind, integerArgument, textArgument } from "./callValues.js";
import { numberOf } from "./comparison.js";
import type { Filter } from "./filters.js";
import { fixed, rounded } from "./numberText.js";
import {
  Float,
  integer,
  isText,
  iterate,
  lengthOf,
  raise,
  STEPS_PER_BIG_INTEGER,
  textOf,
  typeName,
  Undefined,
  type Value,
} from "./values.js";
import { stripped } from "./whitespace.js";

const DECIMAL = /^[+-]?\d+(?:_\d+)*$/;
const FLOAT = /^[+-]?(?:\d+(?:_\d+)*(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?$/;
const SPECIAL_FLOAT = /^([+-]?)(inf|infinity|nan)$/i;
/** Longest digits Python turns into an int. */
const MAX_DIGITS = 4_300;
const BASES: Record<number, RegExp> = {
  2: /^([+-]?)(?:0[bB])?([01]+)$/,
  8: /^([+-]?)(?:0[oO])?([0-7]+)$/,
  16: /^([+-]?)(?:0[xX])?([0-9a-fA-F]+)$/,
};
const BASE_PREFIX: Record<number, string> = { 2: "0b", 8: "0o", 16: "0x" };

function parsedInteger(text: string, base: number): number | bigint | null {
  const digits = stripped(text, null, "both");
  if (digits.length > MAX_DIGITS) return null;
  if (digits.length > 16) budget().step(STEPS_PER_BIG_INTEGER);
  if (base === 10) return DECIMAL.test(digits) ? integer(BigInt(digits.replaceAll("_", "").replace("+", ""))) : null;
  const match = BASES[base]?.exec(digits);
  if (!match) return null;
  const value = BigInt(BASE_PREFIX[base]! + match[2]!);
  return integer(match[1] === "-" ? -value : value);
}

function parsedFloat(text: string): number | null {
  const digits = stripped(text, null, "both");
  const special = SPECIAL_FLOAT.exec(digits);
  if (special) {
    const size = special[2]!.toLowerCase() === "nan" ? Number.NaN : Number.POSITIVE_INFINITY;
    return special[1] === "-" ? -size : size;
  }
  return FLOAT.test(digits) ? Number(digits.replaceAll("_", "")) : null;
}

function toInteger(value: Value, given: Parameters<Filter>[1]): Value {
  const [fallback, base] = bind("int", ["default", "base"], given);
  const otherwise = fallback === undefined ? 0 : fallback;
  if (value instanceof Undefined) return value.fail();
  if (value instanceof Float) return truncated(value.value) ?? otherwise;
  if (isText(value)) {
    const whole = parsedInteger(textOf(value), integerArgument(base, 10));
    if (whole !== null) return whole;
    const number = parsedFloat(textOf(value));
    return (number === null ? null : truncated(number)) ?? otherwise;
  }
  return numberOf(value) ?? otherwise;
}

function truncated(value: number): number | bigint | null {
  if (!Number.isFinite(value)) return null;
  const whole = Math.trunc(value);
  return whole === 0 ? 0 : integer(whole);
}

function toFloat(value: Value, given: Parameters<Filter>[1]): Value {
  const [otherwise] = bind("float", ["default"], given);
  if (value instanceof Undefined) return value.fail();
  const number = isText(value) ? parsedFloat(textOf(value)) : numberOf(value);
  return number === null ? (otherwise === undefined ? new Float(0) : otherwise) : new Float(Number(number));
}

function numeric(value: Value, what: string): number | bigint {
  if (value instanceof Undefined) return value.fail();
  return numberOf(value) ?? raise("TypeError", `bad operand type for ${what}: '${typeName(value)}'`);
}

function round(value: Value, given: Parameters<Filter>[1]): Value {
  const [precision, method] = bind("round", ["precision", "method"], given);
  const places = integerArgument(precision, 0);
  const how = textArgument(method, "common");
  const number = numeric(value, "round()");
  if (how === "common") {
    if (value instanceof Float) return new Float(rounded(value.value, places));
    return places >= 0 ? number : roundedInteger(BigInt(number), -places);
  }
  if (how !== "ceil" && how !== "floor") raise("FilterArgumentError", "method must be common, ceil or floor");
  const scaled = Number(number) * 10 ** places;
  return new Float((how === "ceil" ? Math.ceil(scaled) : Math.floor(scaled)) / 10 ** places);
}

/** To `zeros` zeros, halves to even. */
function roundedInteger(value: bigint, zeros: number): number | bigint {
  budget().step(STEPS_PER_BIG_INTEGER);
  if (zeros > MAX_DIGITS) return 0;
  const unit = 10n ** BigInt(zeros);
  const size = value < 0n ? -value : value;
  const rest = size % unit;
  const down = size - rest;
  const isUp = 2n * rest > unit || (2n * rest === unit && (down / unit) % 2n === 1n);
  const result = isUp ? down + unit : down;
  return integer(value < 0n ? -result : result);
}

const SIZE_PREFIXES = ["", "k", "M", "G", "T", "P", "E", "Z", "Y"];

function fileSize(value: Value, given: Parameters<Filter>[1]): string {
  const [binaryUnits] = bind("filesizeformat", ["binary"], given);
  const isBinary = binaryUnits === true;
  const bytes = Number(numeric(toFloat(value, { positional: [], named: new Map() }), "float()"));
  const base = isBinary ? 1024 : 1000;
  if (bytes === 1) return "1 Byte";
  if (bytes < base) return `${Math.trunc(bytes)} Bytes`;
  let power = 1;
  while (power < SIZE_PREFIXES.length - 1 && bytes >= base ** (power + 1)) power++;
  const prefix = SIZE_PREFIXES[power]!;
  return `${fixed(bytes / base ** power, 1)} ${isBinary ? `${prefix.toUpperCase()}iB` : `${prefix}B`}`;
}

export const numberFilters: Record<string, Filter> = {
  length: (value) => lengthOf(value),
  count: (value) => lengthOf(value),
  int: toInteger,
  float: toFloat,
  round,
  abs: (value) => {
    const number = numeric(value, "abs()");
    if (value instanceof Float) return new Float(Math.abs(value.value));
    return number < 0 ? integer(-number) : number;
  },
  sum: (value, given) => {
    const [attribute, start] = bind("sum", ["attribute", "start"], given);
    const path = attributePath(attribute ?? null);
    let total: Value = start === undefined ? 0 : start;
    for (const item of iterate(value)) total = binary("+", total, path(item));
    return total;
  },
  filesizeformat: fileSize,
};
