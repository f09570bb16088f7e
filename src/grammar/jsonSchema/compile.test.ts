import { expect, test } from "vitest";
import { matches } from "../../../test/grammar/irMatcher.js";
import { compiled, drawn, takes } from "../../../test/grammar/nativeMatcher.js";
import { random } from "../../../test/grammar/random.js";
import { GrammarError } from "../grammarError.js";
import { EMPTY, type Expr, type Grammar } from "../ir.js";
import { DEFAULT_SPACE, JsonRules } from "../jsonValues.js";
import { RuleBook } from "../ruleBook.js";
import { jsonSchemaToExpr } from "./compile.js";

function grammarOf(schema: unknown, space: Expr = DEFAULT_SPACE, closed = false): Grammar {
  const rules = new RuleBook();
  return rules.finish(jsonSchemaToExpr(new JsonRules(rules, space), schema, { closed }));
}

/** A schema, texts it allows, and texts it does not: read off the keywords' definitions in draft 2020-12. */
const CASES: [schema: unknown, good: string[], bad: string[]][] = [
  [
    true,
    ["1", '{"a":[1,2,{}]}', '"x\\u00e9\\n"', "-1.5e3", "[ ]", "{ }", '{\n  "a": 1\n}'],
    ["", "01", '{"a"}', '"\\ud800"', "[1,]", "[  ]"],
  ],
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
    { type: "integer", minimum: -3, maximum: 120 },
    ["-3", "0", "-0", "7", "7.0", "99", "120", "1.2e2"],
    ["-4", "121", "7.5", "1200", "07", "1.21e2"],
  ],
  [{ type: "integer", exclusiveMinimum: 2.5 }, ["3", "10", "99999999999999999999"], ["2", "-3", "0"]],
  [{ type: "integer", multipleOf: 7, minimum: 10 }, ["14", "70", "105", "7000"], ["7", "15", "0", "-14"]],
  [
    { type: "number", minimum: 0, exclusiveMaximum: 1.5 },
    ["0", "0.0", "-0.0", "1", "1.49999", "1e0", "1.4e0", "5e-3", "1.05e-7"],
    ["1.5", "1.50", "2", "-1", "-0.1", "1.5e0", "1e1", "15e-2"],
  ],
  [
    { type: "number", exclusiveMinimum: -2.25 },
    ["-2.2", "0", "-2.2499", "5e10", "-1e0", "-0"],
    ["-2.25", "-2.250", "-3", "-2.3e0", "-1e1"],
  ],
  [{ type: "number", multipleOf: 0.01 }, ["1.25", "3", "-0.5", "1.250", "1e-2"], ["1.255", "1e-3"]],
  [
    { type: "number", multipleOf: 2.5, minimum: 0 },
    ["0", "-0", "2.5", "5", "5.00", "12.50", "100", "1002.5"],
    ["2", "-2.5", "0.5", "12.51", "3.5"],
  ],
  [{ type: "number", multipleOf: 0.25, minimum: -1, maximum: 1 }, ["-0.75", "1", "1.0", "2.5e-1"], ["0.3", "1.25"]],
  [{ type: "integer" }, ["0", "-0", "1.0", "-12.00", "1e+21", "1.5E1", "1e308"], ["1.5", "1.25e1", "1e-1", ".5"]],
  [{ $schema: "http://json-schema.org/draft-04/schema#", type: "integer" }, ["1", "-0"], ["1.0", "1e1"]],
  [{ type: "number", not: { type: "integer" } }, ["1.5", "1e-7", "-1.25e1"], ["1", "1.0", "1.5e1", "1.50e1", "1e0"]],
  [{ const: 120 }, ["120", "120.0", "1.2e2", "1.20e+02"], ["12", "120.1", "1.2e1"]],
  [{ const: 1e-7 }, ["1e-7", "1e-07", "0.0000001"], ["1e-8", "0"]],
  [
    { enum: ["a", 1, null, { x: [1] }, "é\n"] },
    ['"a"', "1", "null", '{"x":[1]}', '{"x": [1]}', '"é\\n"', '"\\u00e9\\u000a"'],
    ['"b"', "2", '{"x":[]}', '{"x":[1],"y":1}'],
  ],
  [{ type: "string", pattern: "^a+b?$", minLength: 3 }, ['"aab"', '"aaa"'], ['"ab"', '"aac"', '"aabb"']],
  [{ type: "string", pattern: "b" }, ['"abc"', '"b"', '"\\n b"'], ['"ac"']],
  [
    { type: "string", minLength: 2, maxLength: 3 },
    ['"ab"', '"é😀"', '"\\u00e9\\ud83d\\ude00c"'],
    ['"a"', '"abcd"', '"\\ud83d\\ude00"'],
  ],
  [
    { type: "string", format: "date" },
    ['"2024-02-29"', '"2023-12-31"', '"2000-02-29"'],
    ['"2023-02-29"', '"1900-02-29"', '"2024-13-01"', '"2024-04-31"'],
  ],
  [
    { format: "date-time", type: "string" },
    ['"1998-12-31T15:59:60.123-08:00"', '"2024-01-01T00:00:00Z"', '"1990-12-31T23:59:60Z"'],
    ['"1990-12-31T23:58:60Z"', '"2024-01-01 00:00:00Z"', '"2024-01-01T24:00:00Z"'],
  ],
  [
    { format: "ipv6", type: "string" },
    [
      '"::1"',
      '"::"',
      '"1:2:3:4:5:6:7:8"',
      '"fe80::1"',
      '"::ffff:1.2.3.4"',
      '"1::8"',
      '"1:2:3:4:5:6:7::"',
      '"::2:3:4:5:6:7:8"',
      '"1:2:3:4:5:6:1.2.3.4"',
    ],
    ['"1::2::3"', '"1:2:3:4:5:6:7:8:9"', '":1"', '"12345::"', '"1:2:3:4:5:6:7::8:9"', '"1:2:3:4::5:6:7:8:9"'],
  ],
  [
    { format: "hostname", type: "string" },
    ['"a.b-c.de"', '"localhost"'],
    ['"-a"', '"a-"', '"a..b"', '"ab--c"', '"x.ab--c"', `"${"a".repeat(64)}"`],
  ],
  [
    { format: "email", type: "string" },
    ['"joe.bloggs@example.com"', '"\\"joe bloggs\\"@example.com"', '"joe@[127.0.0.1]"'],
    ['".test@e.com"', '"te..st@e.com"', '"2962"', '"a@[127.0.0.300]"'],
  ],
  [
    { format: "uri", type: "string" },
    [
      '"http://foo.bar/?baz=qux#quux"',
      '"urn:oasis:names"',
      '"mailto:a@b.c"',
      '"ldap://[2001:db8::7]/c=GB?objectClass?one"',
    ],
    ['"//foo"', '"/abs"', '"http:// x"', '"bar,baz:foo"', '"abc"'],
  ],
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
  [
    {
      $defs: {
        n: {
          type: "object",
          properties: { v: { type: "integer" }, next: { anyOf: [{ $ref: "#/$defs/n" }, { type: "null" }] } },
          required: ["v", "next"],
          additionalProperties: false,
        },
      },
      $ref: "#/$defs/n",
    },
    ['{"v":1,"next":null}', '{"v":1,"next":{"v":2,"next":null}}'],
    ['{"v":1}', '{"v":1,"next":1}'],
  ],
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
    { type: "object", oneOf: [{ required: ["a"] }, { required: ["b"] }] },
    ['{"a":1}', '{"b":1,"c":2}'],
    ['{"a":1,"b":2}', '{"c":1}'],
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
  [{ type: ["string", "null"], enum: ["a", null, 3] }, ['"a"', "null"], ["3"]],
  [
    { type: "object", dependentRequired: { a: ["b"] }, additionalProperties: { type: "integer" } },
    ["{}", '{"b":1}', '{"a":1,"b":2}', '{"z":1}', '{"b":2,"z":1}'],
    ['{"a":1}'],
  ],
  [
    { type: "object", properties: { foo: { $ref: "#" } }, additionalProperties: false },
    ["{}", '{"foo":{"foo":{}}}'],
    ['{"bar":{}}', '{"foo":{"bar":1}}'],
  ],
  [{ type: "integer", not: { enum: [3, 4] } }, ["1", "5", "33"], ["3", "4"]],
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
  [{ type: "array", items: false }, ["[]"], ["[1]"]],
  [{ type: "array", prefixItems: [true, true], items: false }, ["[]", "[1]", "[1,2]"], ["[1,2,3]"]],
  [
    { type: "array", items: [{ type: "integer" }], additionalItems: { type: "string" } },
    ["[]", "[1]", '[1,"a"]'],
    ['["a"]', "[1,2]"],
  ],
  [{ type: "integer", minimum: 1, exclusiveMinimum: true, maximum: 3, exclusiveMaximum: true }, ["2"], ["1", "3"]],
  [{ type: "integer", minimum: 0.5, maximum: 1e20 }, ["1", "100000000000000000000"], ["0", "100000000000000000001"]],
  [
    { type: "number", minimum: -1e-7, maximum: 1e21 },
    ["-0.0000001", "-1e-7", "1e21", "1e+21", "1000000000000000000000"],
    ["-0.00000011", "-2e-7", "1.1e21", "1e22"],
  ],
  [{ type: "number", const: 0.1 }, ["0.1"], ["0.2", "1"]],
  [{ const: { a: [1, { b: null }] } }, ['{"a":[1,{"b":null}]}', '{"a": [1, {"b": null}]}'], ["{}", '{"a":[1,{}]}']],
  [{ const: false }, ["false"], ["0", "null"]],
  [{ type: "string", const: 'a"b\\' }, ['"a\\"b\\\\"'], ['"ab"']],
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
  [{ type: "string", enum: ["abc", "ab", "x"], minLength: 2, pattern: "^a" }, ['"abc"', '"ab"'], ['"x"', '"a"']],
  [{ $ref: "#/definitions/a%25b~1c", definitions: { "a%b/c": { type: "null" } } }, ["null"], ["1"]],
  [
    {
      $id: "http://x.y/root.json",
      $ref: "item.json",
      $defs: {
        i: {
          $id: "item.json",
          type: "array",
          items: { $ref: "#/$defs/e" },
          $defs: { e: { $anchor: "e", type: "integer" } },
        },
        z: { $ref: "item.json#e" },
      },
    },
    ["[1]"],
    ['["a"]', "1"],
  ],
  [
    {
      $schema: "http://json-schema.org/draft-07/schema#",
      definitions: { a: { type: "string" } },
      properties: { p: { $ref: "#/definitions/a", maxLength: 1 } },
      type: "object",
    },
    ['{"p":"abc"}'],
    ['{"p":1}'],
  ],
  [
    { $defs: { a: { type: "string" } }, properties: { p: { $ref: "#/$defs/a", maxLength: 1 } }, type: "object" },
    ['{"p":"a"}'],
    ['{"p":"abc"}'],
  ],
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
  [
    { type: "string", format: "uuid" },
    ['"2EB8AA08-AA98-11EA-B4AA-73B441D16380"'],
    ['"2eb8aa08-aa98-11ea-b4aa-73b441d1638"', '"2eb8aa08aa9811eab4aa73b441d16380"'],
  ],
  [{ type: "string", format: "ipv4" }, ['"192.168.0.1"', '"0.0.0.0"'], ['"256.0.0.1"', '"01.2.3.4"', '"1.2.3"']],
  [
    { type: "string", format: "time" },
    ['"08:30:06Z"', '"23:59:60Z"', '"08:30:06.283185+00:20"', '"00:29:60-23:30"'],
    ['"08:30:06"', '"22:59:60Z"', '"24:00:00Z"'],
  ],
  [{ type: "string", format: "duration" }, ['"P4DT12H30M5S"', '"P4W"', '"PT1M"'], ['"P"', '"PT"', '"P1D2H"', '"P2S"']],
  [{ type: "string", format: "json-pointer" }, ['""', '"/a~1b/0"'], ['"a"', '"/~2"']],
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
  [
    {
      $dynamicAnchor: "node",
      type: "object",
      properties: { next: { $dynamicRef: "#node" } },
      additionalProperties: false,
    },
    ["{}", '{"next":{"next":{}}}'],
    ['{"next":1}', '{"next":{"x":1}}'],
  ],
  [{ type: "integer", format: "int8" }, ["-128", "127"], ["128", "-129", "1.5"]],
  [{ type: "string", format: "byte" }, ['""', '"YQ=="', '"YWJj"'], ['"YQ="', '"a"']],
  [
    { type: "string", format: "uuid4" },
    ['"2eb8aa08-aa98-41ea-b4aa-73b441d16380"'],
    ['"2eb8aa08-aa98-11ea-b4aa-73b441d16380"'],
  ],
  [{ type: "string", format: "iri" }, ['"http://ƒøø.ßår/?∂éœ=πîx#πîüx"', '"a:"'], ['"âππ"', '"http://a b"']],
  [{ type: "string", format: "uri-template" }, ['"/x/{+a,b:3}{?q*}"', '""'], ['"{"', '"{a,}"', '"a b"']],
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
];

