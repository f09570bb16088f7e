import { beforeAll, describe, expect, test } from "vitest";
import { openChat, refusal, type TestChat } from "../../../test/fixtures/chatHost.js";
import { cpuMilliseconds } from "../../../test/fixtures/cpuTime.js";

const code = "context_length_exceeded";

describe("token limits", () => {
  let chat: TestChat;
  let prompt: number;
  beforeAll(async () => {
    chat = await openChat({ loop: { contextLength: 64 }, draws: Array.from({ length: 100 }, () => 7) });
    prompt = (await chat.ask({ max_tokens: 1 })).usage.prompt_tokens;
  });

  test("without a limit the reply goes to the end of the context", async () => {
    const { usage, choices } = await chat.ask();
    expect(usage.total_tokens).toBe(64);
    expect(choices[0]).toMatchObject({ finish_reason: "length", stop_reason: null });
  });

  test("or to max_new_tokens of the model's folder, which a trained model ignores", async () => {
    const draws = Array.from({ length: 100 }, () => 7);
    const limited = await openChat({ loop: { contextLength: 64 }, generationConfig: { max_new_tokens: 5 }, draws });
    expect((await limited.ask()).usage.completion_tokens).toBe(5);
    expect((await limited.ask({ max_tokens: 9 })).usage.completion_tokens).toBe(9);
    expect((await limited.ask({ model: "trained" })).usage.total_tokens).toBe(64);
  });

  test("max_completion_tokens wins over max_tokens", async () => {
    const { usage } = await chat.ask({ max_tokens: 3, max_completion_tokens: 4 });
    expect(usage.completion_tokens).toBe(4);
  });

  test("a limit above the context names its field", async () => {
    expect((await refusal(chat.ask({ max_tokens: 65 }))).param).toBe("max_tokens");
    expect((await refusal(chat.ask({ max_completion_tokens: 65 }))).param).toBe("max_completion_tokens");
  });

  test("a limit beyond what the prompt leaves is lowered to that room", async () => {
    for (const max_tokens of [64 - prompt, 64 - prompt + 1, 64]) {
      const { usage, choices } = await chat.ask({ max_tokens });
      expect(usage.total_tokens).toBe(64);
      expect(choices[0]!.finish_reason).toBe("length");
    }
  });

  test("a prompt that fills or exceeds the context is refused", async () => {
    const long = (n: number) => ({ messages: [{ role: "user", content: "7".repeat(n) }], max_tokens: undefined });
    expect(await refusal(chat.ask(long(500)))).toMatchObject({ param: "input_tokens", code });
    const fit = Array.from({ length: 100 }, (_, n) => n).find(
      (n) =>
        chat.tokenizer.encode(`<|im_start|>user\n${"7".repeat(n)}<|im_end|>\n<|im_start|>assistant\n`).length === 64,
    )!;
    expect(await refusal(chat.ask(long(fit)))).toMatchObject({ param: "input_tokens", code });
  });

  test("a text that cannot fit is refused before it is encoded", async () => {
    const messages = [{ role: "user", content: "7".repeat(5_000_000) }];
    // The thread that renders it may have to be started first.
    await refusal(chat.ask({ messages: [{ role: "user", content: "7".repeat(50_000) }] }));
    const started = cpuMilliseconds();
    expect(await refusal(chat.ask({ messages }))).toMatchObject({ param: "input_text", code });
    expect(cpuMilliseconds() - started).toBeLessThan(1000);
  });

  test("min_tokens above the limit is refused", async () => {
    expect((await refusal(chat.ask({ max_tokens: 3, min_tokens: 4 }))).param).toBe("min_tokens");
    expect((await refusal(chat.ask({ min_tokens: 64 }))).param).toBe("min_tokens");
  });

  test("truncate_prompt_tokens keeps the last tokens, and usage says so", async () => {
    const whole = await chat.ask({ max_tokens: 1, return_token_ids: true });
    const cut = await chat.ask({ max_tokens: 1, return_token_ids: true, truncate_prompt_tokens: 5 });
    expect(cut.prompt_token_ids).toEqual(whole.prompt_token_ids!.slice(-5));
    expect(cut.usage.prompt_tokens).toBe(5);
    const long = { messages: [{ role: "user", content: "7 ".repeat(500) }] };
    const most = await chat.ask({ ...long, max_tokens: 10, truncate_prompt_tokens: -1 });
    expect(most.usage).toMatchObject({ prompt_tokens: 54, completion_tokens: 10 });
    expect((await chat.ask({ ...long, truncate_prompt_tokens: -1 })).usage.total_tokens).toBe(64);
    for (const truncate_prompt_tokens of [0, 65]) {
      expect((await refusal(chat.ask({ truncate_prompt_tokens }))).param).toBe("truncate_prompt_tokens");
    }
    const lowered = await chat.ask({ ...long, max_tokens: 10, truncate_prompt_tokens: 60 });
    expect(lowered.usage).toMatchObject({ prompt_tokens: 60, completion_tokens: 4 });
    expect((await refusal(chat.ask({ ...long, truncate_prompt_tokens: 64 }))).param).toBe("input_tokens");
  });

  test("truncation_side says which end is kept", async () => {
    const params = { max_tokens: 1, return_token_ids: true };
    const whole = (await chat.ask(params)).prompt_token_ids!;
    const cut = async (truncation_side: string | null) =>
      (await chat.ask({ ...params, truncate_prompt_tokens: 3, truncation_side })).prompt_token_ids;
    expect(await cut("right")).toEqual(whole.slice(0, 3));
    expect(await cut("left")).toEqual(whole.slice(-3));
    expect(await cut(null)).toEqual(whole.slice(-3));
    expect((await chat.ask({ ...params, truncation_side: "right" })).prompt_token_ids).toEqual(whole);
  });
});
