// Replies with and without guesses at the tokens to come: the same, token by token, and in fewer steps where they repeat what they have
// read.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { EngineCore } from "../../src/engine/core/core.js";
import { type ChatCompletionCreateParamsNonStreaming, Engine } from "../../src/index.js";

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
