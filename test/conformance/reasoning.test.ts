// Reasoning: models that think before they answer.

import { describe, expect, test } from "vitest";
import { plainCalls } from "./calls.js";
import { start } from "./scripted.js";
import { ScriptedReplies } from "./scriptedReplies.js";
import { hermes, thinking, tools } from "./toolModels.js";

const scripts = new ScriptedReplies({ hermes, thinking });
const { reply } = scripts;

describe("reasoning", () => {
  const think = { model: "thinking", ...start("[think]"), logprobs: true, return_token_ids: true };

  test("stands apart from the content, streamed too", async () => {
    const { message, finish_reason } = await reply(think);
    expect(message).toMatchObject({ reasoning: "Two and two.", content: "Four" });
    expect(finish_reason).toBe("stop");
    const chunks = await scripts.served.chunks({ ...think, temperature: 0 });
    const last = chunks.findLastIndex((chunk) => chunk.choices[0]!.delta.reasoning);
    expect(chunks.slice(0, last).every((chunk) => !chunk.choices[0]!.delta.content)).toBe(true);
  });

  test("may begin in the prompt", async () => {
    const body = { model: "thinking", chat_template: "x<|assistant|>{# </think> #}<think>", temperature: 0 };
    expect((await reply(body)).message).toMatchObject({ reasoning: "Two and two.", content: "Four" });
  });

  test("may be what a grammar asks for, in tokens of their own", async () => {
    const structured_outputs = { regex: "<think>[^<]*</think>\\s*Four" };
    const choice = await reply({ ...think, structured_outputs, temperature: 0 });
    expect(choice).toMatchObject({ finish_reason: "stop", message: { reasoning: "Two and two.", content: "Four" } });
  });

  test("that never ends has no content", async () => {
    const { message, finish_reason } = await reply({ model: "thinking", ...start("[long]"), max_tokens: 4 });
    expect(message.content).toBeNull();
    expect(message.reasoning).toMatch(/^Hm and hm/);
    expect(finish_reason).toBe("length");
  });

  test("comes before calls", async () => {
    const { message } = await reply({ model: "thinking", tools, ...start("[call]") });
    expect(message).toMatchObject({ reasoning: "So a call.", content: null });
    expect(plainCalls(message.tool_calls)).toEqual([["add", "{}"]]);
  });

  test("include_reasoning false withholds it, with logprobs and ids, but counts it", async () => {
    const { choices, usage } = await scripts.served.chat({ ...think, include_reasoning: false });
    expect(choices[0]).toMatchObject({
      message: { reasoning: null, content: "Four" },
      logprobs: null,
      token_ids: null,
    });
    expect(usage.completion_tokens).toBe(6);
    for (const chunk of await scripts.served.chunks({ ...think, include_reasoning: false })) {
      expect(chunk.choices[0]!.delta).not.toHaveProperty("reasoning");
      expect(chunk.choices[0]!.logprobs).toBeNull();
    }
  });

  test("suspends a constraint where the model thinks, and only there", async () => {
    const constrained = { model: "thinking", structured_outputs: { choice: ["Yes", "<b>"] } };
    const { message } = await reply({ ...constrained, ...start("[think]") });
    expect(message.reasoning).toBe("Two and two.");
    expect(["Yes", "<b>"]).toContain(message.content);
    const { choices } = await scripts.served.chat({ ...constrained, n: 20, temperature: 2, seed: 1 });
    for (const { message } of choices) expect(message.reasoning).toBeNull();
    expect(new Set(choices.map(({ message }) => message.content))).toEqual(new Set(["Yes", "<b>"]));
  });

  test("a model that does not think has none", async () => {
    expect(
      (await scripts.served.chat({ model: "hermes", include_reasoning: false, logprobs: true })).choices[0],
    ).toMatchObject({
      message: { reasoning: null, content: "Four." },
      logprobs: { content: [{}, {}] },
    });
  });

  test("special tokens of the formats do not show in plain replies", async () => {
    const { message } = await reply({ model: "thinking", ...start("[call]") });
    expect(message.content).toBe('{"name": "add", "arguments": {}}');
  });
});
