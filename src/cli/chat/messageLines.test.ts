import { expect, it } from "vitest";
import { MessageLines } from "./messageLines.js";

const P = true;
it.each<[string, lines: (string | [pasted: string])[], messages: string[]]>([
  ["a line each", ["a", "", "b"], ["a", "", "b"]],
  ["a backslash at the end", ["a\\", "b\\", "c", "d"], ["a\nb\nc", "d"]],
  ["two backslashes, which are one escaped", ["a\\\\", "b"], ["a\\\\", "b"]],
  ["a quoted block", ['"""', "a", "", "  b", '"""', "c"], ["a\n\n  b", "c"]],
  ["a quoted block that begins and ends beside its marks", ['"""a', 'b"""'], ["a\nb"]],
  ["a quoted line", ['"""/help"""', "c"], ["/help", "c"]],
  ["an empty quoted block", ['"""', '"""', "c"], ["", "c"]],
  ["a paste that Enter ends", [["a"], [""], ["b\\"], "c"], ["a\n\nb\\\nc"]],
  ["a paste into a quoted block", ['"""', ["a"], ["b"], '"""'], ["a\nb"]],
])("reads %s", (_, lines, expected) => {
  const reader = new MessageLines();
  const messages = lines.map((line) => (typeof line === "string" ? reader.add(line, !P) : reader.add(line[0], P)));
  expect(messages.filter((message) => message !== null)).toEqual(expected);
  expect(reader.isOpen).toBe(false);
});

it("forgets what was begun", () => {
  const reader = new MessageLines();
  reader.add('"""', false);
  reader.add("a", false);
  expect(reader.isOpen).toBe(true);
  reader.clear();
  expect([reader.isOpen, reader.add("b", false)]).toEqual([false, "b"]);
});
