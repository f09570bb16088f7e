// What a template is given: JavaScript values, and JSON text as Python reads it.

import { MAX_DEPTH } from "../jsonBytes.js";
import { TemplateError } from "./errors.js";
import { Dict, Float, integer, PythonObject, raise, type Value } from "./values.js";

/**
 * What a template variable may be made of: JSON, bigint for large ints, Number objects for floats that are whole
 * (`new Number(1)` is 1.0), undefined for what is not there, and what parseJson gives.
 */
export type TemplateInput =
  | undefined
  | null
  | boolean
  | number
  // biome-ignore lint/complexity/noBannedTypes: a Number object is a float even where it is whole.
  | Number
  | bigint
  | string
  | PythonObject
  | readonly TemplateInput[]
  | { readonly [key: string]: TemplateInput };

/** Copies a value: nothing that a template does reaches the original. Fields that are undefined are left out. */
export function fromJavaScript(input: unknown, name: string, depth = 0): Value {
  if (depth > MAX_DEPTH) throw new TemplateError("runtime", `'${name}' is nested deeper than ${MAX_DEPTH}`);
  if (input === null || typeof input === "boolean" || typeof input === "string") return input;
  if (typeof input === "number") return numberValue(input);
  if (typeof input === "bigint") return integer(input);
  if (input instanceof Number) return new Float(input.valueOf());
  if (input instanceof PythonObject) return input;
  if (Array.isArray(input)) return input.map((item) => fromJavaScript(item ?? null, name, depth + 1));
  if (typeof input === "object") {
    const dict = new Dict();
    for (const [key, value] of Object.entries(input)) {
      if (value !== undefined) dict.set(key, fromJavaScript(value, name, depth + 1));
    }
    return dict;
  }
  throw new TemplateError("runtime", `'${name}' holds a ${typeof input}, which is no JSON value`);
}

/** A JavaScript number does not tell 1 from 1.0: whole ones are ints, as far as digits are exact to the eye. */
function numberValue(value: number): Value {
  return Number.isInteger(value) && Math.abs(value) < 1e21 ? integer(value) : new Float(value);
}

const NUMBER = /-?(?:0|[1-9]\d*)(\.\d+)?([eE][+-]?\d+)?/y;
const CONSTANTS: readonly [text: string, value: Value][] = [
  ["true", true],
  ["false", false],
  ["null", null],
  ["NaN", new Float(Number.NaN)],
  ["Infinity", new Float(Number.POSITIVE_INFINITY)],
  ["-Infinity", new Float(Number.NEGATIVE_INFINITY)],
];

/**
 * 1 and 1.0 stay apart, ints keep all digits, keys keep their order.
 * Throws PythonError "JSONDecodeError" with the place at fault.
 */
export function parseJson(text: string): Value {
  const reader = new Reader(text);
  const value = reader.value(0);
  reader.end();
  return value;
}

class Reader {
  private position = 0;

  constructor(private readonly text: string) {}

  value(depth: number): Value {
    if (depth > MAX_DEPTH) this.fail(`nested deeper than ${MAX_DEPTH}`);
    this.skipSpace();
    const first = this.text[this.position];
    if (first === "{") return this.object(depth);
    if (first === "[") return this.array(depth);
    if (first === '"') return this.string();
    for (const [constant, value] of CONSTANTS) {
      if (this.text.startsWith(constant, this.position)) {
        this.position += constant.length;
        return value;
      }
    }
    return this.number();
  }

  end(): void {
    this.skipSpace();
    if (this.position < this.text.length) this.fail("unexpected text after the value");
  }

  private fail(reason: string): never {
    return raise("JSONDecodeError", `${reason} (at character ${this.position})`);
  }

  private skipSpace(): void {
    while (" \t\n\r".includes(this.text[this.position] ?? "x")) this.position++;
  }

  private skip(character: string): boolean {
    this.skipSpace();
    if (this.text[this.position] !== character) return false;
    this.position++;
    return true;
  }

  private match(pattern: RegExp): RegExpExecArray | null {
    pattern.lastIndex = this.position;
    const match = pattern.exec(this.text);
    if (match !== null) this.position += match[0].length;
    return match;
  }

  private object(depth: number): Dict {
    this.position++;
    const dict = new Dict();
    if (this.skip("}")) return dict;
    do {
      this.skipSpace();
      const key = this.string();
      if (!this.skip(":")) this.fail("expected ':'");
      dict.set(key, this.value(depth + 1));
    } while (this.skip(","));
    if (!this.skip("}")) this.fail("expected ',' or '}'");
    return dict;
  }

  private array(depth: number): Value[] {
    this.position++;
    const items: Value[] = [];
    if (this.skip("]")) return items;
    do items.push(this.value(depth + 1));
    while (this.skip(","));
    if (!this.skip("]")) this.fail("expected ',' or ']'");
    return items;
  }

  private string(): string {
    const { text, position } = this;
    if (text[position] !== '"') return this.fail("expected a string");
    let end = position + 1;
    // A regular expression would remember every character on its way.
    while (end < text.length && text[end] !== '"') end += text[end] === "\\" ? 2 : 1;
    if (end >= text.length) return this.fail("expected a string");
    try {
      const value = JSON.parse(text.slice(position, end + 1)) as string;
      this.position = end + 1;
      return value;
    } catch {
      return this.fail("a string with a bad escape or control character");
    }
  }

  private number(): Value {
    const match = this.match(NUMBER);
    if (match === null) return this.fail("expected a value");
    const isInteger = match[1] === undefined && match[2] === undefined;
    return isInteger ? integer(BigInt(match[0])) : new Float(Number(match[0]));
  }
}
