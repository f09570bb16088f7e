// Filters that make a text or a number of a value.

import { bind, integerArgument, textArgument } from "./arguments.js";
import { attributePath, centered, replacedWithin } from "./attributes.js";
import { budget } from "./budget.js";
import { numberOf } from "./comparison.js";
import { percentFormat } from "./formats.js";
import { binary, escapedUnlessSafe, escapeHtml } from "./operators.js";
import { fixed, jsonText, rounded, textOfValue } from "./printing.js";
import { capitalized, splitAt, splitAtSpaces, splitLines, stripped } from "./strings.js";
import {
  charactersOf,
  Dict,
  type Filter,
  Float,
  integer,
  isIterable,
  isText,
  itemsOf,
  iterate,
  joined,
  lengthOf,
  Markup,
  raise,
  STEPS_PER_BIG_INTEGER,
  Tuple,
  textOf,
  truth,
  typeName,
  Undefined,
  type Value,
} from "./values.js";

/** Longest that a character becomes in a URL: four bytes of UTF-8, three characters each, for two code units. */
const MAX_URL_GROWTH = 9;

/** A filter of the value's text; Markup stays Markup. */
function onText(names: string[], apply: (text: string, ...given: (Value | undefined)[]) => string): Filter {
  return (value, values) => {
    const text = textOfValue(value);
    budget().text(text.length);
    const result = apply(text, ...bind("filter", names, values));
    return value instanceof Markup ? new Markup(result) : result;
  };
}

/** A filter of the value's text whose result is never Markup. */
function onPlainText(apply: (text: string) => Value): Filter {
  return (value) => {
    const text = textOfValue(value);
    budget().text(text.length);
    return apply(text);
  };
}

function indentOf(width: Value | undefined, otherwise: number): string {
  if (width !== undefined && isText(width)) return textOf(width);
  const spaces = Math.max(0, integerArgument(width, otherwise));
  budget().text(spaces);
  return " ".repeat(spaces);
}

function tojson(value: Value, given: Parameters<Filter>[1]): Value {
  const names = ["ensure_ascii", "indent", "separators", "sort_keys"];
  const [ensureAscii, indent, separators, sortKeys] = bind("tojson", names, given);
  const hasIndent = indent !== undefined && indent !== null;
  const pair = separators === undefined || separators === null ? null : itemsOf(separators);
  if (pair !== null && pair.length !== 2) raise("ValueError", "separators must be a pair (item, key)");
  return jsonText(value, {
    ensureAscii: ensureAscii !== undefined && truth(ensureAscii),
    indent: hasIndent ? indentOf(indent, 0) : null,
    itemSeparator: pair === null ? (hasIndent ? "," : ", ") : textArgument(pair[0], ""),
    keySeparator: pair === null ? ": " : textArgument(pair[1], ""),
    sortKeys: sortKeys !== undefined && truth(sortKeys),
  });
}

function indented(text: string, width?: Value, first?: Value, blank?: Value): string {
  const indent = indentOf(width, 4);
  const indentBlank = blank !== undefined && truth(blank);
  const lines = splitLines(`${text}\n`, false);
  budget().text(text.length + lines.length * indent.length);
  const rest = lines.slice(1).map((line) => (indentBlank || line !== "" ? indent + line : line));
  const start = first !== undefined && truth(first) ? indent : "";
  return start + [lines[0] ?? "", ...rest].join("\n");
}

const truncate: Filter = (value, values) => {
  const [length, killWords, end, leeway] = bind("truncate", ["length", "killwords", "end", "leeway"], values);
  const max = integerArgument(length, 255);
  const ending = textArgument(end, "...");
  if (max < lengthOf(ending)) raise("AssertionError", `expected length >= ${lengthOf(ending)}, got ${max}`);
  const slack = integerArgument(leeway, 5);
  if (slack < 0) raise("AssertionError", `expected leeway >= 0, got ${slack}`);
  // Whatever has a length and is short stays what it is.
  if (lengthOf(value) <= max + slack) return value;
  if (!isText(value)) return raise("AttributeError", `'${typeName(value)}' object has no attribute 'rsplit'`);
  budget().text(textOf(value).length);
  const result = truncated(charactersOf(textOf(value)), max, ending, killWords);
  return value instanceof Markup ? new Markup(result) : result;
};

const indent = onText(["width", "first", "blank"], indented);

function truncated(characters: string[], max: number, ending: string, killWords: Value | undefined): string {
  const kept = characters.slice(0, Math.max(0, max - lengthOf(ending))).join("");
  if (killWords !== undefined && truth(killWords)) return kept + ending;
  const space = kept.lastIndexOf(" ");
  return (space < 0 ? kept : kept.slice(0, space)) + ending;
}