test.each(CASES)("%j", async (schema, good, bad) => {
  const grammar = grammarOf(schema);
  const native = await compiled(grammar);
  for (const text of good) expect([text, matches(grammar, text), takes(native, text)]).toEqual([text, true, true]);
  for (const text of bad) expect([text, matches(grammar, text), takes(native, text)]).toEqual([text, false, false]);
});

test.each<[schema: unknown, path: string[], message: string]>([
  [{ properties: { a: { uniqueItems: true } } }, ["properties", "a", "uniqueItems"], "a few known values"],
  [{ items: { enum: Array.from({ length: 31 }, (_, i) => i) }, uniqueItems: true }, ["uniqueItems"], "30 different"],
  [{ items: { enum: Array.from({ length: 20 }, (_, i) => i) }, uniqueItems: true }, ["uniqueItems"], "combinations"],
  [{ contains: {}, minContains: 5000 }, ["contains"], "combinations"],
  [{ $schema: "https://example.com/own" }, ["$schema"], "known dialect"],
  [{ properties: { a: { required: true } } }, ["properties", "a", "required"], "list of strings"],
  [{ $ref: "#/nowhere" }, ["$ref"], "not found"],
  [{ $ref: "http://json-schema.org/draft-07/schema#" }, ["$ref"], "not found"],
  [{ $ref: "#" }, [], "refers to itself"],
  [{ anyOf: [{ type: "string" }, { $ref: "#" }] }, [], "refers to itself"],
  [{ type: "text" }, ["type"], "one of"],
  [{ type: "string", format: "color" }, ["format"], "cannot be enforced"],
  [{ type: "string", pattern: "a(?=b)" }, ["pattern"], "look-ahead"],
  [{ type: "integer", multipleOf: 4096 }, ["multipleOf"], "close bounds"],
  [{ type: "integer", multipleOf: 0 }, ["multipleOf"], "more than 0"],
  [{ minLength: -1 }, ["minLength"], "at least 0"],
  [{ minimum: "1" }, ["minimum"], "number"],
  [{ properties: [] }, ["properties"], "object"],
  [{ properties: { a: 1 } }, ["properties", "a"], "schema"],
  [{ type: "object", minProperties: 2 }, ["minProperties"], "cannot be enforced"],
  [{ not: { additionalProperties: { type: "null" } } }, ["not", "additionalProperties"], "inside not"],
  [{ oneOf: [{ type: "object" }, { propertyNames: { maxLength: 1 } }] }, ["oneOf"], "alternatives 0 and 1"],
  [{ patternProperties: { "(": {} } }, ["patternProperties", "("], "missing"],
  [
    { properties: Object.fromEntries(Array.from({ length: 13 }, (_, i) => [`p${i}`, {}])), "x-property-order": "any" },
    ["x-property-order"],
    "more than 12",
  ],
  [
    { allOf: Array.from({ length: 12 }, () => ({ anyOf: [{ minimum: 1 }, { maximum: 3 }] })) },
    ["allOf", "10"],
    "combinations",
  ],
])("%j is refused at %j", (schema, path, message) => {
  expect(() => grammarOf(schema)).toThrow(expect.objectContaining({ path, message: expect.stringContaining(message) }));
});

