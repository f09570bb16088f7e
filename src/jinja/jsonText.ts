// `tojson`: Python's `json.dumps(..., ensure_ascii=False)`, without HTML escaping.

import { budget } from "./budget.js";
import { order } from "./comparison.js";
import { floatText } from "./numberText.js";
import {
  Dict,
  Float,
  isText,
  joined,
  raise,
  STEPS_PER_BIG_INTEGER,
  Tuple,
  textOf,
  typeName,
  type Value,
} from "./values.js";

export interface JsonLayout {
  ensureAscii: boolean;
  /** What one level is indented by; null writes one line. */
  indent: string | null;
  itemSeparator: string;
  keySeparator: string;
  sortKeys: boolean;
}

const MAX_NESTING = 200;

export function jsonText(value: Value, layout: JsonLayout): string {
  return write(value, layout, 0);
}

function write(value: Value, layout: JsonLayout, depth: number): string {
  budget().step();
  if (depth > MAX_NESTING) raise("RecursionError", "maximum recursion depth exceeded while encoding a JSON object");
  if (value === null) return "null";
  if (typeof value === "bigint") budget().step(STEPS_PER_BIG_INTEGER);
  if (typeof value === "boolean" || typeof value === "number" || typeof value === "bigint") return value.toString();
  if (isText(value)) return quoted(textOf(value), layout.ensureAscii);
  if (value instanceof Float) return jsonFloat(value.value);
  const inner = (item: Value) => write(item, layout, depth + 1);
  if (Array.isArray(value)) return enclosed("[", value.map(inner), "]", layout, depth);
  if (value instanceof Tuple) return enclosed("[", value.items.map(inner), "]", layout, depth);
  if (!(value instanceof Dict)) return raise("TypeError", `Object of type ${typeName(value)} is not JSON serializable`);
  const entries = Array.from(value.countedEntries());
  if (layout.sortKeys) entries.sort(([a], [b]) => order(a, b));
  const written = entries.map(([key, item]) => {
    return quoted(keyText(key), layout.ensureAscii) + layout.keySeparator + inner(item);
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

function quoted(text: string, ensureAscii: boolean): string {
  budget().text(ensureAscii ? 6 * text.length : text.length);
  const json = JSON.stringify(text);
  budget().text(json.length - text.length);
  if (!ensureAscii) return json;
  return json.replace(/[\u0080-\uffff]/g, (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`);
}
