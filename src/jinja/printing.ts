// `str` and `repr`: how Python writes a value as text.

import { budget } from "./budget.js";
import { floatText } from "./numberText.js";
import {
  Callable,
  Dict,
  DictView,
  Float,
  joined,
  Markup,
  Namespace,
  Range,
  raise,
  STEPS_PER_BIG_INTEGER,
  Tuple,
  typeName,
  Undefined,
  type Value,
} from "./values.js";

const MAX_NESTING = 200;

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
  if (depth > MAX_NESTING) raise("RecursionError", "maximum recursion depth exceeded while getting the repr");
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
