import { expect, test } from "vitest";
import { TextLogprobs } from "./textLogprobs.js";

const entries = (...tokens: string[]) => ({
  content: tokens.map((token) => ({ token, logprob: -1, bytes: [], top_logprobs: [] })),
});

function told(pieces: string[], ...tokens: string[]): string[][] {
  const logprobs = new TextLogprobs();
  logprobs.add(entries(...tokens));
  return pieces.map((piece) => logprobs.of(piece).map(({ token }) => token));
}

test("tokens of a text are not those of marks and headers before it that hold the same letters", () => {
  const header = ["<|start|>", "assistant", "<|channel|>", "final", "<|message|>"];
  expect(told(["an", " is"], ...header, "an", " is")).toEqual([["an"], [" is"]]);
  expect(told(["al", "so"], ...header, "al", "so")).toEqual([["al"], ["so"]]);
});

test("tokens of a text are not those of a header that names its first word", () => {
  const logprobs = new TextLogprobs();
  logprobs.add(entries("<|channel|>", "final", "<|message|>", "final", " is"));
  logprobs.add(entries("<|end|>", "<|start|>", "assistant", "<|channel|>", "final", " ", "<|constrain|>"));
  logprobs.add({
    content: entries("json", "<|message|>", "json").content.map((entry, i) => ({ ...entry, logprob: -i })),
  });
  expect(logprobs.of("final").map(({ token }) => token)).toEqual(["final"]);
  expect(logprobs.of(" is").map(({ token }) => token)).toEqual([" is"]);
  expect(logprobs.of("\n\njson").map(({ token, logprob }) => [token, logprob])).toEqual([["json", -2]]);
});

test("tokens of texts that stand apart in a reply are told of their join", () => {
  const reply = ["Hm", ".", "<|end|>", "So", "<|end|>", "Two", ".\n\n", "Three"];
  expect(told(["Hm.\n\nSo", "Two.\n\nThree"], ...reply)).toEqual([
    ["Hm", ".", "So"],
    ["Two", ".\n\n", "Three"],
  ]);
  expect(told(["Hm.\n\nOther"], ...reply)).toEqual([["Hm", "."]]);
});

test("a text may begin and end within tokens", () => {
  expect(told(["a", "bc"], "<x>a", "b", "cd")).toEqual([["<x>a"], ["b", "cd"]]);
});
