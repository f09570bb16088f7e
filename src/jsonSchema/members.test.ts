import { testSchemas } from "../../test/grammar/schemaCases.js";

testSchemas([
  [
    { type: "object", properties: { a: { type: "integer" }, b: { type: "string" } }, required: ["a"] },
    ['{"a":1}', '{"a":1,"b":"x"}', '{"a": 1, "b": "x", "c": [1]}', '{"a":1,"c":null}'],
    ['{"b":"x","a":1}', '{"b":"x"}', '{"a":1.5}', '{"a":1,"a":2}', '{"a":1,"b":3}', '{"a":1,"\\u0061":2}'],
  ],
  [
    {
      type: "object",
      properties: { a: { type: "integer" }, b: { type: "string" } },
      required: ["a"],
      "x-property-order": "any",
    },
    ['{"a":1}', '{"b":"x","a":1}', '{"c":1,"b":"x","d":2,"a":1,"e":3}'],
    ['{"b":"x"}', '{"a":1,"a":2}', "{}"],
  ],
  [
    {
      type: "object",
      patternProperties: { "^x": { type: "integer" }, y$: { type: "integer", minimum: 5 } },
      additionalProperties: { type: "null" },
    },
    ['{"xa":1}', '{"ay":5}', '{"xy":6}', '{"q":null}'],
    ['{"xy":1}', '{"xa":null}', '{"q":1}'],
  ],
  [
    { type: "object", propertyNames: { pattern: "^[a-z]+$" }, properties: { A: {}, b: {} } },
    ['{"b":1}', '{"abc":1}'],
    ['{"A":1}', '{"X":1}'],
  ],
  [{ type: "object", minProperties: 1 }, ['{"a":1}'], ["{}"]],
  [
    {
      type: "object",
      properties: { a: {}, b: {}, c: {} },
      additionalProperties: false,
      minProperties: 2,
      maxProperties: 2,
    },
    ['{"a":1,"b":2}', '{"b":1,"c":2}'],
    ['{"a":1}', '{"a":1,"b":1,"c":1}', "{}"],
  ],
  [
    { type: "object", required: ["b"], additionalProperties: { type: "integer" } },
    ['{"z":1,"b":2}', '{"b":1}', '{"b":1,"z":2}'],
    ['{"z":1}', '{"b":1,"b":2}', '{"b":null}'],
  ],
  [
    { type: "object", required: ["b"], properties: { a: {} } },
    ['{"a":1,"z":1,"b":2}', '{"b":1}'],
    ['{"b":1,"a":1}', '{"a":1}'],
  ],
  [{ type: "object", maxProperties: 1 }, ["{}", '{"a":1}'], ['{"a":1,"b":2}']],
  [
    { type: "object", properties: { a: {}, b: {} }, required: ["b"], minProperties: 2 },
    ['{"a":1,"b":2}', '{"b":1,"z":1}'],
    ['{"b":1}', '{"a":1}'],
  ],
  [
    {
      type: ["object", "null"],
      nullable: true,
      properties: { a: { type: "string", nullable: true } },
      additionalProperties: false,
    },
    ["null", '{"a":null}', '{"a":"x"}'],
    ['{"a":1}'],
  ],
  [{ type: "object", properties: { a: true, b: false } }, ['{"a":1}', '{"c":1}'], ['{"b":1}']],
  [
    { type: "object", properties: { 'a"b': { type: "null" } }, additionalProperties: false },
    ['{"a\\"b":null}'],
    ['{"a":null}'],
  ],
  [
    {
      type: "object",
      properties: { k: { type: "string" } },
      patternProperties: { "^k": { maxLength: 2 } },
      additionalProperties: false,
    },
    ['{"k":"ab"}', '{"kx":"ab"}', '{"k":"a","kk":1}'],
    ['{"k":"abc"}', '{"x":1}'],
  ],
]);
