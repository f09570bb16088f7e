// `not`: the schemas of which a value satisfies one exactly when it does not satisfy the given one.

import { CircularError } from "./circularError.js";
import { asFraction, compareDecimals, type Decimal, isInteger, toDecimal } from "./decimals.js";
import {
  isObject,
  type JsonObject,
  type MemberCondition,
  type Scalar,
  type SchemaDocument,
  type SchemaNode,
} from "./document.js";
import {
  boundsOf,
  checkKeywords,
  containsCounts,
  countOf,
  integersOf,
  keysOf,
  keywordError,
  listOf,
  multipleOf,
  namesOf,
  stringOf,
  TYPES,
  typesOf,
} from "./keywords.js";
import { arrayParts } from "./shape.js";
import { exactly } from "./values.js";

/** Keywords whose opposite is not written as schemas here. */
const NOT_NEGATED = ["$dynamicRef", "$recursiveRef", "uniqueItems", "unevaluatedItems", "unevaluatedProperties"];
/** Alternatives of `oneOf`, of which two each may hold together. */
const MAX_ONE_OF = 8;

const NOT_HERE = "cannot be enforced inside not, or where alternatives may overlap";

/** Limits by the opposite that says "one less" or "one more". */
const COUNTS = [
  ["minLength", "maxLength", "string"],
  ["minItems", "maxItems", "array"],
  ["minProperties", "maxProperties", "object"],
] as const;

/**
 * The alternatives of which "not `node`" consists. `outer`: what `node` is a part of and is being negated.
 * @throws GrammarError naming the keyword that has no exact opposite; CircularError.
 */
