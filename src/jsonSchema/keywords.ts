// Reading keywords: the shape of each value, and which keywords cannot be enforced.

import { GrammarError } from "../grammar/grammarError.js";
import { REFUSED } from "./assertions.js";
import { compareDecimals, type Decimal, toDecimal } from "./decimals.js";
import { isObject, type JsonObject, MAX_DEPTH, type SchemaNode } from "./document.js";
import { FORMAT_NAMES, formatIntegers, UNENFORCED_FORMATS } from "./formats.js";
import type { Bound } from "./numbers.js";

export const TYPES = ["null", "boolean", "integer", "number", "string", "array", "object"] as const;
export type TypeName = (typeof TYPES)[number];

/** What is wrong with a keyword, at its place. */
export function keywordError(node: SchemaNode, keyword: string, message: string): GrammarError {
  return new GrammarError(message, [...node.path, keyword]);
}

/** @throws GrammarError when a keyword of the schema cannot be enforced. */
export function checkKeywords(node: SchemaNode): void {
  const schema = node.schema as JsonObject;
  for (const keyword of REFUSED) {
    if (schema[keyword] !== undefined) throw keywordError(node, keyword, "cannot be enforced");
  }
  const format = stringOf(node, "format");
  if (format !== undefined && UNENFORCED_FORMATS.includes(format)) {
    throw keywordError(node, "format", `"${format}" cannot be enforced; the known ones are ${FORMAT_NAMES.join(", ")}`);
  }
  namesOf(node, "required");
  for (const keyword of ["const", "enum"]) checkConstant(node, keyword);
  if (schema.uniqueItems !== undefined && typeof schema.uniqueItems !== "boolean") {
    throw keywordError(node, "uniqueItems", "must be a boolean");
  }
}

const BEYOND_DOUBLES = "must be 0 or between 5e-324 and 1.797e308 in size, as doubles are";

/** Lists and objects of constants that have been looked at: they are taken apart into further schemas. */
const checkedValues = new WeakSet<object>();

/** @throws GrammarError for a number of a constant that no double is near, and for one that nests too deep */
function checkConstant(node: SchemaNode, keyword: string): void {
  const constant = (node.schema as JsonObject)[keyword];
  if (constant === undefined) return;
  const check = (value: unknown, path: readonly string[], depth: number): void => {
    if (typeof value === "number" && !Number.isFinite(value)) throw new GrammarError(BEYOND_DOUBLES, path);
    if (typeof value !== "object" || value === null || checkedValues.has(value)) return;
    // Each list or object becomes a schema, two parts of a path below that of the one around it.
    if (node.path.length + 2 * depth > MAX_DEPTH) {
      throw keywordError(node, keyword, `nests too deep: each of its levels is two of the schema's ${MAX_DEPTH}`);
    }
    for (const [key, inner] of Object.entries(value)) {
      if (typeof inner === "number" || typeof inner === "object") check(inner, [...path, key], depth + 1);
    }
    checkedValues.add(value);
  };
  // The list of an enumeration is none of its constants.
  check(constant, [...node.path, keyword], keyword === "enum" ? 0 : 1);
}

/** Sets of one type. */
const SINGLE_TYPES: ReadonlyMap<unknown, ReadonlySet<TypeName>> = new Map(TYPES.map((type) => [type, new Set([type])]));

export function typesOf(node: SchemaNode): ReadonlySet<TypeName> | null {
  const schema = node.schema as JsonObject;
  if (schema.type === undefined) return null;
  const single = SINGLE_TYPES.get(schema.type);
  if (single !== undefined && schema.nullable !== true) return single;
  const names: unknown[] = Array.isArray(schema.type) ? schema.type : [schema.type];
  const found = new Set<TypeName>();
  for (const name of names) {
    if (name === "any") for (const type of TYPES) found.add(type);
    else if ((TYPES as readonly unknown[]).includes(name)) found.add(name as TypeName);
    else throw keywordError(node, "type", `must be one of ${TYPES.join(", ")}, or a list of them`);
  }
  if (schema.nullable === true) found.add("null");
  return found;
}

/** Characters of the longest string there can be in this process: nothing that is counted in a text comes to more. */
const MAX_COUNTED = 2 ** 29;

