import { expect, test } from "vitest";
import { compiled, takes } from "../../test/grammar/nativeMatcher.js";
import { grammarOf, testSchemas } from "../../test/grammar/schemaCases.js";
import { DEFAULT_SPACE } from "./jsonValues.js";

testSchemas([
  [
    { type: "object", properties: { a: { type: "integer" }, b: { type: "string" } }, required: ["a"] },
    ['{"a":1}', '{"a":1,"b":"x"}', '{"a": 1, "b": "x", "c": [1]}', '{"a":1,"c":null}'],
    ['{"b":"x","a":1}', '{"b":"x"}', '{"a":1.5}', '{"a":1,"a":2}', '{"a":1,"b":3}', '{"a":1,"\\u0061":2}'],
  ],
  [
    { type: "object", properties: { a: {}, b: {}, c: {} }, required: ["b"] },
    ['{"b":1,"x":2,"c":3}', '{"a":0,"b":1,"x":2,"y":3,"c":4,"z":5}', '{"b":1,"x":2}'],
    ['{"x":0,"b":1}', '{"a":0,"x":1,"b":2}', '{"b":1,"x":2,"a":3}', '{"b":1,"c":2,"x":3,"b":4}'],
  ],
  [
    { type: "object", properties: { a: {}, b: {}, c: {} }, minProperties: 1, maxProperties: 3 },
    ['{"x":0,"b":1}', '{"a":0,"x":1,"c":2}', '{"x":0,"y":1,"c":2}', '{"x":0,"y":1}'],
    ['{"x":0,"b":1,"a":2}', '{"a":0,"x":1,"b":2,"c":3}', "{}"],
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

// Patterns that no name matches together are no combination.
testSchemas([
  [
    {
      type: "object",
      patternProperties: {
        ...Object.fromEntries(
          ["^alpha", "^beta$", "^(gamma|delta)$", "^be:", "^bet$"].map((one, i) => [one, { const: i }]),
        ),
        "^schema ": { type: "string" },
        "^table ": { type: "null" },
        x$: { enum: [0, 3, "s"] },
        "^é": { type: "boolean" },
      },
      additionalProperties: false,
    },
    [
      '{"alpha":0}',
      '{"alphax":0}',
      '{"beta":1}',
      '{"delta":2}',
      '{"be:x":3}',
      '{"bet":4}',
      '{"schema x":"s"}',
      '{"schema y":"any"}',
      '{"table y":null}',
      '{"x":3,"ax":"s"}',
      '{"éa":true}',
    ],
    [
      '{"alpha":1}',
      '{"be:x":0}',
      '{"beta":4}',
      '{"betas":1}',
      '{"schema x":"t"}',
      '{"table x":null}',
      '{"alp":0}',
      '{"éx":true}',
      '{"éx":3}',
    ],
  ],
]);

const MANY = Object.fromEntries(Array.from({ length: 20 }, (_, i) => [`p${i}`, { type: "integer" }]));

// With any_order.
testSchemas(
  [
    [
      {
        type: "object",
        properties: { a: {}, b: { type: "null" }, c: {} },
        required: ["c"],
        additionalProperties: false,
      },
      ['{"c":1}', '{"c":1,"b":null}', '{"b":null,"a":2,"c":3}', '{"a":2,"c":3,"b":null}'],
      ["{}", '{"a":1}', '{"c":1,"c":2}', '{"c":1,"b":1}', '{"c":1,"d":1}'],
    ],
    [
      { type: "object", properties: { a: {}, b: {} }, "x-property-order": "declared", additionalProperties: false },
      ['{"a":1,"b":2}'],
      ['{"b":1,"a":2}'],
    ],
    [
      { type: "object", properties: MANY, required: ["p3", "p17"], additionalProperties: false },
      ['{"p17":1,"p3":2}', '{"p19":1,"p17":1,"p0":3,"p3":2,"p1":1}', '{"p5":1,"p3":1,"p5":2,"p17":1}'],
      ['{"p3":1}', '{"p3":1,"p17":1,"p3":1}', '{"p3":1,"p17":1,"p4":"a"}', '{"p3":1,"p17":1,"q":1}'],
    ],
    // Those that come again would be counted.
    [
      { type: "object", properties: MANY, maxProperties: 2, additionalProperties: false },
      ["{}", '{"p3":1,"p17":1}'],
      ['{"p17":1,"p3":1}', '{"p3":1,"p3":1}', '{"p1":1,"p2":1,"p3":1}'],
    ],
    [
      { type: "object", properties: MANY, required: Object.keys(MANY).slice(0, 9), additionalProperties: false },
      [`{${Object.keys(MANY).map((name) => `"${name}":1`)}}`],
      [
        `{${Object.keys(MANY)
          .reverse()
          .map((name) => `"${name}":1`)}}`,
      ],
    ],
  ],
  { anyOrder: true },
);

test("of hundreds of objects, the later ones have few orders", async () => {
  const properties = Object.fromEntries(Object.entries(MANY).slice(0, 7));
  const objects = Array.from({ length: 120 }, (_, i) => ({
    properties: { kind: { const: i }, ...properties },
    required: ["kind", "p3"],
    additionalProperties: false,
  }));
  const grammar = grammarOf({ type: "object", oneOf: objects }, DEFAULT_SPACE, { anyOrder: true });
  const native = await compiled(grammar);
  const good = ['{"p3":1,"kind":0}', '{"p3":1,"kind":119}', '{"p6":1,"p3":1,"p0":1,"kind":119}', '{"kind":119,"p3":2}'];
  const bad = ['{"p3":1,"kind":120}', '{"p3":1,"kind":119,"q":1}', '{"kind":119,"p0":1}', '{"p3":1,"kind":119,"p3":1}'];
  expect(good.map((text) => takes(native, text))).toEqual([true, true, true, true]);
  expect(bad.map((text) => takes(native, text))).toEqual([false, false, false, false]);
});
