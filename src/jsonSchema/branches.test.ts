import { expect, test } from "vitest";
import { grammarOf, testSchemas } from "../../test/grammar/schemaCases.js";
import { withWorkBudget } from "../grammar/workBudget.js";

testSchemas([
  [
    {
      type: "object",
      allOf: [
        { properties: { a: { type: "integer" } }, required: ["a"] },
        { properties: { a: { minimum: 3 }, b: { type: "null" } } },
      ],
    },
    ['{"a":3}', '{"a":4,"b":null}'],
    ['{"a":2}', '{"b":null}'],
  ],
  [
    {
      oneOf: [
        { type: "object", properties: { k: { const: "a" }, x: { type: "integer" } }, required: ["k", "x"] },
        { type: "object", properties: { k: { const: "b" } }, required: ["k"] },
      ],
    },
    ['{"k":"a","x":1}', '{"k":"b"}', '{"k":"b","x":"q"}'],
    ['{"k":"a"}', '{"k":"c"}'],
  ],
  [
    {
      type: "object",
      oneOf: [
        {
          allOf: [
            { $ref: "#/$defs/base" },
            { type: "object", properties: { email: { type: "string" } }, required: ["id"] },
          ],
        },
        { type: "object", properties: { name: { type: "string" } }, required: ["name"] },
      ],
      $defs: { base: { type: "object", properties: { id: { type: "integer" } }, required: ["id"] } },
    },
    ['{"id":1}', '{"id":1,"email":"a"}', '{"name":"x"}'],
    ["{}", '{"id":"1"}', '{"id":1,"name":"x"}'],
  ],
  [{ oneOf: [{ required: ["a", "a"] }, { required: ["b"] }] }, ['{"a":1}', '{"b":1}'], ["1", "{}", '{"a":1,"b":1}']],
  [
    { oneOf: [{ type: "string", allOf: [{ type: "string" }] }, { maxLength: 3 }] },
    ['"abcd"', "{}", "1", "null"],
    ['"abc"', '""'],
  ],
  [
    { anyOf: [true, true, true], not: { type: "string", minLength: 2, maxLength: 4 } },
    ["1", '"a"', '"abcde"', "{}"],
    ['"ab"', '"abcd"'],
  ],
  [
    { oneOf: [{ const: 1 }, { const: "1" }, { const: 1.0 }, { const: 2 }, { const: null }, { const: [1] }] },
    ['"1"', "2", "null", "[1]"],
    ["1", "3"],
  ],
  [
    { type: "object", oneOf: [{ required: ["a"] }, { required: ["b"] }] },
    ['{"a":1}', '{"b":1,"c":2}'],
    ['{"a":1,"b":2}', '{"c":1}'],
  ],
  [{ not: { type: ["string", "null"] } }, ["1", "[]"], ['"a"', "null"]],
  [
    {
      if: { properties: { k: { const: 1 } }, required: ["k"] },
      // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
      then: { required: ["x"] },
      else: { required: ["y"] },
      type: "object",
    },
    ['{"k":1,"x":2}', '{"y":1}', '{"k":2,"y":2}'],
    ['{"k":1,"y":2}', '{"k":2}'],
  ],
  [
    { type: "object", dependentRequired: { a: ["b"] }, additionalProperties: { type: "integer" } },
    ["{}", '{"b":1}', '{"a":1,"b":2}', '{"z":1}', '{"b":2,"z":1}'],
    ['{"a":1}'],
  ],
  [{ type: "integer", not: { enum: [3, 4] } }, ["1", "5", "33"], ["3", "4"]],
  [
    {
      anyOf: [
        { type: "string", maxLength: 1 },
        { type: "integer", minimum: 10 },
      ],
    },
    ['"a"', "10"],
    ['"ab"', "9"],
  ],
  [{ allOf: [{ type: "integer" }, { minimum: 2 }, { maximum: 4 }], not: { const: 3 } }, ["2", "4"], ["1", "3", "5"]],
  [{ type: "string", not: { pattern: "^a" } }, ['"b"', '""'], ['"a"', '"ab"']],
  [{ type: "string", allOf: [{ pattern: "a" }, { pattern: "b" }] }, ['"ab"', '"b a"'], ['"a"', '"b"']],
  [{ oneOf: [{ type: "integer" }, { type: "number", maximum: 2 }] }, ["3", "1.5"], ["2.5"]],
  [
    {
      type: "object",
      dependencies: { a: ["b"], c: { properties: { b: { type: "integer" } } } },
      properties: { a: {}, b: {}, c: {} },
    },
    ['{"a":1,"b":"x"}', '{"b":"x"}', '{"b":1,"c":1}'],
    ['{"a":1}', '{"b":"x","c":1}'],
  ],
]);

test("six hundred alternatives are told apart by what they require", () => {
  const kinds = Array.from({ length: 300 }, (_, i) => ({
    type: "object",
    properties: { kind: { const: `kind ${i}` }, value: { type: "integer" } },
    required: ["kind", "value"],
  }));
  const names = Array.from({ length: 300 }, (_, i) => ({
    type: "object",
    properties: { [`name ${i}`]: { type: "integer" } },
    required: [`name ${i}`],
    additionalProperties: false,
  }));
  const schema = { oneOf: [...kinds, ...names] };
  const read = () => withWorkBudget(() => grammarOf(schema));
  expect(read().rules.length).toBeGreaterThan(600);
});