test("white space and other properties are as the request says", () => {
  const schema = { type: "object", properties: { a: { type: "array", items: { type: "integer" } } } };
  const compact = grammarOf(schema, EMPTY);
  expect(matches(compact, '{"a":[1,2],"b":{}}')).toBe(true);
  expect(matches(compact, '{"a": [1,2]}')).toBe(false);
  const closed = grammarOf(schema, DEFAULT_SPACE, true);
  expect(matches(closed, '{"a":[1]}')).toBe(true);
  expect(matches(closed, '{"a":[1],"b":1}')).toBe(false);
  const loose = grammarOf(schema);
  for (const text of ['{"a":[1, 2]}', '{\n  "a": [\n    1,\n    2\n  ]\n}', '{ "a" : [ 1 , 2 ] }']) {
    expect([text, matches(loose, text)]).toEqual([text, true]);
  }
  for (const text of ['{"a":  [1]}', '{"a":\t[1]}', ' {"a":[1]}', '{"a":[1]}\n', `{"a":\n${" ".repeat(65)}[1]}`]) {
    expect([text, matches(loose, text)]).toEqual([text, false]);
  }
});

// Random schemas, judged by a validator written for this test alone.

type Json = null | boolean | number | string | Json[] | { [key: string]: Json };
type Schema = Record<string, unknown>;