/** Words begin after white space, brackets or a hyphen, in upper case; the rest of a word becomes lower case. */
function titled(text: string): string {
  return text.replace(/([^-\s({[<])([^-\s({[<]*)/gu, (_, first, rest) => first.toUpperCase() + rest.toLowerCase());
}

function withoutTags(text: string): string {
  // One pass from "<" to ">": a regular expression over unclosed tags would take quadratic time.
  const parts: string[] = [];
  let at = 0;
  for (;;) {
    budget().step();
    const open = text.indexOf("<", at);
    const comment = open >= 0 && text.startsWith("<!--", open);
    const close = open < 0 ? -1 : text.indexOf(comment ? "-->" : ">", open);
    if (close < 0) break;
    parts.push(text.slice(at, open));
    at = close + (comment ? 3 : 1);
  }
  parts.push(text.slice(at));
  return joined(splitAtSpaces(joined(parts, ""), Number.POSITIVE_INFINITY, false), " ");
}

/** A text is quoted whole; a mapping or pairs become `key=value&...`. */
function urlEncoded(value: Value): string {
  const quoted = (text: string) => {
    budget().text(text.length * MAX_URL_GROWTH);
    return encodeURIComponent(Buffer.from(text).toString()).replace(/[!'()*]/g, (character) => {
      return `%${character.charCodeAt(0).toString(16).toUpperCase()}`;
    });
  };
  if (isText(value) || !isIterable(value)) return quoted(textOfValue(value)).replaceAll("%2F", "/");
  const pairs = value instanceof Dict ? value.pairs() : iterate(value);
  const parts = Array.from(pairs, (pair) => {
    const [key, item, ...rest] = itemsOf(pair);
    if (key === undefined || item === undefined || rest.length > 0) raise("ValueError", "expected pairs to unpack");
    return [key, item].map((part) => quoted(textOfValue(part)).replaceAll("%20", "+")).join("=");
  });
  return joined(parts, "&");
}

function wrapped(text: string, width?: Value): string {
  const max = Math.max(1, integerArgument(width, 79));
  const lines: string[] = [];
  const add = (line: string) => {
    budget().step();
    lines.push(line);
  };
  for (const line of splitAt(text, "\n", Number.POSITIVE_INFINITY, false)) {
    let current = "";
    for (const word of splitAt(line, " ", Number.POSITIVE_INFINITY, false)) {
      if (current !== "" && current.length + 1 + word.length > max) {
        add(current);
        current = word;
      } else {
        current = current === "" ? word : `${current} ${word}`;
      }
      let cut = 0;
      for (; current.length - cut > max; cut += max) add(current.slice(cut, cut + max));
      if (cut > 0) current = current.slice(cut);
    }
    add(current);
  }
  return joined(lines, "\n");
}

export const textFilters: Record<string, Filter> = {
  trim: onText(["chars"], (text, characters) => {
    const none = characters === undefined || characters === null;
    return stripped(text, none ? null : textArgument(characters, ""), "both");
  }),
  upper: onText([], (text) => text.toUpperCase()),
  lower: onText([], (text) => text.toLowerCase()),
  capitalize: onText([], capitalized),
  title: onText([], titled),
  indent: (value, values) => {
    if (value instanceof Undefined) return value.fail();
    if (!isText(value)) return raise("TypeError", `unsupported operand type(s) for +=: '${typeName(value)}' and 'str'`);
    return indent(value, values);
  },
  truncate,
  wordwrap: (value, values) => {
    if (value instanceof Undefined) return value.fail();
    if (!isText(value)) return raise("AttributeError", `'${typeName(value)}' object has no attribute 'splitlines'`);
    return onText(["width"], wrapped)(value, values);
  },
  replace: onText(["old", "new", "count"], (text, from = "", to = "", count) => {
    return replacedWithin(text, textOfValue(from), textOfValue(to), integerArgument(count, -1));
  }),
  center: onText(["width"], (text, width) => {
    const missing = integerArgument(width, 80) - lengthOf(text);
    if (missing > 0) budget().text(text.length + missing);
    return missing > 0 ? centered(text, missing, " ") : text;
  }),
  striptags: onPlainText(withoutTags),
  string: (value) => (value instanceof Markup ? value : textOfValue(value)),
  safe: (value) => new Markup(textOfValue(value)),
  escape: (value) => new Markup(escapedUnlessSafe(value)),
  e: (value) => new Markup(escapedUnlessSafe(value)),
  forceescape: (value) => new Markup(escapeHtml(textOfValue(value))),
  urlencode: (value) => urlEncoded(value),
  wordcount: onPlainText((text) => {
    let words = 0;
    for (const _ of text.matchAll(/[\p{L}\p{N}_]+/gu)) {
      budget().step();
      words++;
    }
    return words;
  }),
  tojson,
  format: (value, given) => {
    const values = given.named.size === 0 ? new Tuple(given.positional) : new Dict(given.named);
    return percentFormat(textOfValue(value), values);
  },
  join: (value, given) => {
    const [separator, attribute] = bind("join", ["d", "attribute"], given);
    const path = attribute === undefined ? null : attributePath(attribute);
    const parts = Array.from(iterate(value), (item) => textOfValue(path === null ? item : path(item)));
    return joined(parts, textOfValue(separator === undefined ? "" : separator));
  },
  default: defaulted,
  d: defaulted,
};

function defaulted(value: Value, given: Parameters<Filter>[1]): Value {
  const [otherwise, alsoFalse] = bind("default", ["default_value", "boolean"], given);
  const replace = value instanceof Undefined || (alsoFalse !== undefined && truth(alsoFalse) && !truth(value));
  return replace ? (otherwise === undefined ? "" : otherwise) : value;
}

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
  if (value instanceof Float) return withoutFraction(value.value) ?? otherwise;
  if (isText(value)) {
    const whole = parsedInteger(textOf(value), integerArgument(base, 10));
    if (whole !== null) return whole;
    const number = parsedFloat(textOf(value));
    return (number === null ? null : withoutFraction(number)) ?? otherwise;
  }
  return numberOf(value) ?? otherwise;
}

function withoutFraction(value: number): number | bigint | null {
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
  // An int, which has no negative zero.
  const whole = (how === "ceil" ? Math.ceil(scaled) : Math.floor(scaled)) + 0;
  return new Float(whole / 10 ** places);
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
  const bytes = Number(numeric(toFloat(value, { positional: [null], named: new Map() }), "float()"));
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
