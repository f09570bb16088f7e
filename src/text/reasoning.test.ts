import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import {
  isInsideReasoning,
  openThoughtIn,
  promptOpensReasoning,
  ReasoningParser,
  recogniseReasoning,
  USUAL_REASONING,
} from "./reasoning.js";

/** The text in pieces of `size`. */
function streamed(text: string, size: number, startsInside: boolean | "midway", format = USUAL_REASONING) {
  const parser = new ReasoningParser({ startsInside, format });
  const result = { reasoning: "", content: "" };
  for (let at = 0; at < text.length; at += size) {
    const delta = parser.push(text.slice(at, at + size));
    result.reasoning += delta.reasoning;
    result.content += delta.content;
  }
  const rest = parser.flush();
  return { reasoning: result.reasoning + rest.reasoning, content: result.content + rest.content };
}

describe("an answer", () => {
  it.each<[text: string, startsInside: boolean, reasoning: string, content: string]>([
    ["Yes.", false, "", "Yes."],
    ["<think>\nhm, 1 < 2\n</think>\n\nYes.", false, "hm, 1 < 2", "Yes."],
    ["\n<think>a\n\nb </think> Yes. \n", false, "a\n\nb", "Yes. \n"],
    ["hm\n</think>\n\nYes.", true, "hm", "Yes."],
    ["\n hm", true, "hm", ""],
    ["<think>\n\n</think>\n\nYes.", false, "", "Yes."],
    ["<think>cut off </thi", false, "cut off </thi", ""],
    ["<think>a</think>", false, "a", ""],
    ["  text", false, "", "  text"],
    ["<thinner>", false, "", "<thinner>"],
    ["<thin", false, "", "<thin"],
    ["Yes <think>no</think>", false, "", "Yes <think>no</think>"],
    ["<think>a</think>b</think>c<think>", false, "a", "b</think>c<think>"],
    ["<think>a</thin</think>b", false, "a</thin", "b"],
    ["", false, "", ""],
    ["", true, "", ""],
  ])("is taken apart whatever its pieces: %j", (text, startsInside, reasoning, content) => {
    for (const size of [1, 2, 3, 5, 8, 100]) expect(streamed(text, size, startsInside)).toEqual({ reasoning, content });
  });

  it("that goes on amid its thoughts keeps the white space it goes on with", () => {
    const parts = { reasoning: " well", content: "Yes." };
    expect(streamed(" well</think>\n\nYes.", 100, "midway")).toEqual(parts);
  });

  it("streams what is certain at once", () => {
    const parser = new ReasoningParser();
    expect(parser.push("<think>\n")).toEqual({ reasoning: "", content: "" });
    expect(parser.push("I see. ")).toEqual({ reasoning: "I see.", content: "" });
    expect(parser.push("So")).toEqual({ reasoning: " So", content: "" });
    expect(parser.isAnswering).toBe(false);
    expect(parser.push("</think>\n\nYes")).toEqual({ reasoning: "", content: "Yes" });
    expect(parser.isAnswering).toBe(true);
    expect(parser.push(", ")).toEqual({ reasoning: "", content: ", " });
  });
});

describe("thoughts of other families", () => {
  const bracketed = recogniseReasoning("{{ '[THINK]' + block['thinking'] + '[/THINK]' }}")!;
  const spoken = recogniseReasoning("Write your thoughts after 'Here is my thought process:'")!;
  const framed = recogniseReasoning("between <think></think> and write your response between <response></response>")!;

  it.each([
    [bracketed, "[THINK]Hm [x].[/THINK]Yes.", "Hm [x].", "Yes."],
    [bracketed, "Yes [THINK].", "", "Yes [THINK]."],
    [bracketed, "[THINK]Hm[/TH", "Hm[/TH", ""],
    [spoken, "Here is my thought process:\n\nHm.\n\nHere is my response:\n\nYes.", "Hm.", "Yes."],
    [spoken, "Here's my thought process: Hm. Here's my response: Yes.", "Hm.", "Yes."],
    [spoken, "Here is my response: Yes.", "", "Here is my response: Yes."],
    [spoken, "Here is my thought", "", "Here is my thought"],
    [framed, "<think>Hm.</think>\n<response>\nYes.\n</response>\n", "Hm.", "Yes."],
    [framed, "<think>Hm.</think>Yes.</response>", "Hm.", "Yes.</response>"],
    [framed, "<think>Hm.</think><respond>", "Hm.", "<respond>"],
    [framed, "<response>Yes <b></resp", "", "Yes <b></resp"],
    [framed, "Yes.", "", "Yes."],
    [framed, "<think>Hm.</think><response>", "Hm.", ""],
  ])("are taken apart whatever the pieces: %#", (format, text, reasoning, content) => {
    for (const size of [1, 2, 3, 5, 8, 100])
      expect(streamed(text, size, false, format)).toEqual({ reasoning, content });
  });

  it("may have been opened by the prompt", () => {
    expect(promptOpensReasoning("[/INST][THINK]", bracketed)).toBe(true);
    expect(promptOpensReasoning("[THINK]x[/THINK]", bracketed)).toBe(false);
    expect(openThoughtIn("[THINK]a[/THINK] [THINK] Hm", bracketed)).toBe(" Hm");
    expect(openThoughtIn("[THINK]a[/THINK]", bracketed)).toBeNull();
    expect(isInsideReasoning("Here is my thought process: Hm", spoken)).toBe(true);
    expect(isInsideReasoning("Hm. Here is my thought process:", spoken)).toBe(false);
  });
});

describe("a template", () => {
  it("is recognised by its tags, and its prompt by an open one", () => {
    const read = (name: string) =>
      readFileSync(new URL(`../../test/reference/templates/${name}.jinja`, import.meta.url), "utf8");
    expect(recogniseReasoning(read("qwen_thinking"))).toBe(USUAL_REASONING);
    expect(recogniseReasoning(read("deepseek"))).toBe(USUAL_REASONING);
    expect(recogniseReasoning(read("chatml"))).toBeNull();
    expect(promptOpensReasoning("<|Assistant|><think>\n")).toBe(true);
    expect(promptOpensReasoning("assistant\n<think>\n\n</think>\n\n")).toBe(false);
    expect(promptOpensReasoning("assistant\n")).toBe(false);
  });
});