const isMap = (value: Json): value is { [key: string]: Json } =>
  typeof value === "object" && value !== null && !Array.isArray(value);

function isValid(schema: unknown, value: Json): boolean {
  if (typeof schema === "boolean") return schema;
  const s = schema as Schema;
  const type = value === null ? "null" : Array.isArray(value) ? "array" : typeof value;
  const types = s.type === undefined ? null : [s.type].flat();
  if (types && !types.includes(type) && !(types.includes("integer") && Number.isInteger(value))) return false;
  const same = (a: unknown, b: unknown) => JSON.stringify(a) === JSON.stringify(b);
  if (s.enum && !(s.enum as unknown[]).some((one) => same(one, value))) return false;
  if ("const" in s && !same(s.const, value)) return false;
  if (s.anyOf && !(s.anyOf as unknown[]).some((one) => isValid(one, value))) return false;
  if (s.allOf && !(s.allOf as unknown[]).every((one) => isValid(one, value))) return false;
  if (s.oneOf && (s.oneOf as unknown[]).filter((one) => isValid(one, value)).length !== 1) return false;
  if (s.not !== undefined && isValid(s.not, value)) return false;
  const limit = (key: string) => s[key] as number | undefined;
  if (typeof value === "number") {
    if (value < (limit("minimum") ?? -Infinity) || value > (limit("maximum") ?? Infinity)) return false;
    if (value <= (limit("exclusiveMinimum") ?? -Infinity)) return false;
    if (s.multipleOf && value % (s.multipleOf as number) !== 0) return false;
  }
  if (typeof value === "string") {
    const { length } = [...value];
    if (length < (limit("minLength") ?? 0) || length > (limit("maxLength") ?? Infinity)) return false;
    if (s.pattern && !new RegExp(s.pattern as string, "u").test(value)) return false;
  }
  if (Array.isArray(value)) {
    if (value.length < (limit("minItems") ?? 0) || value.length > (limit("maxItems") ?? Infinity)) return false;
    const prefix = (s.prefixItems as unknown[]) ?? [];
    if (!value.every((item, i) => isValid(prefix[i] ?? s.items ?? true, item))) return false;
  }
  if (isMap(value)) {
    const { length } = Object.keys(value);
    if (length < (limit("minProperties") ?? 0) || length > (limit("maxProperties") ?? Infinity)) return false;
    if (!((s.required as string[]) ?? []).every((name) => Object.hasOwn(value, name))) return false;
    const properties = (s.properties as Schema) ?? {};
    const patterns = Object.entries((s.patternProperties as Schema) ?? {});
    for (const [name, member] of Object.entries(value)) {
      const wanted = patterns.filter(([pattern]) => new RegExp(pattern, "u").test(name)).map(([, one]) => one);
      if (name in properties) wanted.push(properties[name]);
      if (wanted.length === 0) wanted.push(s.additionalProperties ?? true);
      if (!wanted.every((one) => isValid(one, member))) return false;
    }
  }
  return true;
}