/** A count such as minLength; undefined when it is absent, or a limit that nothing reaches. */
export function countOf(node: SchemaNode, keyword: string): number | undefined {
  const value = (node.schema as JsonObject)[keyword];
  if (value === undefined) return undefined;
  const isWhole = typeof value === "bigint" || (typeof value === "number" && Number.isInteger(value));
  if (!isWhole || value < 0) throw keywordError(node, keyword, "must be an integer of at least 0");
  if (value <= MAX_COUNTED) return Number(value);
  if (keyword.startsWith("min")) throw keywordError(node, keyword, "is more than any text has");
  return undefined;
}

/** How many items `contains` must find; `max` -1: any number. */
export function containsCounts(node: SchemaNode): { min: number; max: number } {
  return { min: countOf(node, "minContains") ?? 1, max: countOf(node, "maxContains") ?? -1 };
}

function decimalOf(node: SchemaNode, keyword: string): Decimal {
  const value = (node.schema as JsonObject)[keyword];
  if (typeof value !== "number" && typeof value !== "bigint") throw keywordError(node, keyword, "must be a number");
  if (typeof value === "number" && !Number.isFinite(value)) throw keywordError(node, keyword, BEYOND_DOUBLES);
  return toDecimal(value);
}

/** The integers that a format such as int32 leaves; null: no such format. */
export function integersOf(node: SchemaNode): ReturnType<typeof formatIntegers> {
  const format = stringOf(node, "format");
  return format === undefined ? null : formatIntegers(format);
}

/** The bounds that the schema sets, numeric and boolean spelling of the exclusive ones. */
export function boundsOf(node: SchemaNode): { low: Bound[]; high: Bound[] } {
  const side = (limit: string, exclusive: string): Bound[] => {
    const schema = node.schema as JsonObject;
    const bounds: Bound[] = [];
    if (schema[limit] !== undefined)
      bounds.push({ value: decimalOf(node, limit), inclusive: schema[exclusive] !== true });
    if (schema[exclusive] !== undefined && typeof schema[exclusive] !== "boolean") {
      bounds.push({ value: decimalOf(node, exclusive), inclusive: false });
    }
    return bounds;
  };
  const low = side("minimum", "exclusiveMinimum");
  const high = side("maximum", "exclusiveMaximum");
  const integers = integersOf(node);
  if (integers !== null) {
    low.push({ value: toDecimal(integers.low), inclusive: true });
    high.push({ value: toDecimal(integers.high), inclusive: true });
  }
  return { low, high };
}

/** The bound that all of them come to. `direction` 1: lower bounds, -1: upper ones. */
export function tightest(bounds: readonly Bound[], direction: 1 | -1): Bound | null {
  let best: Bound | null = null;
  for (const bound of bounds) {
    const order = best === null ? 1 : compareDecimals(bound.value, best.value) * direction;
    if (order > 0 || (order === 0 && !bound.inclusive)) best = bound;
  }
  return best;
}

export function multipleOf(node: SchemaNode): Decimal | null {
  if ((node.schema as JsonObject).multipleOf === undefined) return null;
  const step = decimalOf(node, "multipleOf");
  if (step.digits === "" || step.negative) throw keywordError(node, "multipleOf", "must be more than 0");
  return step;
}

export function stringOf(node: SchemaNode, keyword: string): string | undefined {
  const value = (node.schema as JsonObject)[keyword];
  if (value === undefined) return undefined;
  if (typeof value !== "string") throw keywordError(node, keyword, "must be a string");
  return value;
}

export function namesOf(node: SchemaNode, ...path: string[]): readonly string[] {
  let value: unknown = node.schema;
  for (const key of path) value = (value as JsonObject)[key];
  if (value === undefined) return [];
  if (!Array.isArray(value) || value.some((name) => typeof name !== "string")) {
    throw new GrammarError("must be a list of strings", [...node.path, ...path]);
  }
  return value as string[];
}

/** The keys of a keyword that maps names to schemas. */
export function keysOf(node: SchemaNode, keyword: string): readonly string[] {
  const value = (node.schema as JsonObject)[keyword];
  if (value === undefined) return [];
  if (!isObject(value)) throw keywordError(node, keyword, "must be an object");
  return Object.keys(value);
}

/** The positions of a keyword that holds a list of schemas. */
export function listOf(node: SchemaNode, keyword: string): readonly string[] {
  const value = (node.schema as JsonObject)[keyword];
  if (value === undefined) return [];
  if (!Array.isArray(value) || value.length === 0) throw keywordError(node, keyword, "must be a list of schemas");
  return value.map((_, i) => String(i));
}
