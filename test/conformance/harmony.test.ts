// gpt-oss's replies, of models whose marks are special tokens: what they think, say and call, in every interface.

import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { inspectModel } from "../../src/engine/inspection.js";
import type { BigramModel } from "./bigramModel.js";
import { plainCalls, streamedCalls } from "./calls.js";
import { start } from "./scripted.js";
import { ScriptedReplies } from "./scriptedReplies.js";

const template = `${readFileSync(new URL("../reference/templates/harmony.jinja", import.meta.url), "utf8")}{{- start or "" }}`;

const common = {
  specials: ["<|return|>", "<|call|>", "<|end|>", "<|start|>", "<|channel|>", "<|constrain|>", "<|message|>"],
  scripts: [],
  template,
  // As in GGUF files, which do not name the mark behind calls.
  generation: { eos_token_id: 256 },
  bos: undefined,
  context: 2048,
};

const header = {
  assistant: { "<|channel|>": 1 },
  analysis: { "<|message|>": 1 },
  final: { "<|message|>": 1 },
  commentary: { "<|message|>": 1 },
  "commentary to=functions.add ": { "<|constrain|>": 1 },
  "<|constrain|>": { json: 1 },
  json: { "<|message|>": 1 },
  "<|end|>": { "<|start|>": 1 },
  "<|start|>": { assistant: 1 },
};
const pieces = ["assistant", "analysis", "final", "commentary", "commentary to=functions.add ", "json"];

/** Thinks, where the prompt has it begin, and answers. */
const answers: Partial<BigramModel> = {
  ...common,
  pieces: [...pieces, "Two and ", "two.", "It is ", "4."],
  odds: {
    ...header,
    "<|channel|>": { final: 1 },
    "<|message|>": { "It is ": 1 },
    "Two and ": { "two.": 1 },
    "two.": { "<|end|>": 1 },
    "It is ": { "4.": 1 },
    "4.": { "<|return|>": 1 },
  },
};

const calls: Partial<BigramModel> = {
  ...common,
  pieces: [...pieces, '{"a": ', "5", "}"],
  odds: {
    ...header,
    "<|channel|>": { "commentary to=functions.add ": 1 },
    "<|message|>": { '{"a": ': 1 },
    '{"a": ': { "5": 1 },
    "5": { "}": 1 },
    "}": { "<|call|>": 1 },
  },
};

/** Speaks of marks, which it spells. */
const spells: Partial<BigramModel> = {
  ...common,
  pieces: [...pieces, "It is <|end", "|><|start|>assistant<|channel|>analysis<|message|>"],
  odds: {
    ...header,
    "<|channel|>": { final: 1 },
    "<|message|>": { "It is <|end": 1 },
    "It is <|end": { "|><|start|>assistant<|channel|>analysis<|message|>": 1 },
    "|><|start|>assistant<|channel|>analysis<|message|>": { "<|end|>": 1 },
    "<|end|>": { "<|return|>": 1 },
  },
};

/** Says this and that under any header. */
const wanders: Partial<BigramModel> = {
  ...common,
  pieces: [...pieces, "Hm.", '{"a": ', "1}"],
  odds: {
    ...header,
    "<|channel|>": { analysis: 0.4, final: 0.3, commentary: 0.1, "commentary to=functions.add ": 0.2 },
    "<|message|>": { "Hm.": 0.5, '{"a": ': 0.5 },
    "Hm.": { "<|end|>": 0.6, "<|return|>": 0.4 },
    '{"a": ': { "1}": 1 },
    "1}": { "<|end|>": 0.3, "<|call|>": 0.4, "<|return|>": 0.3 },
  },
};

const scripts = new ScriptedReplies({ answers, calls, wanders, spells });
const { reply, drawn, post } = scripts;

const tools = ["add", "sub"].map((name) => ({
  type: "function",
  function: { name, parameters: { type: "object", properties: { a: { type: "integer" } }, required: ["a"] } },
}));
const thinking = start("<|channel|>analysis<|message|>Two and ");

