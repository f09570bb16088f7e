// `not`: the schemas of which a value satisfies one exactly when it does not satisfy the given one.

import { compareDecimals } from "./decimals.js";
import { isObject, type JsonObject, type Scalar, type SchemaDocument, type SchemaNode } from "./document.js";
import {
  boundsOf,
  checkKeywords,
  containsCounts,
  countOf,
  integersOf,
  keysOf,
  keywordError,
  listOf,
  namesOf,
  stringOf,
  TYPES,
  typesOf,
} from "./keywords.js";
import { arrayParts } from "./shape.js";

/** Keywords whose opposite is not written as schemas here. */
const NOT_NEGATED = [
  "$dynamicRef",
  "$recursiveRef",
  "multipleOf",
  "uniqueItems",
  "unevaluatedItems",
  "unevaluatedProperties",
  "additionalProperties",
  "patternProperties",
  "propertyNames",
  "oneOf",
  "if",
  "dependentRequired",
  "dependentSchemas",
  "dependencies",
];

const NOT_HERE = "cannot be enforced inside not, or where alternatives may overlap";

/** Limits by the opposite that says "one less" or "one more". */
const COUNTS = [
  ["minLength", "maxLength", "string"],
  ["minItems", "maxItems", "array"],
  ["minProperties", "maxProperties", "object"],
] as const;

/**
 * The alternatives of which "not `node`" consists.
 * @throws GrammarError naming the keyword that has no exact opposite.
 */
export function negate(document: SchemaDocument, node: SchemaNode): SchemaNode[] {
  if (typeof node.schema === "boolean") {
    return node.schema && node.literals === undefined ? [] : [document.derive(node, "true", { schema: true })];
  }
  const { schema } = node;
  checkKeywords(node);
  if (integersOf(node) !== null) throw keywordError(node, "format", NOT_HERE);
  for (const keyword of ["contentEncoding", "contentMediaType"]) {
    if (document.contentIsAsserted && schema[keyword] !== undefined) throw keywordError(node, keyword, NOT_HERE);
  }
  for (const keyword of NOT_NEGATED) {
    if (schema[keyword] !== undefined && schema[keyword] !== (keyword !== "uniqueItems")) {
      throw keywordError(node, keyword, NOT_HERE);
    }
  }
  return [
    ...oppositeOfTypes(document, node, schema),
    ...oppositeOfValues(document, node, schema),
    ...oppositeOfLimits(document, node),
    ...oppositeOfTexts(document, node),
    ...oppositeOfItems(document, node, schema),
    ...oppositeOfMembers(document, node),
    ...oppositeOfCombinations(document, node, schema),
  ];
}

function make(document: SchemaDocument, node: SchemaNode, what: string, schema: JsonObject): SchemaNode {
  return document.derive(node, `not ${what}`, { schema });
}

function oppositeOfTypes(document: SchemaDocument, node: SchemaNode, schema: JsonObject): SchemaNode[] {
  const types = typesOf(node);
  if (types === null) return [];
  const hasIntegers = types.has("integer") || types.has("number");
  const others = TYPES.filter((type) => type !== "integer" && !types.has(type) && !(type === "number" && hasIntegers));
  const found = others.length === 0 ? [] : [make(document, node, `type ${String(schema.type)}`, { type: others })];
  if (hasIntegers && !types.has("number")) {
    found.push(document.derive(node, "not integer", { schema: { type: "number" }, fractional: true }));
  }
  return found;
}

function oppositeOfValues(document: SchemaDocument, node: SchemaNode, schema: JsonObject): SchemaNode[] {
  const found: SchemaNode[] = [];
  for (const keyword of ["const", "enum"] as const) {
    if (schema[keyword] === undefined) continue;
    const values: unknown[] = keyword === "const" ? [schema.const] : Array.isArray(schema.enum) ? schema.enum : [];
    if (values.some((value) => typeof value === "object" && value !== null)) {
      throw keywordError(node, keyword, "with lists or objects cannot be enforced inside not");
    }
    found.push(document.derive(node, `not ${keyword}`, { excluded: values as Scalar[] }));
  }
  return found;
}