const CHILD_OR_LEAF = {
  oneOf: [
    { type: "object", properties: { child: { $ref: "#" } }, required: ["child"] },
    { type: "object", properties: { leaf: { type: "integer" } }, required: ["leaf"] },
  ],
};

// Opposites of what objects may hold.
testSchemas([
  [
    { type: "object", not: { additionalProperties: { type: "integer" } } },
    ['{"a":"x"}', '{"a":1,"b":null}'],
    ["{}", '{"a":1}', '{"a":1,"b":2}'],
  ],
  [
    { type: "object", properties: { a: {}, b: {} }, not: { properties: { a: {} }, additionalProperties: false } },
    ['{"b":1}', '{"a":1,"b":1}', '{"c":1}', '{"a":1,"d":[],"c":1}'],
    ["{}", '{"a":1}'],
  ],
  [
    { type: "object", not: { patternProperties: { "^x": { type: "null" } } } },
    ['{"x1":1}', '{"a":1,"x":"b"}', '{"x2":null,"x3":0}'],
    ["{}", '{"a":1}', '{"x1":null}', '{"x1":1,"x1":null}'],
  ],
  [
    { type: "object", not: { propertyNames: { maxLength: 2 } } },
    ['{"abc":1}', '{"a":1,"abc":1,"b":2}'],
    ["{}", '{"a":1}', '{"ab":1,"b":2}'],
  ],
  [
    {
      type: "object",
      oneOf: [
        { properties: { a: {}, b: {} }, additionalProperties: false },
        { properties: { b: {}, c: {} }, additionalProperties: false },
      ],
    },
    ['{"a":1}', '{"c":1}', '{"a":1,"b":2}', '{"b":1,"c":2}'],
    ["{}", '{"b":1}', '{"a":1,"c":2}', '{"d":1}'],
  ],
  [
    { type: "object", not: { dependentRequired: { a: ["b"] } } },
    ['{"a":1}', '{"a":1,"c":1}'],
    ["{}", '{"b":1}', '{"a":1,"b":1}'],
  ],
  [
    { type: "number", oneOf: [{ multipleOf: 3 }, { multipleOf: 5 }] },
    ["3", "-5", "10", "99", "123456"],
    ["15", "0", "1", "2.5", "-30", "123450"],
  ],
  [
    { type: "number", minimum: -4, maximum: 1000, not: { multipleOf: 7 } },
    ["-4", "1", "999", "7.5", "600"],
    ["0", "7", "994", "1001", "700"],
  ],
  [{ not: { const: { a: [1] } } }, ['{"a":[2]}', '{"a":[1],"b":1}', "{}", "1", '{"a":[1,1]}'], ['{"a":[1]}']],
  [
    { type: "integer", not: { oneOf: [{ minimum: 3 }, { maximum: 5 }, { const: 9 }] } },
    ["3", "4", "5", "9"],
    ["2", "6", "10"],
  ],
  [
    // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
    { type: "integer", not: { if: { minimum: 5 }, then: { maximum: 9 }, else: { const: 2 } } },
    ["10", "4", "1"],
    ["5", "9", "2"],
  ],
  [
    CHILD_OR_LEAF,
    ['{"leaf":1}', '{"child":{"leaf":1}}', '{"child":1,"leaf":1}', '{"child":{"leaf":1},"leaf":"a"}'],
    ["{}", '{"leaf":"a"}', '{"child":1}', '{"child":{"leaf":1},"leaf":1}'],
  ],
]);

test("a long way from schema to schema is gone step by step", () => {
  const length = 800;
  const anyOf = [{ maxProperties: 3 }, { maxProperties: 4 }, { maxProperties: 5 }];
  const $defs = Object.fromEntries(
    Array.from({ length }, (_, i) => [
      `d${i}`,
      {
        anyOf,
        properties: { p: { $ref: `#/$defs/d${(i + 1) % length}` } },
        allOf: [{ anyOf: [...anyOf] }],
        type: "object",
        required: ["p"],
        additionalProperties: false,
      },
    ]),
  );
  expect(grammarOf({ $ref: "#/$defs/d0", $defs }).rules.length).toBeGreaterThan(length);
});

// Each of them holds without the others where one of their properties is missing or wrong, and any of the others' too.
const OVERLAPPING = {
  type: "object",
  oneOf: ["a", "b", "c", "d", "e"].map((name) => ({
    properties: { kind: { type: "string" }, [name]: { type: "integer" }, same: { type: "null" } },
    required: ["kind", name],
  })),
};

testSchemas([
  [
    OVERLAPPING,
    ['{"kind":"k","a":1}', '{"kind":"k","a":1,"same":null,"b":"no"}', '{"kind":"k","c":1,"same":null}'],
    ['{"kind":"k"}', '{"kind":"k","a":1,"b":1}', '{"kind":"k","b":1,"same":1}', '{"a":1}'],
  ],
]);

test("ways to hold that ask for more than another one are left out", () => {
  expect(grammarOf(OVERLAPPING).rules.length).toBeLessThan(300);
});
