import { expect, test } from "vitest";
import { grammarOf } from "../../test/grammar/schemaCases.js";

const DRAFT_7 = "http://json-schema.org/draft-07/schema#";

test.each<[schema: unknown, path: string[], message: string]>([
  [
    { properties: { a: { items: { type: "boolean" }, prefixItems: [{}, {}, {}], minItems: 6, uniqueItems: true } } },
    ["properties", "a", "uniqueItems"],
    "so many values",
  ],
  [{ contains: {}, minContains: 5000 }, ["contains"], "combinations"],
  [
    { patternProperties: { a: {}, b: {}, c: {}, d: {}, e: {}, f: {}, g: {} } },
    ["patternProperties"],
    "64 combinations",
  ],
  [{ $schema: "https://example.com/own" }, ["$schema"], "known dialect"],
  [{ properties: { a: { required: true } } }, ["properties", "a", "required"], "list of strings"],
  [{ $schema: DRAFT_7, contentMediaType: "text/html" }, ["contentMediaType"], "cannot be enforced"],
  [{ $schema: DRAFT_7, contentEncoding: "base32" }, ["contentEncoding"], "cannot be enforced"],
  [{ $schema: DRAFT_7, not: { contentEncoding: "base64" } }, ["not", "contentEncoding"], "inside not"],
  [{ $ref: "#/nowhere" }, ["$ref"], "not found"],
  [{ $ref: "http://json-schema.org/draft-07/schema#" }, ["$ref"], "not found"],
  [{ $ref: "#" }, [], "refers to itself"],
  [{ anyOf: [{ type: "string" }, { $ref: "#" }] }, [], "refers to itself"],
  [{ not: { $ref: "#/$defs/a" }, $defs: { a: { $ref: "#/$defs/a" } } }, ["not"], "refers to itself"],
  [{ not: { $ref: "#/$defs/a" }, $defs: { a: { allOf: [{ $ref: "#/$defs/a" }] } } }, ["not"], "refers to itself"],
  [{ type: "text" }, ["type"], "one of"],
  [{ type: "string", format: "idn-email" }, ["format"], "cannot be enforced"],
  [{ type: "string", pattern: "a(?=b)" }, ["pattern"], "look-ahead"],
  [{ type: "integer", multipleOf: 4096 }, ["multipleOf"], "close bounds"],
  [{ type: "integer", multipleOf: 0 }, ["multipleOf"], "more than 0"],
  [{ minLength: -1 }, ["minLength"], "at least 0"],
  [{ type: "string", minLength: 2 ** 32 }, ["minLength"], "any text"],
  [{ type: "array", minItems: 2 ** 32 + 1 }, ["minItems"], "any text"],
  [{ type: "array", minItems: 1e300 }, ["minItems"], "any text"],
  [{ type: "array", maxItems: -1e300 }, ["maxItems"], "at least 0"],
  [{ minimum: "1" }, ["minimum"], "number"],
  [{ properties: [] }, ["properties"], "object"],
  [{ properties: { a: 1 } }, ["properties", "a"], "schema"],
  [{ type: "object", minProperties: 2 }, ["minProperties"], "cannot be enforced"],
  [{ not: { multipleOf: 0.5 } }, ["not", "multipleOf"], "inside not"],
  [{ oneOf: [{ type: "integer" }, { multipleOf: 0.5 }] }, ["oneOf"], "alternatives 0 and 1"],
  [{ type: "string", format: "idn-email" }, ["format"], "cannot be enforced"],
  [{ $defs: { a: { $schema: "https://example.com/own" } } }, ["$defs", "a", "$schema"], "known dialect"],
  [{ patternProperties: { "(": {} } }, ["patternProperties", "("], "missing"],
  [
    { properties: Object.fromEntries(Array.from({ length: 13 }, (_, i) => [`p${i}`, {}])), "x-property-order": "any" },
    ["x-property-order"],
    "more than 12",
  ],
  [
    { allOf: Array.from({ length: 12 }, (_, i) => ({ anyOf: [{ minimum: i }, { maximum: i + 3 }] })) },
    ["allOf", "10"],
    "combinations",
  ],
])("%j is refused at %j", (schema, path, message) => {
  expect(() => grammarOf(schema)).toThrow(expect.objectContaining({ path, message: expect.stringContaining(message) }));
});

test.each([2 ** 31, 2 ** 32, 2 ** 32 + 2, Number.MAX_SAFE_INTEGER, 2 ** 63, 2n ** 63n - 1n])(
  "nothing is limited by %d",
  (limit) => {
    const same = (limited: object, free: object) => expect(grammarOf(limited)).toEqual(grammarOf(free));
    same({ type: "string", maxLength: limit }, { type: "string" });
    same({ type: "string", pattern: "a", maxLength: limit }, { type: "string", pattern: "a" });
    same({ type: "array", maxItems: limit, contains: {}, maxContains: limit }, { type: "array", contains: {} });
    same({ type: "object", maxProperties: limit }, { type: "object" });
  },
);