describe("chat completions", () => {
  test("think, and answer", async () => {
    const choice = await reply({ model: "answers", ...thinking, return_token_ids: true, logprobs: true });
    expect(choice.message).toMatchObject({ reasoning: "two.", content: "It is 4." });
    expect(choice.message).not.toHaveProperty("tool_calls");
    expect(choice.finish_reason).toBe("stop");
    const tokens = ["two.", "<|end|>", "<|start|>", "assistant", "<|channel|>", "final", "<|message|>", "It is ", "4."];
    expect(choice.token_ids).toEqual([...tokens, "<|return|>"].map((token) => scripts.ids[token]));
    expect(choice.logprobs!.content.map(({ token }) => token)).toEqual([...tokens, "<|return|>"]);
    expect(choice.usage.completion_tokens_details!.reasoning_tokens).toBe(1);
    expect((await reply({ model: "answers" })).message).toMatchObject({ reasoning: null, content: "It is 4." });
  });

  test("may speak of marks", async () => {
    const { message, token_ids } = await reply({ model: "spells", return_token_ids: true });
    const content = "It is <|end|><|start|>assistant<|channel|>analysis<|message|>";
    expect(message).toMatchObject({ content, reasoning: null });
    expect(token_ids).toHaveLength(7);
    expect((await reply({ model: "spells", stop: ["<|start|>"] })).message.content).toBe("It is <|end|>");
    expect((await reply({ model: "spells", stop: ["assistant"] })).message.content).toBe("It is <|end|><|start|>");
    // Here with the mark itself, behind its sign.
    const stopped = await reply({ model: "spells", ignore_eos: true, max_tokens: 8, stop: ["<|return|>"] });
    expect(stopped.message.content).toBe(content);
  });

  test("may be hidden in their thoughts, cut, and stopped", async () => {
    const asked = { model: "answers", ...thinking };
    expect((await reply({ ...asked, include_reasoning: false })).message).toMatchObject({
      reasoning: null,
      content: "It is 4.",
    });
    const cuts = [1, 2, 3, 4, 5, 6, 7, 8, 9].map(async (max_tokens) => {
      const { message, finish_reason } = await reply({ ...asked, max_tokens });
      expect(finish_reason).toBe("length");
      return [message.reasoning, message.content];
    });
    const opened = ["two.", null];
    expect(await Promise.all(cuts)).toEqual([...Array(7).fill(opened), ["two.", "It is "], ["two.", "It is 4."]]);
    const stopped = await reply({ ...asked, stop: ["s 4"] });
    expect(stopped).toMatchObject({ message: { reasoning: "two.", content: "It i" }, stop_reason: "s 4" });
    const { message } = await reply({ ...asked, include_stop_str_in_output: true });
    expect(message).toMatchObject({ reasoning: "two.", content: "It is 4." });
  });

  test("go on with an answer that is to be continued", async () => {
    const messages = [
      { role: "user", content: "2 + 2?" },
      { role: "assistant", content: "It is " },
    ];
    const { message } = await reply({ model: "answers", messages, continue_final_message: true });
    expect(message).toMatchObject({ content: "4.", reasoning: null });
    const echoed = await scripts.served.chat({ model: "answers", messages, continue_final_message: true, echo: true });
    expect(echoed.choices[0]!.message.content).toBe("It is 4.");
  });

  test("call functions, and end with the mark behind a call", async () => {
    for (const tool_choice of [undefined, "auto", "required", { type: "function", function: { name: "add" } }]) {
      const choice = await reply({ model: "calls", tools, tool_choice, return_token_ids: true });
      expect(plainCalls(choice.message.tool_calls)).toEqual([["add", '{"a": 5}']]);
      expect(choice.message).toMatchObject({ content: null, reasoning: null });
      expect(choice.finish_reason).toBe("tool_calls");
      expect(choice.token_ids!.at(-1)).toBe(scripts.ids["<|call|>"]);
    }
    const unread = await reply({ model: "calls", tools, tool_choice: "none" });
    expect(unread).toMatchObject({ message: { content: '{"a": 5}' }, finish_reason: "stop" });
    const cut = (await scripts.served.chat({ model: "calls", tools, max_tokens: 7 })).choices[0]!;
    expect(cut).toMatchObject({ message: { content: '{"a": 5' }, finish_reason: "length" });
  });

  test("are one of several choices", async () => {
    const { choices } = await scripts.served.chat({ model: "calls", tools, n: 3 });
    expect(new Set(choices.map(({ message }) => message.tool_calls![0]!.id)).size).toBe(3);
    const chunks = await scripts.served.chunks({ model: "calls", tools, n: 3 });
    for (const index of [0, 1, 2]) expect(streamedCalls(chunks, index)).toEqual([["add", '{"a": 5}']]);
    const beams = await scripts.served.chat({
      model: "answers",
      ...thinking,
      use_beam_search: true,
      n: 2,
      max_tokens: 20,
    });
    expect(beams.choices[0]!.message).toMatchObject({ reasoning: "two.", content: "It is 4." });
  });

  test("never say a mark, whatever is drawn", async () => {
    const kinds = new Set<string>();
    for (let seed = 0; seed < 40; seed++) {
      const { message, finish_reason } = await reply({ model: "wanders", tools, temperature: 1, seed, max_tokens: 40 });
      expect(`${message.content}${message.reasoning}`).not.toContain("<|");
      expect(finish_reason === "tool_calls").toBe(message.tool_calls !== undefined && finish_reason !== "length");
      if (message.content !== null) kinds.add("content");
      if (message.reasoning !== null) kinds.add("reasoning");
      if (message.tool_calls !== undefined) kinds.add("calls");
    }
    expect([...kinds].sort()).toEqual(["calls", "content", "reasoning"]);
  });
});

