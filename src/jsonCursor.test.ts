import { expect, it } from "vitest";
import { JsonCursor, LargeValueError, type ValueLimits } from "./jsonCursor.js";

const LIMITS: ValueLimits = { bytes: 1000, containers: 100 };

/** Everything there is, walked over down to `depth`, and made from there on. */
function walked(cursor: JsonCursor, depth: number): unknown {
  if (depth > 0 && cursor.isObject()) {
    const object: Record<string, unknown> = {};
    for (const name of cursor.fields()) object[name] = walked(cursor, depth - 1);
    return object;
  }
  if (depth > 0 && cursor.isList()) {
    const list: unknown[] = [];
    for (const i of cursor.elements()) list[i] = walked(cursor, depth - 1);
    return list;
  }
  return cursor.value(LIMITS);
}

function read(text: string | Buffer, depth: number): unknown {
  const cursor = new JsonCursor(Buffer.from(text));
  const value = walked(cursor, depth);
  cursor.end();
  return value;
}

it("reads what JSON.parse reads, however far it walks", () => {
  const value = {
    empty: [{}, [], "", null, true, -1.5e3],
    'a "quoted\\" name': { text: 'ends in \\\\"\\', "": [[[1], 2], { "ü€😀": "]}," }] },
    last: 0,
  };
  for (const text of [JSON.stringify(value), `\ufeff \n${JSON.stringify(value, null, 3)}\t`]) {
    for (const depth of [0, 1, 2, 3, 9]) expect(read(text, depth)).toEqual(value);
  }
});

it("passes over values to the next field", () => {
  const cursor = new JsonCursor(Buffer.from('{"a": [1, {"b": "]"}], "c": "x\\"", "d": 4 , "e":{}}'));
  const names: string[] = [];
  for (const name of cursor.fields()) {
    names.push(name);
    cursor.skip();
  }
  cursor.end();
  expect(names).toEqual(["a", "c", "d", "e"]);
});

it.each([
  "",
  "{",
  '{"a"',
  '{"a":',
  '{"a" 1}',
  '{"a":1,}',
  '{"a":1 "b":2}',
  "{a:1}",
  "[1,]",
  "[1 2]",
  "[,1]",
  "[1}",
  '["a]',
  '{"a":[1,2}',
  '{"a":tru}',
  "[01]",
  "[] []",
])("refuses %j", (text) => {
  for (const depth of [0, 1, 2]) expect(() => read(text, depth)).toThrow();
  expect(() => read(text, 2)).not.toThrow(LargeValueError);
});

it("refuses what is nested too deeply", () => {
  expect(() => new JsonCursor(Buffer.from("[".repeat(2000))).skip()).toThrow("nested more than 1000 deep");
});

it("refuses bytes that are no text", () => {
  for (const depth of [0, 1]) expect(() => read(Buffer.from('["\xff"]', "latin1"), depth)).toThrow(SyntaxError);
});

it("tells values that are too large from their bytes", () => {
  const long = `"${"x".repeat(2000)}"`;
  const many = `[${"{},".repeat(200)}0]`;
  expect(read(`[${Array(100).fill('"some text"').join(",")}]`, 1)).toHaveLength(100);
  for (const text of [`[${long}]`, `[[${long}]]`, `[[${'"some text",'.repeat(100)}0]]`]) {
    expect(() => read(text, 1)).toThrow("is longer than 1000 bytes");
  }
  expect(() => read(`[${many}]`, 1)).toThrow("holds more than 100 objects and lists");
});
