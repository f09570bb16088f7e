import { testSchemas } from "../../test/grammar/schemaCases.js";

testSchemas([
  [
    {
      type: "object",
      properties: { a: { type: "integer" } },
      anyOf: [{ properties: { b: { type: "string" } } }, { properties: { c: { type: "null" } } }],
      unevaluatedProperties: false,
    },
    ["{}", '{"a":1}', '{"a":1,"b":"x"}', '{"a":1,"c":null}', '{"b":"x","c":null}'],
    ['{"d":1}', '{"b":1,"d":1}', '{"b":1,"c":1}'],
  ],
  [
    {
      type: "object",
      $ref: "#/$defs/base",
      properties: { b: {} },
      unevaluatedProperties: false,
      $defs: { base: { properties: { a: {} } } },
    },
    ['{"a":1,"b":2}'],
    ['{"a":1,"c":2}'],
  ],
  [
    { type: "object", not: { properties: { a: { const: 1 } }, required: ["a"] }, unevaluatedProperties: false },
    ["{}"],
    ['{"a":1}', '{"a":2}'],
  ],
  [
    { type: "array", prefixItems: [true], contains: { type: "string" }, unevaluatedItems: { type: "integer" } },
    ['["a"]', '[null,"a",1]'],
    ["[1]", '[1,"a",null]'],
  ],
]);
