// Gemma 4's replies, of models whose marks are special tokens: what they think, say and call, in every interface.

import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { inspectModel } from "../../src/engine/inspection.js";
import type { BigramModel } from "./bigramModel.js";
import { plainCalls, streamedCalls } from "./calls.js";
import { start } from "./scripted.js";
import { ScriptedReplies } from "./scriptedReplies.js";

const template = `${readFileSync(new URL("../reference/templates/gemma4.jinja", import.meta.url), "utf8")}{{- start or "" }}`;

const common = {
  specials: [
    ...["<turn|>", "<|tool_response>", "<|turn>", "<|channel>", "<channel|>", "<|tool_call>", "<tool_call|>"],
    ...['<|"|>', "<tool_response|>", "<|tool>", "<tool|>", "<|think|>"],
  ],
  scripts: [],
  template,
  // As in GGUF files, which do not name the mark behind calls.
  generation: { eos_token_id: 256 },
  bos: undefined,
  context: 2048,
};

const pieces = ["thought", "call:add", "call:say"];
const marks = { "<|channel>": { thought: 1 } };

/** Thinks, where the prompt has it begin or switches thoughts on, and answers. */
const answers: Partial<BigramModel> = {
  ...common,
  pieces: [...pieces, "Two and ", "two.", "It is ", "4."],
  odds: {
    ...marks,
    "\n": { "It is ": 1 },
    thought: { "Two and ": 1 },
    "Two and ": { "two.": 1 },
    "two.": { "<channel|>": 1 },
    "<channel|>": { "It is ": 1 },
    "It is ": { "4.": 1 },
    "4.": { "<turn|>": 1 },
  },
};

const calls: Partial<BigramModel> = {
  ...common,
  pieces: [...pieces, "{a:", "5", "}"],
  odds: {
    "\n": { "<|tool_call>": 1 },
    "<|tool_call>": { "call:add": 1 },
    "call:add": { "{a:": 1 },
    "{a:": { "5": 1 },
    "5": { "}": 1 },
    "}": { "<tool_call|>": 1 },
    "<tool_call|>": { "<|tool_response>": 1 },
  },
};

/** Says this and that, with and without thoughts before, calls behind them, and thoughts again. */
const wanders: Partial<BigramModel> = {
  ...common,
  pieces: [...pieces, "Hm.", "{a:", '{"a": ', "1}", "{text:"],
  odds: {
    ...marks,
    "\n": { "<|channel>": 0.4, "Hm.": 0.2, "<|tool_call>": 0.2, '{"a": ': 0.2 },
    thought: { "Hm.": 0.8, "<channel|>": 0.2 },
    "Hm.": { "<channel|>": 0.2, "Hm.": 0.2, "<|channel>": 0.1, "<|tool_call>": 0.1, "<turn|>": 0.2, '<|"|>': 0.2 },
    "<channel|>": { "Hm.": 0.4, "<|tool_call>": 0.3, '{"a": ': 0.3 },
    "<|tool_call>": { "call:add": 0.5, "call:say": 0.5 },
    "call:add": { "{a:": 0.8, "{text:": 0.2 },
    "call:say": { "{text:": 1 },
    "{a:": { "1}": 1 },
    '{"a": ': { "1}": 1 },
    "{text:": { '<|"|>': 1 },
    '<|"|>': { "Hm.": 0.4, "1}": 0.3, "}": 0.3 },
    "}": { "<tool_call|>": 0.7, '<|"|>': 0.3 },
    "1}": { "<tool_call|>": 0.4, '<|"|>': 0.3, "<turn|>": 0.3 },
    "<tool_call|>": { "<|tool_response>": 0.6, "<|tool_call>": 0.3, "Hm.": 0.1 },
  },
};

/** Speaks of marks, which it spells. */
const spells: Partial<BigramModel> = {
  ...common,
  pieces: [...pieces, "{text:", "}", "<tool_", "call|> <|channel>thought <chan", "nel|>"],
  odds: {
    "\n": { "<tool_": 0.6, "<|tool_call>": 0.4 },
    "<|tool_call>": { "call:say": 1 },
    "call:say": { "{text:": 1 },
    "{text:": { '<|"|>': 1 },
    '<|"|>': { "<tool_": 1 },
    "<tool_": { "call|> <|channel>thought <chan": 1 },
    "call|> <|channel>thought <chan": { "nel|>": 1 },
    "nel|>": { '<|"|>': 0.4, "<turn|>": 0.6 },
    "}": { "<tool_call|>": 1 },
    "<tool_call|>": { "<|tool_response>": 1 },
  },
};

