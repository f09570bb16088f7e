import { testSchemas } from "../../test/grammar/schemaCases.js";

testSchemas([
  [
    {
      type: "array",
      prefixItems: [{ type: "integer" }, { type: "string" }],
      items: { type: "null" },
      minItems: 1,
      maxItems: 3,
    },
    ["[1]", '[1,"a"]', '[1, "a", null]'],
    ["[]", '["a"]', '[1,"a",1]', '[1,"a",null,null]'],
  ],
  [{ items: { type: "integer" }, minItems: 2, type: "array" }, ["[1,2]", "[1, 2, 3]"], ["[1]", '["a",2]']],
  [{ type: "array", items: false }, ["[]"], ["[1]"]],
  [{ type: "array", prefixItems: [true, true], items: false }, ["[]", "[1]", "[1,2]"], ["[1,2,3]"]],
  [
    { type: "array", items: [{ type: "integer" }], additionalItems: { type: "string" } },
    ["[]", "[1]", '[1,"a"]'],
    ['["a"]', "[1,2]"],
  ],
  [
    {
      oneOf: [
        { contains: { const: 1 }, maxContains: 1 },
        { type: "array", maxItems: 2 },
      ],
    },
    ["[]", "[2,2]", "[1,1]", "[1,2,3]", "1"],
    ["[1]", "[1,2]", "[1,1,1]", "[2,3,4]"],
  ],
  [
    {
      $defs: { once: { type: "array", contains: { const: 0 }, maxContains: 1 } },
      type: "object",
      properties: { a: { $ref: "#/$defs/once" }, b: { not: { $ref: "#/$defs/once" } } },
    },
    ['{"a":[0,1],"b":[0,0]}', '{"b":[1]}', '{"b":0}'],
    ['{"a":[0,0]}', '{"a":[]}', '{"b":[0]}', '{"a":[0],"b":[0,1]}'],
  ],
  [
    { contains: { contains: { type: "boolean" }, minContains: 0, maxContains: 0 }, maxContains: 2 },
    ["[0,[]]", "[0,[],[true]]", "{}"],
    ["[]", "[0,[],[0]]", "[[true]]"],
  ],
  [
    // biome-ignore lint/suspicious/noThenProperty: a keyword of JSON Schema
    { if: { contains: { type: "boolean" }, maxContains: 1 }, then: { maxItems: 2 }, else: { minItems: 4 } },
    ["[true,0]", "[true]", "[0,1,2,3]", "[true,true,0,0]", "{}"],
    ["[true,0,0]", "[]", "[true,true]"],
  ],
  [{ contains: { type: "null" } }, ["[null]", "[1,null,2]", "1"], ["[]", "[1]"]],
  [
    {
      type: "array",
      contains: { minimum: 5, type: "integer" },
      minContains: 2,
      maxContains: 3,
      items: { type: "integer" },
    },
    ["[5,6]", "[1,5,2,6,7]"],
    ["[5]", "[5,5,5,5]", '[5,5,"a"]', "[1,2]"],
  ],
  [
    { type: "array", contains: { const: 1 }, minContains: 0, maxContains: 1, maxItems: 3 },
    ["[]", "[1]", "[2,1.0,3]"],
    ["[1,1]", "[2,2,2,2]"],
  ],
  [{ type: "array", not: { items: { type: "null" } } }, ["[1]", "[null,1]"], ["[]", "[null]"]],
  [{ type: "array", not: { prefixItems: [{ const: 1 }] } }, ["[2]", "[2,1]"], ["[]", "[1]", "[1,2]"]],
  [
    { type: "array", oneOf: [{ items: { type: "string" } }, { items: { type: "integer" } }] },
    ["[1]", '["a","b"]'],
    ["[]", '["a",1]', "[null]"],
  ],
  [
    { type: "array", items: { enum: ["a", "b", 1] }, uniqueItems: true },
    ["[]", '["b","a"]', '["a",1,"b"]'],
    ['["a","a"]', "[1,1.0]", '["\\u0061","c"]'],
  ],
  [
    { type: "array", items: { type: "boolean" }, uniqueItems: true, minItems: 2 },
    ["[true,false]"],
    ["[true,true]", "[]"],
  ],
  [
    { type: "array", prefixItems: [{ type: "string" }, { type: "boolean" }], items: false, uniqueItems: true },
    ['["a",true]', "[]"],
    ["[true,true]", '["a","a"]'],
  ],
]);
