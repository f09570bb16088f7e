import { expect, it } from "vitest";
import { compileChatTemplate } from "./chatTemplate.js";
import { parseJson } from "./input.js";
import { PythonError } from "./values.js";

const written = (json: string) => compileChatTemplate("{{ x | tojson }}").render({ x: parseJson(json) });

it("keeps what JavaScript's JSON loses", () => {
  for (const json of [
    '{"b": 1.0, "2": 1, "1": 12345678901234567890, "a": [1e+20, -0.5, 0, -0.0]}',
    '[null, true, false, "\\" \\\\ \\n é", {}, []]',
    '"😀"',
  ]) {
    expect(written(json)).toBe(json);
  }
  expect(written(' { "a" : [ 1 , 2E3 ] } ')).toBe('{"a": [1, 2000.0]}');
  expect(written('"\\ud83d\\ude00\\/"')).toBe('"😀/"');
});

it("refuses what is not JSON", () => {
  for (const json of [
    "",
    "{",
    "[1,]",
    "{1: 2}",
    '{"a" 1}',
    "01",
    "+1",
    "1 2",
    "tru",
    '"a',
    '"\\x"',
    "[1",
    "'a'",
    ".",
  ]) {
    expect(() => parseJson(json), json).toThrow(PythonError);
  }
  expect(() => parseJson("[".repeat(100_000))).toThrow(/nested deeper/);
});

it("writes what nests as deep as a request may", () => {
  const json = "[".repeat(999) + "]".repeat(999);
  expect(written(json)).toBe(json);
  expect(compileChatTemplate("{{ x }}").render({ x: JSON.parse(json) })).toBe(json);
});
