// Replies with and without guesses at the tokens to come: the same, token by token, and in fewer steps where they repeat what they have
// read.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { EngineCore } from "../../src/engine/core/core.js";
import { type ChatCompletionCreateParamsNonStreaming, type CompletionUsage, Engine } from "../../src/index.js";

const CODE = Array.from(
  { length: 6 },
  (_, i) => `def area_${i}(width, height):\n    return width * height + ${i}\n`,
).join("\n");

/** They go on when they would have ended, and repeat themselves. */
const LONG = { max_tokens: 120, ignore_eos: true, logprobs: true, top_logprobs: 2 };

const requests: Record<string, ChatCompletionCreateParamsNonStreaming> = {
  greedy: { messages: [{ role: "user", content: `Repeat this:\n${CODE}` }], temperature: 0, ...LONG },
  sampled: { messages: [{ role: "user", content: `Repeat this:\n${CODE}` }], temperature: 0.7, seed: 3, n: 3, ...LONG },
  "with penalties": {
    messages: [{ role: "user", content: 'Spell "planet" backwards, then "planet" again.' }],
    ...{ temperature: 0.4, seed: 5, frequency_penalty: 0.2, repetition_penalty: 1.05, ...LONG },
  },
  "by a schema": {
    messages: [{ role: "user", content: "Name the planets planet, comet, planet, comet." }],
    ...{ temperature: 0.5, seed: 9, max_tokens: 300 },
    response_format: {
      type: "json_schema",
      json_schema: {
        name: "names",
        schema: {
          type: "array",
          minItems: 6,
          maxItems: 6,
          items: {
            type: "object",
            properties: { name: { enum: ["planet", "comet", "planetoid"] }, kind: { enum: ["a body", "a boulder"] } },
            required: ["name", "kind"],
            additionalProperties: false,
          },
        },
      },
    },
  },
  "until a stop string": {
    messages: [{ role: "user", content: `Repeat this:\n${CODE}` }],
    ...{ temperature: 0, ...LONG, stop: ["3", "xyz"] },
  },
};

describe("guesses at the tokens to come", () => {
  let guessing: Engine;
  let plain: Engine;
  beforeAll(async () => {
    [guessing, plain] = await Promise.all([Engine.open(), Engine.open({ speculation: "none" })]);
  });
  afterAll(async () => {
    await Promise.all([guessing.close(), plain.close()]);
  });
  const statsOf = (engine: Engine) => (engine as unknown as { core: EngineCore }).core.defaultBase.loop.stats();

  it.each(Object.entries(requests))("change no reply: %s", async (_, request) => {
    const of = async (engine: Engine) => {
      const { choices, usage } = await engine.chat.completions.create(request);
      const text: string[] = [];
      for await (const { choices } of await engine.chat.completions.create({ ...request, stream: true })) {
        for (const { index, delta } of choices) text[index] = (text[index] ?? "") + (delta.content ?? "");
      }
      expect(text).toEqual(choices.map(({ message }) => message.content ?? ""));
      return { choices, completion_tokens: usage!.completion_tokens };
    };
    expect(await of(guessing)).toEqual(await of(plain));
  });

  it("are taken from what a request predicts, which changes no reply", async () => {
    const request = { messages: [{ role: "user", content: 'Spell "planet" backwards.' }], temperature: 0 };
    const textOf = async (engine: Engine, content?: string | { type: "text"; text: string }[]) => {
      const prediction = content === undefined ? null : { type: "content" as const, content };
      return (await engine.chat.completions.create({ ...request, prediction })).choices[0]!.message.content!;
    };
    const text = await textOf(plain);
    expect(text.length).toBeGreaterThan(4);
    expect(await textOf(plain, text)).toBe(text);
    // Of so short a reply nothing stands in the prompt.
    const { keptTokens } = statsOf(guessing);
    expect(await textOf(guessing)).toBe(text);
    expect(await textOf(guessing, "Something else entirely.")).toBe(text);
    expect(statsOf(guessing).keptTokens).toBe(keptTokens);
    const parts = [text.slice(0, 3), text.slice(3)].map((part) => ({ type: "text" as const, text: part }));
    // Whether any are guessed depends on what a row more has taken.
    for (let i = 0; i < 20 && statsOf(guessing).keptTokens === keptTokens; i++) {
      expect(await textOf(guessing, i % 2 === 0 ? parts : text)).toBe(text);
    }
    expect(statsOf(guessing).keptTokens).toBeGreaterThan(keptTokens);
    const wrong = { ...request, prediction: { type: "image", content: text } as never };
    await expect(guessing.chat.completions.create(wrong)).rejects.toMatchObject({ param: "prediction.type" });
  });

  it("from what a request predicts are told with its tokens", async () => {
    const request = { messages: [{ role: "user", content: 'Spell "planet" backwards.' }], temperature: 0 };
    const usageOf = async (engine: Engine, more: object, streaming: boolean) => {
      if (!streaming) return (await engine.chat.completions.create({ ...request, ...more })).usage;
      let usage: CompletionUsage | null | undefined;
      const options = { stream: true, stream_options: { include_usage: true } } as const;
      for await (const chunk of await engine.chat.completions.create({ ...request, ...more, ...options })) {
        usage = chunk.usage;
      }
      return usage!;
    };
    const { choices } = await plain.chat.completions.create(request);
    const prediction = { type: "content", content: choices[0]!.message.content! };
    const none = { accepted_prediction_tokens: 0, rejected_prediction_tokens: 0 };
    for (const streaming of [false, true]) {
      const details = await usageOf(plain, { prediction }, streaming).then((usage) => usage.completion_tokens_details);
      expect(details).toEqual({ reasoning_tokens: 0, ...none });
      const without = await usageOf(guessing, {}, streaming).then((usage) => usage.completion_tokens_details);
      expect(without).toEqual({ reasoning_tokens: 0 });
      let accepted = 0;
      // Whether any are guessed depends on what a row more has taken.
      for (let i = 0; i < 20 && accepted === 0; i++) {
        const { completion_tokens, completion_tokens_details } = await usageOf(guessing, { prediction }, streaming);
        accepted = completion_tokens_details!.accepted_prediction_tokens!;
        expect(accepted).toBeLessThanOrEqual(completion_tokens);
      }
      expect(accepted).toBeGreaterThan(0);
    }
  });

  it("save steps, and are counted", async () => {
    const with_ = statsOf(guessing);
    const without = statsOf(plain);
    expect(without).toMatchObject({ drafts: 0, draftedTokens: 0, keptTokens: 0 });
    // How many are guessed depends on what a row more has taken.
    expect(with_.keptTokens).toBeGreaterThan(0);
    expect(with_.steps).toBeLessThan(without.steps);
    const accepted = (await guessing.metrics()).find(({ name }) => name === "spec_decode_num_accepted_tokens");
    expect(accepted?.samples).toMatchObject([{ value: with_.keptTokens }]);
  });
});
