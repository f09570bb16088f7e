// Token limits and truncation, around a context of 256 tokens.

import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { cpuMilliseconds } from "../fixtures/cpuTime.js";
import { CONTEXT } from "./bigramModel.js";
import { scriptedModel, start } from "./scripted.js";
import { Served } from "./served.js";

let served: Served;
beforeAll(async () => {
  const models = await Promise.all([
    scriptedModel("m"),
    scriptedModel("short", { generation: { eos_token_id: 256, max_new_tokens: 7 } }),
  ]);
  // Replies without end take their time where nothing of them is guessed.
  served = await Served.open({ models: models.map(({ model }) => model), speculation: "none" });
});
afterAll(() => served?.close());

/** Tokens of the template around a message's bytes. */
const AROUND = 3;
const messages = (promptTokens: number) => [{ role: "user", content: "y".repeat(promptTokens - AROUND) }];
/** Never ends by itself: one "tick" more after each "tock". */
const endless = start("[loop]");
const endlessTokens = 1;

async function outputs(body: Record<string, unknown>): Promise<{ finish: string; prompt: number; output: number }> {
  const { choices, usage } = await served.chat({ ...endless, ...body });
  return { finish: choices[0]!.finish_reason, prompt: usage.prompt_tokens, output: usage.completion_tokens };
}

describe("output tokens", () => {
  test("go to the end of the context without a limit", async () => {
    expect(await outputs({ messages: messages(199) })).toEqual({
      finish: "length",
      prompt: 200,
      output: CONTEXT - 200,
    });
  });

  test("or to the model's max_new_tokens", async () => {
    expect(await outputs({ model: "short", messages: messages(19) })).toMatchObject({ finish: "length", output: 7 });
    // A request's own limit may be higher.
    expect(await outputs({ model: "short", messages: messages(19), max_tokens: 9 })).toMatchObject({ output: 9 });
    // Where less is left than that, less.
    expect(await outputs({ model: "short", messages: messages(252) })).toMatchObject({ output: 3 });
  });

  test("max_completion_tokens wins over max_tokens", async () => {
    expect(await outputs({ max_tokens: 9, max_completion_tokens: 4 })).toMatchObject({ output: 4 });
    expect(await outputs({ max_tokens: 4 })).toMatchObject({ output: 4 });
  });

  test("are lowered to the room that the prompt leaves", async () => {
    for (const max_tokens of [56, 57, CONTEXT]) {
      const filled = await outputs({ ...endless, messages: messages(199), max_tokens });
      expect(filled).toMatchObject({ finish: "length", output: 56 });
    }
  });

  test.each(["max_tokens", "max_completion_tokens"])("%s beyond the context is that field's fault", async (field) => {
    const refusal = await served.refusal({ [field]: CONTEXT + 1 }, field);
    expect(refusal.error.param).toBe(field);
  });

  test("a prompt that fills the context leaves no room", async () => {
    await served.refusal({ messages: messages(CONTEXT) }, "messages");
    expect(await outputs({ messages: messages(CONTEXT - 1 - endlessTokens) })).toMatchObject({ output: 1 });
  });

  test("a prompt beyond the context is refused, a huge one without being encoded", async () => {
    const refusal = await served.refusal({ messages: messages(CONTEXT + 50) }, "messages");
    expect(refusal.error.param).toBe("input_tokens");
    const before = cpuMilliseconds();
    const huge = await served.refusal({ messages: messages(3_000_000) }, "messages");
    expect(huge.error.param).toBe("input_text");
    expect(cpuMilliseconds() - before).toBeLessThan(5000);
  });

  test("min_tokens is held against the limit that counts", async () => {
    await served.refusal({ messages: messages(200), min_tokens: 57 }, "min_tokens");
    await served.refusal({ model: "short", min_tokens: 8 }, "min_tokens");
    await served.chat({ model: "short", min_tokens: 7 });
  });
});

describe("truncate_prompt_tokens", () => {
  const counted = { messages: [{ role: "user", content: "abcdefgh" }], return_token_ids: true };

  test("keeps the last tokens, and says so", async () => {
    const whole = await served.chat({ ...counted, max_tokens: 1 });
    const cut = await served.chat({ ...counted, max_tokens: 1, truncate_prompt_tokens: 4 });
    expect(cut.prompt_token_ids).toEqual(whole.prompt_token_ids!.slice(-4));
    expect(cut.usage.prompt_tokens).toBe(4);
  });

  test("does nothing to a shorter prompt", async () => {
    const whole = await served.chat({ ...counted, max_tokens: 1 });
    const cut = await served.chat({ ...counted, max_tokens: 1, truncate_prompt_tokens: 200 });
    expect(cut.prompt_token_ids).toEqual(whole.prompt_token_ids);
  });

  test("-1 keeps what the output leaves room for", async () => {
    const long = messages(CONTEXT + 100);
    expect(await outputs({ messages: long, truncate_prompt_tokens: -1, max_tokens: 56 })).toMatchObject({
      prompt: 200,
      output: 56,
    });
    expect(await outputs({ messages: long, truncate_prompt_tokens: -1 })).toMatchObject({ prompt: 255, output: 1 });
  });

  test("may leave the output less room than it asks for, but not exceed the context", async () => {
    const long = { messages: messages(CONTEXT + 100), max_tokens: 56 };
    expect(await outputs({ ...long, truncate_prompt_tokens: 201 })).toMatchObject({ prompt: 201, output: 55 });
    await served.refusal({ truncate_prompt_tokens: CONTEXT + 1 }, "truncate_prompt_tokens");
  });

  test("keeps the end that truncation_side does not cut", async () => {
    const [all, left, right] = await Promise.all(
      [{}, { truncate_prompt_tokens: 3 }, { truncate_prompt_tokens: 3, truncation_side: "right" }].map(async (body) => {
        return (await served.chat({ ...body, max_tokens: 1, return_token_ids: true })).prompt_token_ids!;
      }),
    );
    expect([left, right]).toEqual([all!.slice(-3), all!.slice(0, 3)]);
  });

  test("makes a prompt fit that would not", async () => {
    expect(await outputs({ messages: messages(400), truncate_prompt_tokens: 100, max_tokens: 5 })).toEqual({
      finish: "length",
      prompt: 100,
      output: 5,
    });
  });
});
