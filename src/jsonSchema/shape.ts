// What the schemas of one branch say together about each type of value.

import { GrammarError, within } from "../grammar/grammarError.js";
import type { Expr } from "../grammar/ir.js";
import { regexSearchToExpr } from "../grammar/regex.js";
import { isMatch } from "../grammar/regularMatch.js";
import { spend } from "../grammar/workBudget.js";
import { compareDecimals, type Decimal, floor, toDecimal } from "./decimals.js";
import { isObject, type JsonObject, type Scalar, type SchemaDocument, type SchemaNode } from "./document.js";
import {
  boundsOf,
  containsCounts,
  countOf,
  integersOf,
  keysOf,
  listOf,
  multipleOf,
  namesOf,
  tightest,
  typesOf,
} from "./keywords.js";
import type { Bound } from "./numbers.js";

export type JsonType = "null" | "boolean" | "number" | "string" | "array" | "object";

/** Schemas that a value must satisfy together, each with its own keywords only: no references, no alternatives. */
export type Branch = readonly SchemaNode[] & {
  /** Made when they are first asked for: branches are asked about again and again while alternatives are compared. */
  typeShape?: TypeShape;
  objectShape?: ObjectShape;
};

/** Takes schemas apart; a value satisfies all of `nodes` exactly when it satisfies one of the branches. */
export interface BranchReader {
  of(nodes: Conjunction): Branch[];
  /** null where that is part of the question, as one of the schemas is being taken apart. */
  ofKnown(nodes: Conjunction): Branch[] | null;
}

export interface TypeShape {
  types: ReadonlySet<JsonType>;
  /** Numbers must be integers. */
  integer: boolean;
  /** Numbers must not be integers. */
  fractional: boolean;
  /** null: any value of the types. */
  literals: readonly Scalar[] | null;
}

export const ALL_TYPES: readonly JsonType[] = ["null", "boolean", "number", "string", "array", "object"];
const EVERY_TYPE: ReadonlySet<JsonType> = new Set(ALL_TYPES);

const NONE: ReadonlySet<string> = new Set();

export function typeShape(branch: Branch): TypeShape {
  branch.typeShape ??= newTypeShape(branch);
  return branch.typeShape;
}

function newTypeShape(branch: Branch): TypeShape {
  let types: ReadonlySet<JsonType> = EVERY_TYPE;
  let integer = false;
  let fractional = false;
  let literals: Scalar[] | null = null;
  const excluded: Scalar[] = [];
  for (const node of branch) {
    if (node.excluded !== undefined) excluded.push(...node.excluded);
    fractional ||= node.fractional ?? false;
    if (node.literals !== undefined) {
      const { literals: allowed } = node;
      if (literals === null) {
        literals = [...allowed];
      } else {
        const keys = new Set(allowed.map(keyOf));
        literals = literals.filter((value) => keys.has(keyOf(value)));
      }
    }
    if (!isObject(node.schema)) continue;
    integer ||= integersOf(node) !== null;
    const named = typesOf(node);
    if (named === null) continue;
    if (!named.has("number")) integer ||= named.has("integer");
    types = filtered(types, (type) => named.has(type) || (type === "number" && named.has("integer")));
  }
  if (excluded.includes(null)) types = filtered(types, (type) => type !== "null");
  if (excluded.includes(true) && excluded.includes(false)) types = filtered(types, (type) => type !== "boolean");
  if (literals !== null) {
    if (excluded.length > 0) {
      const keys = new Set(excluded.map(keyOf));
      literals = literals.filter((value) => !keys.has(keyOf(value)));
    }
    const found = new Set(literals.map(typeOf));
    types = filtered(types, (type) => found.has(type));
  }
  if (integer && fractional) types = filtered(types, (type) => type !== "number");
  return { types, integer, fractional, literals };
}

/** All sets of types, by the bits of their members in `ALL_TYPES`. */
const TYPE_SETS = Array.from(
  { length: 2 ** ALL_TYPES.length },
  (_, bits): ReadonlySet<JsonType> => new Set(ALL_TYPES.filter((_, i) => bits & (1 << i))),
);

function filtered(set: ReadonlySet<JsonType>, isKept: (one: JsonType) => boolean): ReadonlySet<JsonType> {
  let bits = 0;
  for (let i = 0; i < ALL_TYPES.length; i++) if (set.has(ALL_TYPES[i]!) && isKept(ALL_TYPES[i]!)) bits |= 1 << i;
  return TYPE_SETS[bits]!;
}

/** The same for the same values: numbers are the same by value, however they are typed. */
export function keyOf(value: Scalar): string {
  if (typeof value !== "number" && typeof value !== "bigint") return `${typeof value} ${value}`;
  const { negative, digits, exponent } = toDecimal(value);
  return `${negative ? "-" : ""}0.${digits}e${exponent}`;
}