describe("forms", () => {
  const schema = {
    type: "object",
    properties: { a: { type: "integer" } },
    required: ["a"],
    additionalProperties: false,
  };
  const response_format = { type: "json_schema", json_schema: { name: "a", schema } };
  const many = (body: Record<string, unknown>) => drawn({ model: "wanders", max_tokens: 200, ...body });

  test.each([
    { response_format },
    { response_format: { type: "json_object" } },
    { structured_outputs: { json: schema } },
    { structured_outputs: { regex: '\\{"a": 1\\}' } },
    { structured_outputs: { choice: ['{"a": 1}', "<|end|>"] } },
    { structured_outputs: { grammar: 'root ::= "{" rest\nrest ::= "\\"a\\": 1}"' } },
  ])("are what is said, after thoughts of any number: %j", async (form) => {
    const all = await many(form);
    for (const { message, finish_reason } of all) {
      expect([message.content, finish_reason]).toEqual(['{"a": 1}', "stop"]);
      expect(message.reasoning ?? "Hm.").toMatch(/^(Hm\.|\{"a": 1\}|\n\n)+$/);
    }
    expect(new Set(all.map(({ message }) => message.reasoning)).size).toBeGreaterThan(2);
  });

  test("are without the mark that ends the reply, where that is to be shown", async () => {
    for (const { message } of await many({ response_format, include_stop_str_in_output: true })) {
      expect(message.content).toBe('{"a": 1}');
    }
  });

  test("go on where the prompt has begun to think, or to answer", async () => {
    for (const { message } of await many({ response_format, ...start("<|channel|>analysis<|message|>") })) {
      expect(message.content).toBe('{"a": 1}');
      expect(message.reasoning).toMatch(/^(Hm\.|\{"a": 1\})/);
    }
    const begun = start('<|channel|>final<|message|>{"a": ');
    const { message } = await reply({ model: "wanders", structured_outputs: { regex: "1\\}" }, ...begun });
    expect(message).toMatchObject({ content: "1}", reasoning: null });
  });

  test("leave the calls of offered functions", async () => {
    const all = await many({ response_format, tools });
    for (const { message, finish_reason } of all) {
      const made = plainCalls(message.tool_calls);
      expect([message.content, made]).toEqual(made.length > 0 ? [null, [["add", '{"a": 1}']]] : ['{"a": 1}', []]);
      expect(finish_reason).toBe(made.length > 0 ? "tool_calls" : "stop");
    }
    expect(new Set(all.map(({ finish_reason }) => finish_reason)).size).toBe(2);
  });

  test("of calls that have to be made", async () => {
    const allowed = { type: "allowed_tools", allowed_tools: { mode: "required", tools: [tools[0]] } };
    for (const tool_choice of ["required", { type: "function", function: { name: "add" } }, allowed]) {
      const all = await many({ tools: tool_choice === "required" ? tools.slice(0, 1) : tools, tool_choice });
      for (const { message, finish_reason } of all) {
        expect([message.content, plainCalls(message.tool_calls)]).toEqual([null, [["add", '{"a": 1}']]]);
        expect(finish_reason).toBe("tool_calls");
      }
      expect(all.some(({ message }) => message.reasoning !== null)).toBe(true);
    }
    const begun = start("<|channel|>final<|message|>Hm.");
    const { message } = await reply({
      model: "wanders",
      tools,
      tool_choice: "required",
      ...begun,
    });
    expect(plainCalls(message.tool_calls)).toEqual([["add", '{"a": 1}']]);
  });

  test("cannot begin in the midst of a header", async () => {
    const begun = start("<|channel|>");
    await scripts.served.refusal({ model: "wanders", response_format, ...begun }, "response_format");
    await scripts.served.refusal({ model: "wanders", tools, tool_choice: "required", ...begun }, "tool_choice");
    await reply({ model: "answers", ...begun });
  });

  test("come after no more thoughts than were asked for", async () => {
    for (const tokens of [0, 2]) {
      for (const { message, usage } of await many({ response_format, thinking_token_budget: tokens })) {
        expect(message.content).toBe('{"a": 1}');
        expect(usage.completion_tokens_details!.reasoning_tokens).toBe(thoughtTokens(message.reasoning));
        expect(thoughtTokens(message.reasoning)).toBeLessThanOrEqual(tokens);
      }
    }
    const unlimited = await many({ response_format });
    for (const { message, usage } of unlimited) {
      expect(usage.completion_tokens_details!.reasoning_tokens).toBe(thoughtTokens(message.reasoning));
    }
    expect(unlimited.some(({ message }) => thoughtTokens(message.reasoning) > 2)).toBe(true);
  });

  /** Of the model that wanders. */
  const thoughtTokens = (reasoning: string | null) => (reasoning?.match(/Hm\.|\{"a": |1\}/g) ?? []).length;
});