class Maker {
  constructor(private readonly next: () => number) {}

  private int(below: number): number {
    return Math.floor(this.next() * below);
  }

  private pick<T>(list: readonly T[]): T {
    return list[this.int(list.length)]!;
  }

  private maybe(fields: Schema): Schema {
    return this.next() < 0.4 ? fields : {};
  }

  value(depth: number): Json {
    const kind = this.int(depth > 0 ? 8 : 6);
    if (kind === 0) return this.pick([null, true, false]);
    if (kind < 3) return this.pick([0, 1, 2, 3, 5, 10, -1, -7, 0.5, 2.5, 12]);
    if (kind < 6) return this.pick(["", "a", "b", "ab", "aab", "é", "x1", "\n", '"', "long text"]);
    if (kind === 6) return Array.from({ length: this.int(4) }, () => this.value(depth - 1));
    const names = ["a", "b", "c", "x1", "zz"].filter(() => this.next() < 0.4);
    return Object.fromEntries(names.map((name) => [name, this.value(depth - 1)]));
  }

  schema(depth: number): unknown {
    const inner = () => this.schema(depth - 1);
    const kind = this.int(depth > 0 ? 12 : 6);
    switch (kind) {
      case 0:
        return this.pick<unknown>([
          true,
          {},
          { type: "null" },
          { type: ["integer", "string"] },
          { const: this.value(1) },
        ]);
      case 1:
        return { enum: [this.value(1), this.value(1), this.value(0)] };
      case 2:
        return {
          type: "integer",
          ...this.maybe({ minimum: this.int(4) - 2 }),
          ...this.maybe({ maximum: this.int(12) }),
          ...this.maybe({ multipleOf: this.pick([2, 3, 5]) }),
        };
      case 3:
        return {
          type: "number",
          ...this.maybe({ exclusiveMinimum: this.pick([-1, 0, 0.5, 2.5]) }),
          ...this.maybe({ maximum: this.pick([1, 2.5, 10]) }),
        };
      case 4:
      case 5:
        return {
          type: "string",
          ...this.maybe({ minLength: this.int(3) }),
          ...this.maybe({ maxLength: this.int(4) }),
          ...this.maybe({ pattern: this.pick(["^a", "b$", "^[a-c]+$", "\\d", "."]) }),
        };
      case 6:
        return {
          type: "array",
          items: inner(),
          ...this.maybe({ minItems: this.int(3) }),
          ...this.maybe({ maxItems: this.int(4) }),
          ...this.maybe({ prefixItems: [inner(), inner()] }),
        };
      case 7:
        return { [this.pick(["anyOf", "allOf", "oneOf"])]: [inner(), inner()] };
      case 8:
        return { ...(inner() as Schema), not: inner() };
      default: {
        const names = ["a", "b", "c"].filter(() => this.next() < 0.6);
        return {
          type: "object",
          properties: Object.fromEntries(names.map((name) => [name, inner()])),
          ...this.maybe({ required: ["a", "b", "zz"].filter(() => this.next() < 0.5) }),
          ...this.maybe({ additionalProperties: this.next() < 0.5 ? false : inner() }),
          ...this.maybe({ patternProperties: { "^x": inner() } }),
          ...this.maybe({ minProperties: 1 }),
          ...this.maybe({ maxProperties: this.int(4) }),
          "x-property-order": "any",
        };
      }
    }
  }
}