const scripts = new ScriptedReplies(
  { answers, calls, wanders, spells },
  { breaksOff: (content) => content.includes("<|tool_call>") },
);
const { reply, drawn, post } = scripts;

const parameters = (name: string, schema: object) => ({
  type: "object",
  properties: { [name]: schema },
  required: [name],
});
const tools = [
  { type: "function", function: { name: "add", parameters: parameters("a", { type: "integer" }) } },
  { type: "function", function: { name: "say", parameters: parameters("text", { type: "string" }) } },
];
const thinking = start("<|channel>thought");

describe("chat completions", () => {
  test("think, and answer", async () => {
    const choice = await reply({ model: "answers", ...thinking, return_token_ids: true, logprobs: true });
    expect(choice.message).toMatchObject({ reasoning: "Two and two.", content: "It is 4." });
    expect(choice.message).not.toHaveProperty("tool_calls");
    expect(choice.finish_reason).toBe("stop");
    const tokens = ["Two and ", "two.", "<channel|>", "It is ", "4.", "<turn|>"];
    expect(choice.token_ids).toEqual(tokens.map((token) => scripts.ids[token]));
    expect(choice.logprobs!.content.map(({ token }) => token)).toEqual(tokens);
    expect(choice.usage.completion_tokens_details!.reasoning_tokens).toBe(2);
    expect((await reply({ model: "answers" })).message).toMatchObject({ reasoning: null, content: "It is 4." });
  });

  test("may be hidden in their thoughts, cut, and stopped", async () => {
    const asked = { model: "answers", ...thinking };
    expect((await reply({ ...asked, include_reasoning: false })).message.content).toBe("It is 4.");
    const cuts = [1, 2, 3, 4, 5].map(async (max_tokens) => {
      const { message, finish_reason } = await reply({ ...asked, max_tokens });
      expect(finish_reason).toBe("length");
      return [message.reasoning, message.content];
    });
    const whole = "Two and two.";
    const parts = [
      ["Two and ", null],
      [whole, null],
      [whole, null],
      [whole, "It is "],
      [whole, "It is 4."],
    ];
    expect(await Promise.all(cuts)).toEqual(parts);
    expect(await reply({ ...asked, stop: ["s 4"] })).toMatchObject({
      message: { reasoning: whole, content: "It i" },
      stop_reason: "s 4",
    });
  });

  test("go on with an answer that is to be continued", async () => {
    const messages = [
      { role: "user", content: "2 + 2?" },
      { role: "assistant", content: "Two and two." },
    ];
    // A mark that closes nothing is nothing.
    const { message } = await reply({ model: "answers", messages, continue_final_message: true });
    expect(message).toMatchObject({ content: "It is 4.", reasoning: null });
  });

  test("call functions, and end with the mark of what they answer", async () => {
    for (const tool_choice of [undefined, "auto", "required", { type: "function", function: { name: "add" } }]) {
      const choice = await reply({ model: "calls", tools, tool_choice, return_token_ids: true });
      expect(plainCalls(choice.message.tool_calls)).toEqual([["add", '{"a": 5}']]);
      expect(choice.message).toMatchObject({ content: null, reasoning: null });
      expect(choice.finish_reason).toBe("tool_calls");
      expect(choice.token_ids!.at(-1)).toBe(scripts.ids["<|tool_response>"]);
    }
    const unread = await reply({ model: "calls", tools, tool_choice: "none" });
    expect(unread).toMatchObject({
      message: { content: "<|tool_call>call:add{a:5}<tool_call|>" },
      finish_reason: "stop",
    });
    const cut = (await scripts.served.chat({ model: "calls", tools, max_tokens: 4 })).choices[0]!;
    expect(cut).toMatchObject({ message: { content: "<|tool_call>call:add{a:5" }, finish_reason: "length" });
    expect(streamedCalls(await scripts.served.chunks({ model: "calls", tools, max_tokens: 4 }))).toEqual([
      ["add", '{"a": '],
    ]);
  });

  test("may speak of marks", async () => {
    const spelled = "<tool_call|> <|channel>thought <channel|>";
    expect((await reply({ model: "spells", tools })).message).toMatchObject({ content: spelled, reasoning: null });
    const { message } = await reply({ model: "spells", tools, tool_choice: "required" });
    expect(plainCalls(message.tool_calls)).toEqual([["say", JSON.stringify({ text: spelled }).replace(":", ": ")]]);
    expect(message).toMatchObject({ content: null, reasoning: null });
    const stopped = await reply({ model: "spells", stop: ["<|channel>"] });
    expect(stopped).toMatchObject({ message: { content: "<tool_call|> " }, stop_reason: "<|channel>" });
  });

  test("are one of several choices", async () => {
    const chunks = await scripts.served.chunks({ model: "calls", tools, n: 3 });
    for (const index of [0, 1, 2]) expect(streamedCalls(chunks, index)).toEqual([["add", '{"a": 5}']]);
    const beams = await scripts.served.chat({
      model: "answers",
      ...thinking,
      use_beam_search: true,
      n: 2,
      max_tokens: 20,
    });
    expect(beams.choices[0]!.message).toMatchObject({ reasoning: "Two and two.", content: "It is 4." });
  });

  test("say, think and call in any order", async () => {
    const kinds = new Set<string>();
    for (let seed = 0; seed < 60; seed++) {
      const { message, finish_reason } = await reply({ model: "wanders", tools, temperature: 1, seed, max_tokens: 60 });
      expect(message.content ?? "").not.toMatch(/<\|channel>|<channel\|>/);
      if (message.tool_calls === undefined) expect(finish_reason).not.toBe("tool_calls");
      for (const [name, given] of plainCalls(message.tool_calls))
        expect([name, typeof JSON.parse(given!)]).toEqual([name, "object"]);
      if (message.content !== null) kinds.add("content");
      if (message.reasoning !== null) kinds.add("reasoning");
      if (message.content !== null && message.reasoning !== null) kinds.add("both");
      if (message.tool_calls !== undefined) kinds.add("calls");
    }
    expect([...kinds].sort()).toEqual(["both", "calls", "content", "reasoning"]);
  });
});