export function negate(document: SchemaDocument, node: SchemaNode, outer: readonly SchemaNode[] = []): SchemaNode[] {
  if (outer.includes(node)) throw new CircularError(node.path);
  if (typeof node.schema === "boolean") {
    return node.schema && node.literals === undefined ? [] : [document.derive(node, "true", { schema: true })];
  }
  const { schema } = node;
  checkKeywords(node);
  if (integersOf(node) !== null) throw keywordError(node, "format", NOT_HERE);
  for (const keyword of ["contentEncoding", "contentMediaType"]) {
    if (node.dialect.contentIsAsserted && schema[keyword] !== undefined) throw keywordError(node, keyword, NOT_HERE);
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
    ...oppositeOfMultiples(document, node),
    ...oppositeOfTexts(document, node),
    ...oppositeOfItems(document, node, schema),
    ...oppositeOfMembers(document, node),
    ...oppositeOfOtherMembers(document, node, schema),
    ...oppositeOfDependencies(document, node),
    ...oppositeOfCombinations(document, node, schema, [...outer, node]),
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
    const isScalar = (value: unknown): value is Scalar => typeof value !== "object" || value === null;
    if (values.every(isScalar)) {
      found.push(document.derive(node, `not ${keyword}`, { excluded: values }));
    } else {
      const others = values.filter((value) => !isScalar(value)).map((value) => ({ not: exactly(value) }));
      const scalars = values.filter(isScalar);
      const allOf = scalars.length === 0 ? others : [{ not: { enum: scalars } }, ...others];
      found.push(make(document, node, keyword, { allOf }));
    }
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

/** Other integers, and what is no integer. */
function oppositeOfMultiples(document: SchemaDocument, node: SchemaNode): SchemaNode[] {
  const step = multipleOf(node);
  if (step === null) return [];
  if (!isInteger(step)) throw keywordError(node, "multipleOf", NOT_HERE);
  const [excludedStep] = asFraction(step);
  return [
    document.derive(node, "no multiple", { schema: { type: "integer" }, excludedStep }),
    document.derive(node, "no multiple, as no integer", { schema: { type: "number" }, fractional: true }),
  ];
}

function isValue(written: unknown, value: Decimal): boolean {
  return (
    (typeof written === "number" || typeof written === "bigint") && compareDecimals(toDecimal(written), value) === 0
  );
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
  const { "x-property-order": named } = node.schema as JsonObject;
  const order = named === undefined ? {} : { "x-property-order": named };
  const wrong = keysOf(node, "properties").map((name) => {
    const { schema } = document.child(node, "properties", name);
    const properties = { [name]: { not: schema } };
    return make(document, node, `property ${name}`, { type: "object", required: [name], properties, ...order });
  });
  return [...missing, ...wrong];
}

/** A member of another name, of a name that matches a pattern, or of a name that is none, which is wrong. */
function oppositeOfOtherMembers(document: SchemaDocument, node: SchemaNode, schema: JsonObject): SchemaNode[] {
  const patterns = keysOf(node, "patternProperties");
  const found: SchemaNode[] = [];
  const having = (
    keyword: string,
    what: string,
    condition: Partial<MemberCondition> & Pick<MemberCondition, "value">,
  ) => {
    const member = { origin: node, keyword, excludedNames: [], excludedPatterns: [], ...condition };
    found.push(document.derive(node, `not ${what}`, { schema: { type: "object" }, member }));
  };
  const opposite = (what: string, of: unknown) =>
    document.derive(node, `opposite of ${what}`, { schema: of === false ? true : { not: of } });
  for (const pattern of patterns) {
    const { schema: value } = document.child(node, "patternProperties", pattern);
    having("patternProperties", `pattern ${pattern}`, { pattern, value: opposite(`pattern ${pattern}`, value) });
  }
  if (schema.additionalProperties !== undefined) {
    const excludedNames = keysOf(node, "properties");
    const value = opposite("additional", schema.additionalProperties);
    having("additionalProperties", "additional", { excludedNames, excludedPatterns: patterns, value });
  }
  if (schema.propertyNames !== undefined) {
    const any = document.derive(node, "any value", { schema: true });
    having("propertyNames", "names", { name: opposite("names", schema.propertyNames), value: any });
  }
  return found;
}

/** A name that is there without what it asks for. */
function oppositeOfDependencies(document: SchemaDocument, node: SchemaNode): SchemaNode[] {
  return (["dependentRequired", "dependentSchemas", "dependencies"] as const).flatMap((keyword) =>
    keysOf(node, keyword).map((name) => {
      const asked = ((node.schema as JsonObject)[keyword] as JsonObject)[name];
      const consequence = Array.isArray(asked) ? { required: namesOf(node, keyword, name) } : asked;
      return make(document, node, `${keyword} ${name}`, { type: "object", required: [name], not: consequence });
    }),
  );
}

function oppositeOfCombinations(
  document: SchemaDocument,
  node: SchemaNode,
  schema: JsonObject,
  outer: readonly SchemaNode[],
): SchemaNode[] {
  const found = listOf(node, "allOf").flatMap((i) => negate(document, document.child(node, "allOf", i), outer));
  if (schema.anyOf !== undefined) {
    const allOf = listOf(node, "anyOf").map((i) => ({ not: document.child(node, "anyOf", i).schema }));
    found.push(make(document, node, "anyOf", { allOf }));
  }
  if (schema.oneOf !== undefined) found.push(...oppositeOfOneOf(document, node));
  if (schema.if !== undefined) {
    const { if: condition, then: held, else: otherwise } = schema;
    if (held !== undefined) found.push(make(document, node, "then", { allOf: [condition, { not: held }] }));
    if (otherwise !== undefined) {
      found.push(make(document, node, "else", { allOf: [{ not: condition }, { not: otherwise }] }));
    }
  }
  if (schema.not !== undefined) found.push(document.child(node, "not"));
  if (schema.$ref !== undefined) found.push(...negate(document, document.resolve(node, "$ref"), outer));
  return found.filter((one) => one.schema !== false || !isObject(one.schema));
}

/** None of them holds, or two. */
function oppositeOfOneOf(document: SchemaDocument, node: SchemaNode): SchemaNode[] {
  const schemas = listOf(node, "oneOf").map((i) => document.child(node, "oneOf", i).schema);
  if (schemas.length > MAX_ONE_OF) throw keywordError(node, "oneOf", NOT_HERE);
  const pairs = schemas.flatMap((one, i) =>
    schemas.slice(0, i).map((other, j) => make(document, node, `oneOf ${j} ${i}`, { allOf: [other, one] })),
  );
  return [make(document, node, "oneOf", { allOf: schemas.map((one) => ({ not: one })) }), ...pairs];
}
