// How Python writes a value as text: `str` and `repr`, numbers, and JSON.

import { MAX_DEPTH } from "../jsonBytes.js";
import { budget } from "./budget.js";
import { order } from "./comparison.js";
import {
  Callable,
  Dict,
  DictView,
  Float,
  isText,
  joined,
  Markup,
  Namespace,
  Range,
  raise,
  STEPS_PER_BIG_INTEGER,
  Tuple,
  textOf,
  typeName,
  Undefined,
  type Value,
} from "./values.js";

/** What a template prints for a value. */
export function textOfValue(value: Value): string {
  if (typeof value === "string") return value;
  if (value instanceof Markup) return value.text;
  if (value instanceof Undefined) return "";
  return representation(value);
}

/** Python's `repr`. */
export function representation(value: Value): string {
  return write(value, 0);
}

function write(value: Value, depth: number): string {
  budget().step();
  if (depth > MAX_DEPTH) raise("RecursionError", "maximum recursion depth exceeded while getting the repr");
  const inner = (item: Value) => write(item, depth + 1);
  const list = (items: readonly Value[]) => joined(items.map(inner), ", ");
  if (value === null) return "None";
  if (value === true) return "True";
  if (value === false) return "False";
  if (typeof value === "string") return quoted(value);
  if (typeof value === "number") return value.toString();
  if (typeof value === "bigint") {
    budget().step(STEPS_PER_BIG_INTEGER);
    return value.toString();
  }
  if (Array.isArray(value)) return `[${list(value)}]`;
  if (value instanceof Float) return floatText(value.value);
  if (value instanceof Tuple)
    return value.items.length === 1 ? `(${inner(value.items[0]!)},)` : `(${list(value.items)})`;
  if (value instanceof Dict) {
    const entries = Array.from(value.countedEntries(), ([k, v]) => joined([inner(k), inner(v)], ": "));
    return `{${joined(entries, ", ")}}`;
  }
  if (value instanceof DictView) return `${value.typeName}([${list(value.items)}])`;
  if (value instanceof Markup) return `Markup(${quoted(value.text)})`;
  if (value instanceof Range) return `range(${value.start}, ${value.stop}${value.step === 1 ? "" : `, ${value.step}`})`;
  if (value instanceof Undefined) return "Undefined";
  if (value instanceof Callable) return `<function ${value.functionName}>`;
  if (value instanceof Namespace) return `<Namespace ${inner(new Dict(value.fields))}>`;
  return `<${typeName(value)} object>`;
}

const NAMED_ESCAPES: Record<string, string> = { "\n": "\\n", "\r": "\\r", "\t": "\\t" };
/** What Python takes for unprintable: control, format, unassigned and separator characters, except the space. */
const ESCAPED = /[\\'"]|(?! )[\p{C}\p{Z}]/gu;

function quoted(text: string): string {
  budget().text(text.length);
  const quote = text.includes("'") && !text.includes('"') ? '"' : "'";
  const body = text.replace(ESCAPED, (character) => {
    if (character === "\\" || character === quote) return `\\${character}`;
    if (character === "'" || character === '"') return character;
    return NAMED_ESCAPES[character] ?? escapedCodePoint(character.codePointAt(0)!);
  });
  budget().text(body.length - text.length);
  return quote + body + quote;
}

function escapedCodePoint(code: number): string {
  if (code < 0x100) return `\\x${code.toString(16).padStart(2, "0")}`;
  if (code < 0x10000) return `\\u${code.toString(16).padStart(4, "0")}`;
  return `\\U${code.toString(16).padStart(8, "0")}`;
}

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
  if (unit > 2 * Math.abs(value)) return value < 0 ? -0 : 0;
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

export interface JsonLayout {
  ensureAscii: boolean;
  /** What one level is indented by; null writes one line. */
  indent: string | null;
  itemSeparator: string;
  keySeparator: string;
  sortKeys: boolean;
}

/** `tojson`: Python's `json.dumps(..., ensure_ascii=False)`, without HTML escaping. */
export function jsonText(value: Value, layout: JsonLayout): string {
  return writeJson(value, layout, 0);
}

function writeJson(value: Value, layout: JsonLayout, depth: number): string {
  budget().step();
  if (depth > MAX_DEPTH) raise("RecursionError", "maximum recursion depth exceeded while encoding a JSON object");
  if (value === null) return "null";
  if (typeof value === "bigint") budget().step(STEPS_PER_BIG_INTEGER);
  if (typeof value === "boolean" || typeof value === "number" || typeof value === "bigint") return value.toString();
  if (isText(value)) return jsonString(textOf(value), layout.ensureAscii);
  if (value instanceof Float) return jsonFloat(value.value);
  const inner = (item: Value) => writeJson(item, layout, depth + 1);
  if (Array.isArray(value)) return enclosed("[", value.map(inner), "]", layout, depth);
  if (value instanceof Tuple) return enclosed("[", value.items.map(inner), "]", layout, depth);
  if (!(value instanceof Dict)) return raise("TypeError", `Object of type ${typeName(value)} is not JSON serializable`);
  const entries = Array.from(value.countedEntries());
  if (layout.sortKeys) entries.sort(([a], [b]) => order(a, b));
  const written = entries.map(([key, item]) => {
    return jsonString(keyText(key), layout.ensureAscii) + layout.keySeparator + inner(item);
  });
  return enclosed("{", written, "}", layout, depth);
}

function enclosed(open: string, items: string[], close: string, layout: JsonLayout, depth: number): string {
  if (items.length === 0) return open + close;
  if (layout.indent !== null) budget().text(layout.indent.length * (2 * depth + 1));
  const newline = layout.indent === null ? "" : `\n${layout.indent.repeat(depth + 1)}`;
  const lastNewline = layout.indent === null ? "" : `\n${layout.indent.repeat(depth)}`;
  const separator = layout.itemSeparator + newline;
  return open + newline + joined(items, separator) + lastNewline + close;
}

function keyText(key: Value): string {
  if (isText(key)) return textOf(key);
  if (key === null) return "null";
  if (typeof key === "boolean" || typeof key === "number" || typeof key === "bigint") return key.toString();
  if (key instanceof Float) return jsonFloat(key.value);
  return raise("TypeError", `keys must be str, int, float, bool or None, not ${typeName(key)}`);
}

function jsonFloat(value: number): string {
  if (Number.isNaN(value)) return "NaN";
  if (!Number.isFinite(value)) return value > 0 ? "Infinity" : "-Infinity";
  return floatText(value);
}

function jsonString(text: string, ensureAscii: boolean): string {
  budget().text(ensureAscii ? 6 * text.length : text.length);
  const json = JSON.stringify(text);
  budget().text(json.length - text.length);
  if (!ensureAscii) return json;
  return json.replace(/[\u0080-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
}