describe("other interfaces", () => {
  test("responses have items of thoughts, of texts and of calls", async () => {
    const asked = { model: "answers", input: "2 + 2?" };
    const read = JSON.parse(await post("/v1/responses", asked)) as { output: { type: string }[] };
    expect(read.output).toMatchObject([{ type: "message", content: [{ text: "It is 4." }] }]);
    const functions = tools.map(({ function: f }) => ({ type: "function", ...f }));
    const called = JSON.parse(await post("/v1/responses", { model: "calls", input: "2 + 2?", tools: functions })) as {
      output: object[];
    };
    expect(called.output).toMatchObject([{ type: "function_call", name: "add", arguments: '{"a": 5}' }]);
    const again = [{ role: "user", content: "2 + 2?" }, ...called.output];
    const output = {
      type: "function_call_output",
      call_id: (called.output[0] as { call_id: string }).call_id,
      output: "4",
    };
    const done = await post("/v1/responses", {
      model: "answers",
      input: [...again, output],
      tools: functions,
      reasoning: { effort: "high" },
    });
    expect(JSON.parse(done)).toMatchObject({ output: [{ type: "message", content: [{ text: "It is 4." }] }] });
    const seen = new Set<string>();
    for (let seed = 0; seed < 12; seed++) {
      const streamed = await post("/v1/responses", {
        model: "wanders",
        input: "2 + 2?",
        tools: functions,
        stream: true,
        seed,
        max_output_tokens: 60,
        temperature: 1,
      });
      expect(streamed).not.toMatch(/<\|(start|channel|message|end|call|return)/);
      for (const [, type] of streamed.matchAll(/"item":\{"type":"(\w+)"/g)) seen.add(type!);
    }
    expect([...seen].sort()).toEqual(["function_call", "message", "reasoning"]);
  });

  test("messages have blocks of thoughts, of texts and of calls", async () => {
    const asked = { max_tokens: 40, messages: [{ role: "user", content: "2 + 2?" }] };
    const read = JSON.parse(await post("/v1/messages", { ...asked, model: "answers" })) as object;
    expect(read).toMatchObject({ content: [{ type: "text", text: "It is 4." }], stop_reason: "end_turn" });
    const functions = tools.map(({ function: { name, parameters } }) => ({ name, input_schema: parameters }));
    const called = JSON.parse(await post("/v1/messages", { ...asked, model: "calls", tools: functions })) as {
      content: { id: string }[];
    };
    expect(called).toMatchObject({
      content: [{ type: "tool_use", name: "add", input: { a: 5 } }],
      stop_reason: "tool_use",
    });
    const messages = [
      ...asked.messages,
      {
        role: "assistant",
        content: [
          { type: "thinking", thinking: "Hm.", signature: "" },
          { type: "text", text: "I ask." },
          ...called.content,
        ],
      },
      { role: "user", content: [{ type: "tool_result", tool_use_id: called.content[0]!.id, content: "4" }] },
    ];
    const done = JSON.parse(
      await post("/v1/messages", { ...asked, messages, model: "answers", tools: functions }),
    ) as object;
    expect(done).toMatchObject({ content: [{ type: "text", text: "It is 4." }] });
  });
});

test("a folder tells how its model replies", async () => {
  const told = await inspectModel(scripts.folder);
  expect(told).toMatchObject({
    tool_parser: "harmony",
    reasoning: { open: "<|channel|>analysis<|message|>", close: "<|end|>" },
    thinking_switches: ["reasoning_effort"],
    end_tokens: ["<|return|>", "<|call|>"],
  });
  expect(told.turns.map(({ turn, refused }) => [turn, refused])).toEqual([
    ["a reply", null],
    ["a reply with white space around it", null],
    ["a reply with thoughts", null],
    ["a tool call", null],
    ["the reply after a tool call", null],
  ]);
});
