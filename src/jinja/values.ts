// Python's values, as far as templates see them.

import { budget } from "./budget.js";

/**
 * None is null, bool a boolean, str a string, list an array. An int is a number while |n| < 2^53 and a bigint beyond;
 * a float is always a Float, since Python tells 1 from 1.0.
 */
export type Value = null | boolean | number | bigint | string | Value[] | PythonObject;

/** The exception Python would raise: `UndefinedError`, `TypeError`, ... */
export class PythonError extends Error {
  override readonly name = "PythonError";

  constructor(
    readonly type: string,
    message: string,
  ) {
    super(message);
  }
}

export function raise(type: string, message: string): never {
  throw new PythonError(type, message);
}

export abstract class PythonObject {
  /** What Python calls the type in its messages. */
  abstract readonly typeName: string;

  /** A field or method of the object's own. */
  attribute(_name: string): Value | undefined {
    return undefined;
  }
}

export class Float extends PythonObject {
  readonly typeName = "float";
  constructor(readonly value: number) {
    super();
  }
}

/** A text marked as safe HTML; texts joined to it with `+` are escaped. */
export class Markup extends PythonObject {
  readonly typeName = "Markup";
  constructor(readonly text: string) {
    super();
  }
}

export class Tuple extends PythonObject {
  readonly typeName = "tuple";
  constructor(readonly items: readonly Value[]) {
    super();
  }
}

/** Keys are looked up by hash key, and kept as they were first written, in insertion order. */
export class Dict extends PythonObject {
  readonly typeName = "dict";
  private readonly entriesByHash = new Map<HashKey, [key: Value, value: Value]>();

  constructor(entries: Iterable<readonly [Value, Value]> = []) {
    super();
    for (const [key, value] of entries) this.set(key, value);
  }

  get size(): number {
    return this.entriesByHash.size;
  }

  get(key: Value): Value | undefined {
    return this.entriesByHash.get(hashKey(key))?.[1];
  }

  has(key: Value): boolean {
    return this.entriesByHash.has(hashKey(key));
  }

  set(key: Value, value: Value): void {
    const hash = hashKey(key);
    const entry = this.entriesByHash.get(hash);
    if (entry === undefined) this.entriesByHash.set(hash, [key, value]);
    else entry[1] = value;
  }

  /** Whoever copies them charges the budget. */
  entries(): Iterable<readonly [Value, Value]> {
    return this.entriesByHash.values();
  }

  /** The same, charged for being copied. */
  countedEntries(): Iterable<readonly [Value, Value]> {
    budget().step(2 * this.size);
    return this.entriesByHash.values();
  }

  keys(): Value[] {
    budget().step(this.size);
    return Array.from(this.entriesByHash.values(), ([key]) => key);
  }

  values(): Value[] {
    budget().step(this.size);
    return Array.from(this.entriesByHash.values(), ([, value]) => value);
  }

  pairs(): Tuple[] {
    budget().step(3 * this.size);
    return Array.from(this.entriesByHash.values(), ([key, value]) => new Tuple([key, value]));
  }
}

/** What `keys()`, `values()` and `items()` give. */
export class DictView extends PythonObject {
  readonly typeName: string;
  constructor(
    kind: "keys" | "values" | "items",
    readonly items: readonly Value[],
  ) {
    super();
    this.typeName = `dict_${kind}`;
  }
}

export class Range extends PythonObject {
  readonly typeName = "range";
  readonly length: number;
  constructor(
    readonly start: number,
    readonly stop: number,
    readonly step: number,
  ) {
    super();
    this.length = Math.max(0, Math.ceil((stop - start) / step));
  }

  at(index: number): number {
    return this.start + index * this.step;
  }
}

/** Can be iterated once, as what `map` and `select` give. */
export class Generator extends PythonObject {
  private readonly iterator: Iterator<Value>;
  constructor(
    items: Iterable<Value>,
    readonly typeName = "generator",
  ) {
    super();
    this.iterator = items[Symbol.iterator]();
  }

  *rest(): Iterable<Value> {
    for (let next = this.iterator.next(); !next.done; next = this.iterator.next()) yield next.value;
  }
}

export class Namespace extends PythonObject {
  readonly typeName = "Namespace";
  readonly fields = new Map<string, Value>();

  override attribute(name: string): Value | undefined {
    return this.fields.get(name);
  }
}

export interface CallValues {
  positional: Value[];
  named: Map<string, Value>;
}

export type Filter = (value: Value, given: CallValues) => Value;

export class Callable extends PythonObject {
  readonly typeName = "function";
  constructor(
    readonly functionName: string,
    readonly call: (values: CallValues) => Value,
  ) {
    super();
  }
}

/** Prints as nothing, is false and empty; anything else with it raises `message`. */
export class Undefined extends PythonObject {
  readonly typeName = "Undefined";
  constructor(
    private readonly message: string,
    private readonly errorType: "UndefinedError" | "SecurityError" = "UndefinedError",
  ) {
    super();
  }

  fail(): never {
    return raise(this.errorType, this.message);
  }
}

export function typeName(value: Value): string {
  if (value === null) return "NoneType";
  if (Array.isArray(value)) return "list";
  switch (typeof value) {
    case "string":
      return "str";
    case "boolean":
      return "bool";
    case "number":
    case "bigint":
      return "int";
    default:
      return value.typeName;
  }
}