test.each([1, 2, 3, 4, 5, 6])("random schemas and values, seed %i", async (seed) => {
  const next = random(seed);
  const make = new Maker(next);
  const seen = { accepted: 0, rejected: 0, refused: 0, empty: 0, drawn: 0 };
  for (let i = 0; i < 60; i++) {
    const schema = make.schema(3);
    let grammar: Grammar;
    try {
      grammar = grammarOf(schema);
    } catch (error) {
      if (!(error instanceof GrammarError)) throw error;
      seen.refused++;
      continue;
    }
    const values = Array.from({ length: 25 }, () => make.value(3));
    const native = await compiled(grammar).catch((error: { code: string }) => {
      expect(error.code).toBe("grammar_empty");
      return null;
    });
    if (native === null) {
      seen.empty++;
      for (const value of values) expect([schema, value, isValid(schema, value)]).toEqual([schema, value, false]);
      continue;
    }
    for (const value of values) {
      const wanted = isValid(schema, value);
      const text = JSON.stringify(value);
      expect([JSON.stringify(schema), text, takes(native, text)]).toEqual([JSON.stringify(schema), text, wanted]);
      if (wanted) seen.accepted++;
      else seen.rejected++;
    }
    for (let j = 0; j < 3; j++) {
      const text = drawn(native, next, 400);
      // JavaScript reads longer numbers as others.
      if (text === null || /\d{16}/.test(text)) continue;
      seen.drawn++;
      expect([JSON.stringify(schema), text, isValid(schema, JSON.parse(text) as Json)]).toEqual([
        JSON.stringify(schema),
        text,
        true,
      ]);
    }
  }
  for (const [what, count] of Object.entries({ accepted: 100, rejected: 300, drawn: 30 })) {
    expect([what, seen[what as "drawn"]! > count, seen]).toEqual([what, true, seen]);
  }
});