function oppositeOfLimits(document: SchemaDocument, node: SchemaNode): SchemaNode[] {
  const found: SchemaNode[] = [];
  const { low, high } = boundsOf(node);
  const schema = node.schema as JsonObject;
  for (const { value, inclusive } of low) {
    const limit = [schema.minimum, schema.exclusiveMinimum].find((one) => isValue(one, value));
    const opposite = inclusive ? { exclusiveMaximum: limit } : { maximum: limit };
    found.push(make(document, node, `low ${inclusive} ${String(limit)}`, { type: "number", ...opposite }));
  }
  for (const { value, inclusive } of high) {
    const limit = [schema.maximum, schema.exclusiveMaximum].find((one) => isValue(one, value));
    const opposite = inclusive ? { exclusiveMinimum: limit } : { minimum: limit };
    found.push(make(document, node, `high ${inclusive} ${String(limit)}`, { type: "number", ...opposite }));
  }
  for (const [minKeyword, maxKeyword, type] of COUNTS) {
    const min = countOf(node, minKeyword);
    const max = countOf(node, maxKeyword);
    if (min !== undefined && min > 0) found.push(make(document, node, minKeyword, { type, [maxKeyword]: min - 1 }));
    if (max !== undefined) found.push(make(document, node, maxKeyword, { type, [minKeyword]: max + 1 }));
  }
  return found;
}

function isValue(written: unknown, value: Parameters<typeof compareDecimals>[0]): boolean {
  if (typeof written !== "number" && typeof written !== "bigint") return false;
  const { low } = boundsOf({ id: -1, schema: { minimum: written }, base: "", path: [] });
  return compareDecimals(low[0]!.value, value) === 0;
}

function oppositeOfTexts(document: SchemaDocument, node: SchemaNode): SchemaNode[] {
  return (["pattern", "format"] as const).flatMap((keyword) => {
    const value = stringOf(node, keyword);
    if (value === undefined) return [];
    const schema = { type: "string" };
    return [document.derive(node, `not ${keyword}`, { schema, excludedText: { keyword, value } })];
  });
}

/** An item that is wrong at its place, or too few or too many that `contains` finds. */
function oppositeOfItems(document: SchemaDocument, node: SchemaNode, schema: JsonObject): SchemaNode[] {
  const type = "array";
  const { prefix, rest } = arrayParts(document, node);
  const found = prefix.map((item, i) => {
    const prefixItems = [...Array.from({ length: i }, () => true), { not: item.schema }];
    return make(document, node, `item ${i}`, { type, minItems: i + 1, prefixItems });
  });
  for (const { schema: item } of rest) {
    const isOther = { type, contains: { not: item } };
    found.push(document.derive(node, "not items", { schema: isOther, containsFrom: prefix.length }));
  }
  if (schema.contains !== undefined) {
    const { contains } = schema;
    const { min, max } = containsCounts(node);
    if (min > 0) found.push(make(document, node, "contains", { type, contains, minContains: 0, maxContains: min - 1 }));
    if (max !== -1) found.push(make(document, node, "contained", { type, contains, minContains: max + 1 }));
  }
  return found;
}

function oppositeOfMembers(document: SchemaDocument, node: SchemaNode): SchemaNode[] {
  const missing = namesOf(node, "required").map((name) =>
    make(document, node, `required ${name}`, { type: "object", properties: { [name]: false } }),
  );
  const wrong = keysOf(node, "properties").map((name) => {
    const { schema } = document.child(node, "properties", name);
    const properties = { [name]: { not: schema } };
    return make(document, node, `property ${name}`, { type: "object", required: [name], properties });
  });
  return [...missing, ...wrong];
}

function oppositeOfCombinations(document: SchemaDocument, node: SchemaNode, schema: JsonObject): SchemaNode[] {
  const found = listOf(node, "allOf").flatMap((i) => negate(document, document.child(node, "allOf", i)));
  if (schema.anyOf !== undefined) {
    const allOf = listOf(node, "anyOf").map((i) => ({ not: document.child(node, "anyOf", i).schema }));
    found.push(make(document, node, "anyOf", { allOf }));
  }
  if (schema.not !== undefined) found.push(document.child(node, "not"));
  if (schema.$ref !== undefined) found.push(...negate(document, document.resolve(node, "$ref")));
  return found.filter((one) => one.schema !== false || !isObject(one.schema));
}