describe("forms", () => {
  const schema = { ...parameters("a", { type: "integer" }), additionalProperties: false };
  const response_format = { type: "json_schema", json_schema: { name: "a", schema } };
  const many = (body: Record<string, unknown>) => drawn({ model: "wanders", ...body });
  const thoughtTokens = (reasoning: string | null) =>
    (reasoning?.match(/<[^>]*>|Hm\.|thought|call:(?:add|say)|\{a:|\{"a": |\{text:|1?\}/g) ?? []).length;

  test.each([
    { response_format },
    { structured_outputs: { regex: '\\{"a": 1\\}' } },
    { structured_outputs: { choice: ['{"a": 1}'] } },
  ])("are what is said, after thoughts or none: %j", async (form) => {
    const all = await many(form);
    for (const { message, finish_reason } of all) {
      expect([message.content, finish_reason]).toEqual(['{"a": 1}', "stop"]);
    }
    expect(new Set(all.map(({ message }) => message.reasoning === null)).size).toBe(2);
  });

  test("leave the calls of offered functions", async () => {
    const all = await many({ response_format, tools });
    for (const { message, finish_reason } of all) {
      const made = plainCalls(message.tool_calls);
      expect(message.content).toBe(made.length > 0 ? null : '{"a": 1}');
      expect(finish_reason).toBe(made.length > 0 ? "tool_calls" : "stop");
    }
    expect(new Set(all.map(({ finish_reason }) => finish_reason)).size).toBe(2);
  });

  test("of calls that have to be made", async () => {
    const names = new Set<string>();
    const one = { type: "function", function: { name: "say" } };
    for (const tool_choice of ["required", one]) {
      const all = await many({ tools, tool_choice });
      for (const { message, finish_reason } of all) {
        expect([message.content, finish_reason]).toEqual([null, "tool_calls"]);
        const made = plainCalls(message.tool_calls);
        expect(made.length).toBeGreaterThan(0);
        for (const [name, given] of made) {
          names.add(name!);
          if (name === "add") expect(given).toBe('{"a": 1}');
          else expect(JSON.parse(given!)).toEqual({ text: expect.stringMatching(/^(Hm\.|1?\})*$/) });
        }
        if (tool_choice !== "required") expect(made.map(([name]) => name)).toEqual(["say"]);
      }
      expect(all.some(({ message }) => message.reasoning !== null)).toBe(true);
    }
    expect([...names].sort()).toEqual(["add", "say"]);
    const begun = await many({ tools, tool_choice: "required", ...thinking });
    for (const { message } of begun) {
      expect([message.content, message.tool_calls === undefined]).toEqual([null, false]);
    }
    expect(begun.some(({ message }) => message.reasoning !== null)).toBe(true);
    const single = await many({ tools, tool_choice: "required", parallel_tool_calls: false });
    for (const { message } of single) expect(message.tool_calls).toHaveLength(1);
  });

  test("come after no more thoughts than were asked for", async () => {
    for (const tokens of [0, 2]) {
      for (const { message, usage } of await many({ thinking_token_budget: tokens, max_tokens: 60 })) {
        expect(usage.completion_tokens_details!.reasoning_tokens).toBe(thoughtTokens(message.reasoning));
        expect(thoughtTokens(message.reasoning)).toBeLessThanOrEqual(tokens);
      }
      for (const { message } of await many({ response_format, thinking_token_budget: tokens })) {
        expect(message.content).toBe('{"a": 1}');
        expect(thoughtTokens(message.reasoning)).toBeLessThanOrEqual(tokens);
      }
    }
    const unlimited = await many({ max_tokens: 60 });
    expect(unlimited.some(({ message }) => thoughtTokens(message.reasoning) > 2)).toBe(true);
  });
});

describe("other interfaces", () => {
  test("responses have items of thoughts, of texts and of calls", async () => {
    const functions = tools.map(({ function: f }) => ({ type: "function", ...f }));
    const called = JSON.parse(await post("/v1/responses", { model: "calls", input: "2 + 2?", tools: functions })) as {
      output: { call_id: string }[];
    };
    expect(called.output).toMatchObject([{ type: "function_call", name: "add", arguments: '{"a": 5}' }]);
    const output = { type: "function_call_output", call_id: called.output[0]!.call_id, output: "4" };
    const input = [{ role: "user", content: "2 + 2?" }, ...called.output, output];
    const prompt = await scripts.served.request("POST", "/tokenize", {
      model: "calls",
      messages: [
        { role: "user", content: "2 + 2?" },
        {
          role: "assistant",
          content: null,
          tool_calls: [{ id: "a", type: "function", function: { name: "add", arguments: '{"a": 5}' } }],
        },
        { role: "tool", tool_call_id: "a", content: "4" },
      ],
    });
    expect(((await prompt.json()) as { tokens: number[] }).tokens.at(-1)).toBe(scripts.ids["<tool_response|>"]);
    await post("/v1/responses", { model: "wanders", input, tools: functions, max_output_tokens: 40 });
    const seen = new Set<string>();
    for (let seed = 0; seed < 16; seed++) {
      const asked = { model: "wanders", input: "2 + 2?", tools: functions, stream: true, seed };
      const streamed = await post("/v1/responses", { ...asked, max_output_tokens: 60, temperature: 1 });
      for (const [, type] of streamed.matchAll(/"item":\{"type":"(\w+)"/g)) seen.add(type!);
    }
    expect([...seen].sort()).toEqual(["function_call", "message", "reasoning"]);
  });

  test("messages have blocks of thoughts, of texts and of calls", async () => {
    const asked = { max_tokens: 40, messages: [{ role: "user", content: "2 + 2?" }] };
    const functions = tools.map(({ function: { name, parameters } }) => ({ name, input_schema: parameters }));
    const called = JSON.parse(await post("/v1/messages", { ...asked, model: "calls", tools: functions })) as object;
    expect(called).toMatchObject({
      content: [{ type: "tool_use", name: "add", input: { a: 5 } }],
      stop_reason: "tool_use",
    });
    const read = JSON.parse(await post("/v1/messages", { ...asked, model: "answers" })) as object;
    expect(read).toMatchObject({ content: [{ type: "text", text: "It is 4." }], stop_reason: "end_turn" });
  });
});

test("a folder tells how its model replies", async () => {
  const told = await inspectModel(scripts.folder);
  expect(told).toMatchObject({
    tool_parser: "gemma4",
    reasoning: { open: "<|channel>thought", close: "<channel|>" },
    thinking_switches: ["enable_thinking"],
    end_tokens: ["<turn|>", "<|tool_response>"],
  });
  expect(told.turns.map(({ turn, exact, refused }) => [turn, exact, refused])).toEqual([
    ["a reply", true, null],
    ["a reply with white space around it", false, null],
    ["a reply with thoughts", false, null],
    ["a tool call", true, null],
    ["the reply after a tool call", false, null],
  ]);
});
