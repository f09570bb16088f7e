import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { compileChatTemplate } from "../jinja/chatTemplate.js";
import { recogniseReasoning } from "./reasoning.js";
import { recogniseToolFormat } from "./toolCalls/toolCalls.js";
import { probeTurns } from "./turnProbe.js";

const REFERENCE = new URL("../../test/reference/templates/", import.meta.url);

function probe(source: string, ends: string[]) {
  const template = compileChatTemplate(source);
  const reasoning = recogniseReasoning(source);
  const specialTokens = { bos_token: "<s>", eos_token: "</s>" };
  return probeTurns({ template, specialTokens, ends, reasoning, toolFormat: recogniseToolFormat(source) });
}

const probed = (name: string, ...ends: string[]) =>
  probe(readFileSync(new URL(`${name}.jinja`, REFERENCE), "utf8"), ends);

describe("turns come back in the next prompt", () => {
  it.each<[name: string, end: string, exact: string[], rewritten: string[]]>([
    ["chatml", "<|im_end|>", ["a reply", "a reply with white space around it"], []],
    [
      "qwen_thinking",
      "<|im_end|>",
      ["a reply", "a reply with white space around it", "a tool call"],
      ["a reply with thoughts", "the reply after a tool call"],
    ],
    ["qwen3_5", "<|im_end|>", ["a tool call"], ["a reply with thoughts", "the reply after a tool call"]],
    [
      "ministral",
      "</s>",
      [
        "a reply",
        "a reply with white space around it",
        "a reply with thoughts",
        "a tool call",
        "the reply after a tool call",
      ],
      [],
    ],
    [
      "gemma",
      "<end_of_turn>",
      ["a reply", "a tool call", "the reply after a tool call"],
      ["a reply with white space around it"],
    ],
    [
      "gemma4",
      "<turn|>",
      ["a reply"],
      ["a reply with white space around it", "a reply with thoughts", "a tool call", "the reply after a tool call"],
    ],
    [
      "harmony",
      "<|return|>",
      [],
      [
        "a reply",
        "a reply with white space around it",
        "a reply with thoughts",
        "a tool call",
        "the reply after a tool call",
      ],
    ],
  ])("as they were, or rewritten: %s", (name, end, exact, rewritten) => {
    const turns = probed(name, end, "<unused>");
    expect(turns.filter((turn) => turn.exact).map(({ turn }) => turn)).toEqual(exact);
    expect(turns.filter((turn) => !turn.exact).map(({ turn }) => turn)).toEqual(rewritten);
  });

  it("with both texts, and where they part", () => {
    const stripped = probed("qwen_thinking", "<|im_end|>").find(({ turn }) => turn === "a reply with thoughts")!;
    const { sampled, rendered, differs_at: at } = stripped;
    expect(sampled.slice(at!)).toBe("<think>\nI add them.\n</think>\n\nIt is 7.<|im_end|>");
    expect(rendered.slice(at!)).toMatch(/^It is 7\.<\|im_end\|>\n<\|im_start\|>user\nAnd 5/);
    expect(sampled.slice(0, at!)).toBe(rendered.slice(0, at!));
  });

  it("of which some end otherwise as long as nothing follows them", () => {
    const turns = probed("harmony", "<|return|>", "<|call|>");
    const parts = (name: string) => {
      const { sampled, rendered, differs_at: at } = turns.find(({ turn }) => turn === name)!;
      return [sampled.slice(at!), rendered.slice(at!).slice(0, 70)];
    };
    expect(parts("a reply")).toEqual(["return|>", "end|><|start|>user<|message|>And 5 + 6?<|end|><|start|>assistant"]);
    const [thoughts, answer] = parts("a reply with thoughts");
    expect(thoughts).toBe(
      "analysis<|message|>I add them.<|end|><|start|>assistant<|channel|>final<|message|>It is 7.<|return|>",
    );
    expect(answer).toMatch(/^final<\|message\|>It is 7\.<\|end\|>/);
    const sampledEnd = (name: string) => turns.find(({ turn }) => turn === name)!.sampled.slice(-"<|call|>".length);
    expect(sampledEnd("a tool call")).toBe("<|call|>");
    expect(turns.every(({ refused }) => refused === null)).toBe(true);
  });

  it("of which calls end with what begins their answers", () => {
    const turns = probed("gemma4", "<turn|>", "<|tool_response>");
    const call = turns.find(({ turn }) => turn === "a tool call")!;
    expect(call).toMatchObject({ exact: true, refused: null });
    expect(call.sampled).toMatch(
      /<\|channel>thought\nI add them\.\n<channel\|><\|tool_call>call:add\{a:3,b:4\}<tool_call\|><\|tool_response>$/,
    );
    const answered = turns.find(({ turn }) => turn === "the reply after a tool call")!;
    expect(answered.sampled).toContain('response:add{value:<|"|>7<|"|>}<tool_response|><|channel>thought\n');
  });

  it("or the template refuses them", () => {
    const strict = `{% for m in messages %}{% if m.role == 'tool' %}{{ raise_exception('no tools') }}{% endif %}{{ m.content }}</s>{% endfor %}<tool_call> "arguments"`;
    const call = probe(strict, ["</s>"]).find(({ turn }) => turn === "a tool call")!;
    expect(call).toMatchObject({ exact: false, refused: expect.stringContaining("no tools"), rendered: "" });
  });

  it("another end than that of the model is a difference", () => {
    const [reply] = probe("{% for m in messages %}{{ m.content }}\n{% endfor %}", ["</s>"]);
    expect(reply).toMatchObject({ exact: false });
    expect(reply!.sampled.slice(reply!.differs_at!)).toBe("</s>");
  });
});
