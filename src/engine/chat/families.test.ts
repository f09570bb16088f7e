// Replies as the families of models give them, by their templates alone.

import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { openChat } from "../../../test/fixtures/chatHost.js";
import type { ChatCompletionChunk } from "../../types/chat.js";

const REFERENCE = new URL("../../../test/reference/templates/", import.meta.url);
const template = (name: string) => readFileSync(new URL(`${name}.jinja`, REFERENCE), "utf8");

const parameters = {
  type: "object",
  properties: { city: { type: "string" }, days: { type: "integer" } },
  required: ["city"],
};
const tools = [{ type: "function", function: { name: "get_weather", parameters } }];

/** What each family's model says, and what it means. */
const replies: [name: string, says: string, reasoning: string | null, content: string | null, given: object][] = [
  [
    "qwen3_5",
    "A call, then.\n</think>\n\n<tool_call>\n<function=get_weather>\n<parameter=city>\nŁódź\n</parameter>\n<parameter=days>\n2\n</parameter>\n</function>\n</tool_call>",
    "A call, then.",
    null,
    { city: "Łódź", days: 2 },
  ],
  [
    "qwen_thinking",
    '<think>\nA call.\n</think>\n\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "Łódź"}}\n</tool_call>',
    "A call.",
    null,
    { city: "Łódź" },
  ],
  [
    "granite_thinking",
    'Here is my thought process:\nHm.\n\nHere is my response:\n<|tool_call|>[{"name": "get_weather", "arguments": {"city": "Łódź"}}]',
    "Hm.",
    null,
    { city: "Łódź" },
  ],
  // The smallest thinks only where it is asked to.
  [
    "qwen3_5_small",
    "I look.\n\n<tool_call>\n<function=get_weather>\n<parameter=city>\nŁódź\nBałuty\n</parameter>\n</function>\n</tool_call>",
    null,
    "I look.\n\n",
    { city: "Łódź\nBałuty" },
  ],
  [
    "granite_response",
    '<think>A call, then.</think> <|tool_call|>[{"name": "get_weather", "arguments": {"city": "Łódź"}}]',
    "A call, then.",
    null,
    { city: "Łódź" },
  ],
  [
    "granite4",
    '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Łódź"}}\n</tool_call>',
    null,
    null,
    { city: "Łódź" },
  ],
  [
    "ministral",
    '[THINK]Hm.[/THINK]I ask.[TOOL_CALLS]get_weather[ARGS]{"city": "Łódź"}',
    "Hm.",
    "I ask.",
    { city: "Łódź" },
  ],
  [
    "mistral_strict",
    '[TOOL_CALLS] [{"name": "get_weather", "arguments": {"city": "Łódź"}, "id": "abcdef123"}]',
    null,
    null,
    { city: "Łódź" },
  ],
  [
    "phi",
    '<|tool_call|>[{"name": "get_weather", "arguments": {"city": "Łódź"}}]<|/tool_call|>',
    null,
    null,
    { city: "Łódź" },
  ],
  [
    "smollm",
    '<think>\nHm.\n</think>\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "Łódź"}}\n</tool_call>',
    "Hm.",
    null,
    { city: "Łódź" },
  ],
  ["gemma_parts", '[get_weather(city="Łódź", days=2)]', null, null, { city: "Łódź", days: 2 }],
  ["llama3_tools", '{"name": "get_weather", "parameters": {"city": "Łódź"}}', null, null, { city: "Łódź" }],
];

function assembled(chunks: ChatCompletionChunk[]) {
  const deltas = chunks.flatMap((chunk) => chunk.choices.map(({ delta }) => delta));
  const pieces = deltas.flatMap((delta) => delta.tool_calls ?? []);
  return {
    reasoning: deltas.map((delta) => delta.reasoning ?? "").join(""),
    content: deltas.map((delta) => delta.content ?? "").join(""),
    name: pieces.map((piece) => piece.function.name ?? "").join(""),
    given: pieces.map((piece) => piece.function.arguments ?? "").join(""),
  };
}

describe.each(replies)("%s", (name, says, reasoning, content, given) => {
  test("thoughts, text and calls are told apart, whole and streamed", async () => {
    const { ask, chunks } = await openChat({ says, template: template(name) });
    const choice = (await ask({ tools })).choices[0]!;
    expect(choice).toMatchObject({ finish_reason: "tool_calls", message: { reasoning, content } });
    const { function: called } = choice.message.tool_calls![0]!;
    expect([called.name, JSON.parse(called.arguments)]).toEqual(["get_weather", given]);
    const streamed = assembled(await chunks({ tools }));
    expect(streamed).toMatchObject({ reasoning: reasoning ?? "", content: content ?? "", name: "get_weather" });
    expect(JSON.parse(streamed.given)).toEqual(given);
  });

  test.skipIf(content !== null)("a call can be forced, after the thoughts", async () => {
    const { ask } = await openChat({ says, template: template(name) });
    for (const tool_choice of ["required", { type: "function", function: { name: "get_weather" } }]) {
      const choice = (await ask({ tools, tool_choice })).choices[0]!;
      expect(choice).toMatchObject({ finish_reason: "tool_calls", message: { reasoning, content: null } });
      expect(JSON.parse(choice.message.tool_calls![0]!.function.arguments)).toEqual(given);
    }
  });
});

test("what a Mistral called and a tool answered goes back into the next prompt", async () => {
  const says = replies.find(([name]) => name === "mistral_strict")![1];
  const { ask } = await openChat({ says, template: template("mistral_strict") });
  const { message } = (await ask({ tools })).choices[0]!;
  const { id } = message.tool_calls![0]!;
  expect(id).toMatch(/^[a-z0-9]{9}$/);
  const answered = [
    { role: "user", content: "Weather?" },
    message,
    { role: "tool", tool_call_id: id, content: "grey" },
  ];
  const next = await ask({ tools, messages: answered });
  expect(next.usage.prompt_tokens).toBeGreaterThan(20);
});

test("any of the end tokens that a folder lists ends a reply", async () => {
  const chat = await openChat({ draws: [7, 8, 901], generationConfig: { eos_token_id: [900, 901] } });
  expect((await chat.ask()).choices[0]).toMatchObject({ finish_reason: "stop", stop_reason: 901 });
});
