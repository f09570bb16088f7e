import { expect, test } from "vitest";
import { matches } from "../../test/grammar/irMatcher.js";
import { grammarOf, testSchemas } from "../../test/grammar/schemaCases.js";
import { EMPTY } from "../grammar/ir.js";
import { DEFAULT_SPACE } from "./jsonValues.js";

testSchemas([
  [
    true,
    ["1", '{"a":[1,2,{}]}', '"xé\\n"', "-1.5e3", "[ ]", "{ }", '{\n  "a": 1\n}'],
    ["", "01", '"x\\u00e9"', '{"a"}', '"\\ud800"', "[1,]", "[  ]"],
  ],
  [
    { enum: ["a", 1, null, { x: [1] }, "é\n"] },
    ['"a"', "1", "null", '{"x":[1]}', '{"x": [1]}', '"é\\n"'],
    ['"b"', '"\\u00e9\\u000a"', "2", '{"x":[]}', '{"x":[1],"y":1}'],
  ],
  [{ type: ["string", "null"], enum: ["a", null, 3] }, ['"a"', "null"], ["3"]],
  [{ const: { a: [1, { b: null }] } }, ['{"a":[1,{"b":null}]}', '{"a": [1, {"b": null}]}'], ["{}", '{"a":[1,{}]}']],
  [{ const: false }, ["false"], ["0", "null"]],
]);

test("white space and other properties are as the request says", () => {
  const schema = { type: "object", properties: { a: { type: "array", items: { type: "integer" } } } };
  const compact = grammarOf(schema, EMPTY);
  expect(matches(compact, '{"a":[1,2],"b":{}}')).toBe(true);
  expect(matches(compact, '{"a": [1,2]}')).toBe(false);
  const closed = grammarOf(schema, DEFAULT_SPACE, { closed: true });
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