export function typeOf(value: Scalar): JsonType {
  if (value === null) return "null";
  return typeof value === "bigint" ? "number" : (typeof value as "boolean" | "number" | "string");
}

export interface NumberShape {
  low: Bound | null;
  high: Bound | null;
  steps: { node: SchemaNode; step: Decimal }[];
  /** What it is no multiple of. Where there is one, numbers must be integers. */
  excludedSteps: { node: SchemaNode; step: bigint }[];
}

export function numberShape(branch: Branch): NumberShape {
  const bounds = branch.filter((node) => isObject(node.schema)).map(boundsOf);
  const low = tightest(
    bounds.flatMap((bound) => bound.low),
    1,
  );
  const high = tightest(
    bounds.flatMap((bound) => bound.high),
    -1,
  );
  const steps = branch.flatMap((node) => {
    const step = isObject(node.schema) ? multipleOf(node) : null;
    return step === null ? [] : [{ node, step }];
  });
  const excludedSteps = branch.flatMap((node) =>
    node.excludedStep === undefined ? [] : [{ node, step: node.excludedStep }],
  );
  return { low, high, steps, excludedSteps };
}

/** The largest integer below an upper bound. */
export function highestInteger({ value, inclusive }: Bound): bigint {
  const below = floor(value);
  const isExact = compareDecimals(toDecimal(below), value) === 0;
  return isExact && !inclusive ? below - 1n : below;
}

/** The smallest integer above a lower bound. */
export function lowestInteger({ value, inclusive }: Bound): bigint {
  return -highestInteger({ value: { ...value, negative: value.digits !== "" && !value.negative }, inclusive });
}

/** Bounds on a count; `max` -1: none. */
export function countShape(branch: Branch, minKeyword: string, maxKeyword: string): { min: number; max: number } {
  let min = 0;
  let max = -1;
  for (const node of branch) {
    if (!isObject(node.schema)) continue;
    min = Math.max(min, countOf(node, minKeyword) ?? 0);
    const limit = countOf(node, maxKeyword);
    if (limit !== undefined) max = max === -1 ? limit : Math.min(max, limit);
  }
  return { min, max };
}

/** Schemas that one value must satisfy together. */
export type Conjunction = readonly SchemaNode[] & {
  /** Made when they are first asked for. */
  branches?: Branch[];
};

export interface ArrayShape {
  /** What the first items must satisfy, each by its position. */
  prefix: readonly Conjunction[];
  rest: Conjunction;
  min: number;
  max: number;
  contained: readonly Contained[];
  /** The schema that says that no two items are equal; null: none does. */
  unique: SchemaNode | null;
}

/** Items from `from` on that satisfy `schema` are at least `min` and at most `max` (-1: any number). */
export interface Contained {
  origin: SchemaNode;
  schema: SchemaNode;
  other: SchemaNode;
  from: number;
  min: number;
  max: number;
}

export function arrayShape(document: SchemaDocument, branch: Branch): ArrayShape {
  const parts = branch.filter((node) => isObject(node.schema)).map((node) => arrayParts(document, node));
  const longest = Math.max(0, ...parts.map((part) => part.prefix.length));
  const prefix = Array.from({ length: longest }, (_, i) =>
    parts.flatMap((part) => (i < part.prefix.length ? [part.prefix[i]!] : part.rest)),
  );
  const rest = parts.flatMap((part) => part.rest);
  const nodes = branch.filter((node) => isObject(node.schema));
  const contained = nodes
    .filter((node) => (node.schema as JsonObject).contains !== undefined)
    .map((node): Contained => {
      const schema = document.child(node, "contains");
      const other = document.derive(node, "item that is not contained", { schema: { not: schema.schema } });
      return { origin: node, schema, other, from: node.containsFrom ?? 0, ...containsCounts(node) };
    });
  const unique = nodes.find((node) => (node.schema as JsonObject).uniqueItems === true) ?? null;
  return { prefix, rest, ...countShape(branch, "minItems", "maxItems"), contained, unique };
}

/** `items` as a list, with `additionalItems`, is how older drafts write `prefixItems` and `items`. */
export function arrayParts(document: SchemaDocument, node: SchemaNode): { prefix: SchemaNode[]; rest: SchemaNode[] } {
  const schema = node.schema as JsonObject;
  const isOld = Array.isArray(schema.items);
  const listKeyword = isOld ? "items" : "prefixItems";
  const restKeyword = isOld ? "additionalItems" : "items";
  const positions =
    Array.isArray(schema[listKeyword]) && schema[listKeyword].length === 0 ? [] : listOf(node, listKeyword);
  return {
    prefix: positions.map((position) => document.child(node, listKeyword, position)),
    rest: schema[restKeyword] === undefined ? [] : [document.child(node, restKeyword)],
  };
}