export function isText(value: Value): value is string | Markup {
  return typeof value === "string" || value instanceof Markup;
}

/** The characters of a text, marked or not. */
export function textOf(value: string | Markup): string {
  return typeof value === "string" ? value : value.text;
}

export function truth(value: Value): boolean {
  if (value === null || typeof value !== "object") return Boolean(value);
  if (Array.isArray(value)) return value.length > 0;
  if (value instanceof Float) return value.value !== 0;
  if (value instanceof Markup) return value.text !== "";
  if (value instanceof Tuple || value instanceof DictView) return value.items.length > 0;
  if (value instanceof Dict) return value.size > 0;
  if (value instanceof Range) return value.length > 0;
  return !(value instanceof Undefined);
}

type HashKey = string | number | bigint | null;

/** Longer texts are charged for when they are hashed. */
const MAX_FREE_KEY = 64;

/** Equal Python keys have equal hash keys: 1, 1.0 and True are one key. Texts never meet the other kinds. */
function hashKey(value: Value): HashKey {
  if (value === null || typeof value === "number") return value;
  if (typeof value === "string") return textKey(value);
  if (typeof value === "boolean") return value ? 1 : 0;
  if (typeof value === "bigint") {
    budget().step(STEPS_PER_BIG_INTEGER);
    return value;
  }
  if (value instanceof Markup) return textKey(value.text);
  if (value instanceof Float) return Number.isInteger(value.value) ? integer(BigInt(value.value)) : value.value;
  if (value instanceof Tuple) return `t${joined(value.items.map(tupleItemKey), "")}`;
  // All undefined values are one key.
  if (value instanceof Undefined) return "u";
  return raise("TypeError", `unhashable type: '${typeName(value)}'`);
}

function textKey(text: string): string {
  if (text.length > MAX_FREE_KEY) budget().text(text.length);
  return `s${text}`;
}

function tupleItemKey(item: Value): string {
  budget().step();
  const key = hashKey(item);
  const text = `${typeof key}${String(key)}`;
  return `${text.length}:${text}`;
}

/** What one operation on an int beyond 2^53 costs: it may have thousands of digits. */
export const STEPS_PER_BIG_INTEGER = 64;

/** An int in its normal form: a number where that is exact. */
export function integer(value: number | bigint): number | bigint {
  if (typeof value === "number") return Number.isSafeInteger(value) ? value : BigInt(value);
  const number = Number(value);
  return Number.isSafeInteger(number) ? number : value;
}

/**
 * Iterates as Python's `for` does: characters of a text by code point, keys of a dict. Undefined is empty. Each item is
 * one step of the budget.
 */
export function* iterate(value: Value): Iterable<Value> {
  for (const item of iterableOf(value)) {
    budget().step();
    yield item;
  }
}

/** The items as an array, to be read only: a list is itself. */
export function itemsOf(value: Value): readonly Value[] {
  if (Array.isArray(value)) return value;
  if (value instanceof Tuple || value instanceof DictView) return value.items;
  return Array.from(iterate(value));
}

function iterableOf(value: Value): Iterable<Value> {
  if (isText(value)) return textOf(value);
  if (Array.isArray(value)) return value;
  if (value instanceof Tuple || value instanceof DictView) return value.items;
  if (value instanceof Dict) return value.keys();
  if (value instanceof Generator) return value.rest();
  if (value instanceof Range) return rangeItems(value);
  if (value instanceof Undefined) return [];
  return raise("TypeError", `'${typeName(value)}' object is not iterable`);
}

function* rangeItems(range: Range): Iterable<Value> {
  for (let index = 0; index < range.length; index++) yield range.at(index);
}

export function isIterable(value: Value): boolean {
  return (
    isText(value) ||
    Array.isArray(value) ||
    [Tuple, DictView, Dict, Generator, Range, Undefined].some((type) => value instanceof type)
  );
}

const SURROGATE = /[\ud800-\udfff]/;

/** The characters by code point, or null when every code unit is a character and the text can be indexed as it is. */
export function wideCharacters(text: string): string[] | null {
  budget().step(1 + (text.length >> 6));
  if (!SURROGATE.test(text)) return null;
  budget().step(text.length);
  return Array.from(text);
}

/** The texts with `separator` between them, charged for before they are joined. */
export function joined(parts: readonly string[], separator: string): string {
  budget().step(parts.length);
  let length = 0;
  for (const part of parts) length += part.length + separator.length;
  budget().text(length);
  return parts.join(separator);
}

/** The characters by code point; a step of the budget each. */
export function charactersOf(text: string): string[] {
  budget().step(text.length);
  return Array.from(text);
}

/** Python's `len`. */
export function lengthOf(value: Value): number {
  if (isText(value)) {
    const text = textOf(value);
    return wideCharacters(text)?.length ?? text.length;
  }
  if (Array.isArray(value)) return value.length;
  if (value instanceof Tuple || value instanceof DictView) return value.items.length;
  if (value instanceof Dict) return value.size;
  if (value instanceof Range) return value.length;
  if (value instanceof Undefined) return 0;
  return raise("TypeError", `object of type '${typeName(value)}' has no len()`);
}
