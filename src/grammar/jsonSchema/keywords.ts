// Reading keywords: the shape of each value, and which keywords cannot be enforced.

import { GrammarError } from "../grammarError.js";
import { compareDecimals, type Decimal, toDecimal } from "./decimals.js";
import { isObject, type JsonObject, type SchemaNode } from "./document.js";
import type { Bound } from "./numbers.js";

export const TYPES = ["null", "boolean", "integer", "number", "string", "array", "object"] as const;
export type TypeName = (typeof TYPES)[number];

/** Keywords that assert something which an automaton cannot follow, or which is not followed here. */
const REFUSED = [
  "contains",
  "minContains",
  "maxContains",
  "unevaluatedProperties",
  "unevaluatedItems",
  "$dynamicRef",
  "$recursiveRef",
  "extends",
  "disallow",
  "divisibleBy",
];

/** Keywords that say something about a value; all others are annotations. */
export const ASSERTIONS: ReadonlySet<string> = new Set([
  ...REFUSED,
  ..."$ref allOf anyOf oneOf not if then else dependentRequired dependentSchemas dependencies".split(" "),
  ..."type nullable const enum minimum maximum exclusiveMinimum exclusiveMaximum multipleOf".split(" "),
  ..."minLength maxLength pattern format items prefixItems additionalItems minItems maxItems uniqueItems".split(" "),
  ..."properties patternProperties additionalProperties propertyNames required minProperties maxProperties".split(" "),
  "x-property-order",
]);

/** What is wrong with a keyword, at its place. */
export function keywordError(node: SchemaNode, keyword: string, message: string): GrammarError {
  return new GrammarError(message, [...node.path, keyword]);
}

/** @throws GrammarError when a keyword of the schema cannot be enforced. */
export function checkKeywords(node: SchemaNode): void {
  const schema = node.schema as JsonObject;
  for (const keyword of REFUSED) {
    if (schema[keyword] === undefined || assertsNothing(keyword, schema)) continue;
    throw keywordError(node, keyword, "cannot be enforced");
  }
  if (schema.uniqueItems === true && !(typeof schema.maxItems === "number" && schema.maxItems <= 1)) {
    throw keywordError(node, "uniqueItems", "cannot be enforced");
  }
}

function assertsNothing(keyword: string, schema: JsonObject): boolean {
  if (keyword === "minContains" || keyword === "maxContains") return schema.contains === undefined;
  return (keyword === "unevaluatedProperties" || keyword === "unevaluatedItems") && schema[keyword] === true;
}

export function typesOf(node: SchemaNode): ReadonlySet<TypeName> | null {
  const schema = node.schema as JsonObject;
  if (schema.type === undefined) return null;
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

/** A count such as minLength; undefined when it is absent. */
export function countOf(node: SchemaNode, keyword: string): number | undefined {
  const value = (node.schema as JsonObject)[keyword];
  if (value === undefined) return undefined;
  if (typeof value !== "number" || !Number.isSafeInteger(value) || value < 0) {
    throw keywordError(node, keyword, "must be an integer of at least 0");
  }
  return value;
}

function decimalOf(node: SchemaNode, keyword: string): Decimal {
  const value = (node.schema as JsonObject)[keyword];
  if ((typeof value !== "number" || !Number.isFinite(value)) && typeof value !== "bigint") {
    throw keywordError(node, keyword, "must be a number");
  }
  return toDecimal(value);
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
  return { low: side("minimum", "exclusiveMinimum"), high: side("maximum", "exclusiveMaximum") };
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