export interface ObjectShape {
  /** Declared properties in order, then the names that are only required. */
  named: { name: string; value: Conjunction | null; required: boolean; declared: boolean }[];
  patterns: readonly { pattern: string; search: Expr }[];
  /** What the value of an undeclared name must satisfy that matches the given patterns; null: no such name. */
  additional(matched: ReadonlySet<string>): Conjunction | null;
  /** What the names must satisfy. */
  names: Conjunction;
  min: number;
  max: number;
  /** As the schema says it; null: it says nothing. */
  order: "any" | "declared" | null;
}

/** `closed` is the same for all branches of a document. */
export function objectShape(document: SchemaDocument, branch: Branch, closed: boolean): ObjectShape {
  branch.objectShape ??= newObjectShape(document, branch, closed);
  return branch.objectShape;
}

function newObjectShape(document: SchemaDocument, branch: Branch, closed: boolean): ObjectShape {
  const nodes = branch.filter((node) => isObject(node.schema));
  const parts = nodes.map((node) => {
    const schema = node.schema as JsonObject;
    const order = schema["x-property-order"] ?? null;
    if (order !== null && order !== "any" && order !== "declared") {
      throw new GrammarError('must be "any" or "declared"', [...node.path, "x-property-order"]);
    }
    return {
      node,
      properties: keysOf(node, "properties"),
      patterns: keysOf(node, "patternProperties"),
      named: node.named,
      others: schema.additionalProperties === undefined ? [] : [document.child(node, "additionalProperties")],
      order,
    };
  });
  const orders = parts.map((part) => part.order);
  const names = new Set<string>();
  const required = new Set<string>();
  for (const { node, properties } of parts) {
    for (const name of properties) names.add(name);
    for (const name of namesOf(node, "required")) required.add(name);
    if (node.named !== undefined) required.add(node.named.name);
  }
  const patterns = [...new Set(parts.flatMap((part) => part.patterns))];
  const isClosed = closed && names.size + patterns.length > 0 && parts.every((part) => part.others.length === 0);
  const conjunctionOf = (name: string | null, matched: ReadonlySet<string>): SchemaNode[] => {
    const all: SchemaNode[] = [];
    for (const { node, properties, patterns: own, others, named } of parts) {
      spend(2 + own.length);
      const before = all.length;
      if (
        name !== null &&
        properties.length > 0 &&
        Object.hasOwn((node.schema as JsonObject).properties as object, name)
      ) {
        all.push(document.child(node, "properties", name));
      }
      for (const one of own) if (matched.has(one)) all.push(document.child(node, "patternProperties", one));
      if (all.length === before) all.push(...others);
      if (name !== null && named?.name === name) all.push(named.value);
    }
    // A list that grew has room for more.
    return all.length === 1 ? [all[0]!] : all;
  };
  const searchOf = (pattern: string) =>
    patternSearch(parts.find((part) => part.patterns.includes(pattern))!.node, pattern);
  const matchedBy = (name: string) =>
    patterns.length === 0 ? NONE : new Set(patterns.filter((pattern) => isMatch(searchOf(pattern), name)));
  // Most objects are of one schema without patterns: it alone says what a name is that it declares.
  const only = parts.length === 1 && patterns.length === 0 && parts[0]!.named === undefined ? parts[0]!.node : null;
  const conjunction = (name: string, declared: boolean): Conjunction | null => {
    if (declared && only !== null) return [document.child(only, "properties", name)];
    const matched = matchedBy(name);
    return isClosed && matched.size === 0 && !declared ? null : conjunctionOf(name, matched);
  };
  const describe = (name: string, declared: boolean): ObjectShape["named"][number] => {
    return { name, value: conjunction(name, declared), required: required.has(name), declared };
  };
  const named = [...names].map((name) => describe(name, true));
  for (const name of required) if (!names.has(name)) named.push(describe(name, false));
  return {
    named,
    patterns: patterns.map((pattern) => ({ pattern, search: searchOf(pattern) })),
    additional: (matched) => (isClosed && matched.size === 0 ? null : conjunctionOf(null, matched)),
    names: nodes.flatMap((node) =>
      (node.schema as JsonObject).propertyNames === undefined ? [] : [document.child(node, "propertyNames")],
    ),
    ...countShape(branch, "minProperties", "maxProperties"),
    order: orders.includes("any") ? "any" : orders.includes("declared") ? "declared" : null,
  };
}

/** The names that a pattern of `patternProperties` is found in. */
export function patternSearch(node: SchemaNode, pattern: string): Expr {
  return within([...node.path, "patternProperties", pattern], () => regexSearchToExpr(pattern));
}
