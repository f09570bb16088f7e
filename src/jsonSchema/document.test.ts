import { expect, test } from "vitest";
import { grammarOf, testSchemas } from "../../test/grammar/schemaCases.js";

testSchemas([
  [{ $schema: "http://json-schema.org/draft-04/schema#", type: "integer" }, ["1", "-0"], ["1.0", "1e1"]],
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
    { type: "object", properties: { foo: { $ref: "#" } }, additionalProperties: false },
    ["{}", '{"foo":{"foo":{}}}'],
    ['{"bar":{}}', '{"foo":{"bar":1}}'],
  ],
  // Of each draft as its own $schema says: a constant beside a $ref counts in the newer one only.
  [
    {
      properties: {
        old: { $schema: "http://json-schema.org/draft-04/schema#", $ref: "#/$defs/n", const: 1 },
        new: { $ref: "#/$defs/n", const: 1 },
      },
      $defs: { n: { type: "integer" } },
    },
    ['{"old":2}', '{"new":1}', '{"old":1,"new":1}'],
    ['{"old":"a"}', '{"new":2}'],
  ],
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
  // The root says no more about a value than the property does, but only it has what the reference leads to.
  [
    {
      definitions: { n: { type: "object", properties: { next: { $ref: "#/definitions/n" } } } },
      $ref: "#/definitions/n",
    },
    ["{}", '{"next":{"next":{}}}'],
    ['{"next":1}'],
  ],
  // The same words below two bases lead to two schemas.
  [
    {
      $id: "http://x.y/root.json",
      $defs: {
        a: { type: "integer" },
        other: { $id: "other.json", $defs: { a: { type: "null" } }, $ref: "#/$defs/a" },
      },
      properties: { one: { $ref: "#/$defs/a" }, two: { $ref: "other.json" } },
      type: "object",
    },
    ['{"one":1,"two":null}'],
    ['{"one":null}', '{"two":1}'],
  ],
]);

test("schemas that say the same about a value are written once", () => {
  const place = (description: string) => ({
    description,
    type: "object",
    properties: { x: { type: "number", title: description }, y: { type: "number" } },
    required: ["x", "y"],
  });
  const places = (count: number) =>
    Object.fromEntries(Array.from({ length: count }, (_, i) => [`p${i}`, place(`the place ${i}`)]));
  const rules = (count: number) => {
    const properties = places(count);
    return grammarOf({ type: "object", properties, required: Object.keys(properties) }).rules.length;
  };
  expect(rules(30)).toBe(rules(2));
});
