import { beforeAll, describe, expect, test } from "vitest";
import { CHATML_WITH_TOOLS, type ChatHostOptions, openChat, type TestChat } from "../../test/fixtures/chatHost.js";
import { NotFoundError, RateLimitError, ValidationError } from "../errors.js";
import type { ChatCompletionChunk } from "../types/chat.js";

/** The chat of a model that always says the same. */
const says = (text: string, options: ChatHostOptions = {}) => openChat({ says: text, ...options });

const contentOf = (chunks: ChatCompletionChunk[], index = 0): string =>
  chunks
    .flatMap((chunk) => chunk.choices)
    .filter((choice) => choice.index === index)
    .map((choice) => choice.delta.content ?? "")
    .join("");

async function refusal(asking: Promise<unknown>): Promise<ValidationError> {
  const error = await asking.then(
    () => new Error("accepted"),
    (reason: unknown) => reason,
  );
  expect(error).toBeInstanceOf(ValidationError);
  return error as ValidationError;
}

describe("the answer in one piece", () => {
  test("has every key, nulls written out", async () => {
    const { ask, tokenizer } = await says("Hello there");
    const promptTokens = tokenizer.encode("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n").length;
    const completionTokens = tokenizer.encode("Hello there").length + 1;
    const before = Math.floor(Date.now() / 1000);
    const answer = await ask();
    expect(answer.id).toMatch(/^chatcmpl-[0-9a-f-]{36}$/);
    expect(answer.created).toBeGreaterThanOrEqual(before);
    expect({ ...answer, id: "", created: 0 }).toStrictEqual({
      id: "",
      object: "chat.completion",
      created: 0,
      model: "base",
      choices: [
        {
          index: 0,
          message: {
            role: "assistant",
            content: "Hello there",
            refusal: null,
            annotations: null,
            audio: null,
            function_call: null,
            reasoning: null,
          },
          logprobs: null,
          finish_reason: "stop",
          stop_reason: null,
          token_ids: null,
        },
      ],
      service_tier: null,
      system_fingerprint: "anneal-1.2.3-01234567",
      usage: {
        prompt_tokens: promptTokens,
        total_tokens: promptTokens + completionTokens,
        completion_tokens: completionTokens,
        prompt_tokens_details: { cached_tokens: 0 },
      },
      prompt_logprobs: null,
      prompt_token_ids: null,
      kv_transfer_params: null,
    });
  });

  test("request_id is in the id", async () => {
    expect((await (await says("a")).ask({ request_id: "mine" })).id).toBe("chatcmpl-mine");
  });

  test("a trained model is named with its step, and an unknown one is not found", async () => {
    const { ask, pins } = await says("a");
    expect((await ask({ model: "trained" })).model).toBe("wandb-artifact:///e/p/n:step3");
    await expect(ask({ model: "nobody" })).rejects.toBeInstanceOf(NotFoundError);
    expect(pins).toEqual({ taken: 1, released: 1 });
  });

  test("n choices come in order, the prompt counted once", async () => {
    const { ask, tokenizer } = await openChat();
    const answer = await ask({ n: 4, seed: 5, max_tokens: 10, ignore_eos: true });
    expect(answer.choices.map((choice) => choice.index)).toEqual([0, 1, 2, 3]);
    expect(new Set(answer.choices.map((choice) => choice.message.content)).size).toBe(4);
    expect(answer.usage.completion_tokens).toBe(40);
    expect(answer.usage.prompt_tokens).toBe(
      tokenizer.encode("<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n").length,
    );
  });

  test("with temperature 0 all choices are equal", async () => {
    const answer = await (await openChat()).ask({ n: 3, temperature: 0, max_tokens: 8 });
    expect(new Set(answer.choices.map((choice) => choice.message.content)).size).toBe(1);
  });

  test("the cache shows in usage", async () => {
    const { ask } = await says("a");
    const messages = [{ role: "user", content: "word ".repeat(100) }];
    expect((await ask({ messages })).usage.prompt_tokens_details.cached_tokens).toBe(0);
    const again = (await ask({ messages })).usage;
    expect(again.prompt_tokens_details.cached_tokens).toBe(Math.floor((again.prompt_tokens - 1) / 64) * 64);
    expect((await ask({ messages, cache_salt: "s" })).usage.prompt_tokens_details.cached_tokens).toBe(0);
  });
});

describe("the answer in chunks", () => {
  test("role first, then content, the last with the reason, then usage", async () => {
    const { chunks, ask } = await says("Hello there, you");
    const all = await chunks({ stream_options: { include_usage: true } });
    const whole = await ask();
    expect(all[0]).toMatchObject({
      object: "chat.completion.chunk",
      choices: [{ index: 0, delta: { role: "assistant", content: "" }, logprobs: null, finish_reason: null }],
      prompt_token_ids: null,
    });
    expect(contentOf(all)).toBe("Hello there, you");
    const last = all.at(-2)!.choices[0]!;
    expect(last).toMatchObject({ finish_reason: "stop", stop_reason: null });
    for (const chunk of all.slice(0, -2)) expect(chunk.choices[0]!.finish_reason).toBeNull();
    expect(all.at(-1)).toMatchObject({ choices: [], usage: whole.usage });
    expect(new Set(all.map((chunk) => chunk.id)).size).toBe(1);
    expect(new Set(all.map((chunk) => chunk.created)).size).toBe(1);
    for (const chunk of all.slice(1)) expect(chunk).not.toHaveProperty("prompt_token_ids");
    for (const chunk of all.slice(0, -1)) expect(chunk.usage ?? null).toBeNull();
  });

  test("without include_usage there is no usage, and the fingerprint is on the last chunk", async () => {
    const all = await (await says("Hello")).chunks();
    for (const chunk of all) expect(chunk.usage ?? null).toBeNull();
    expect(all.at(-1)).toMatchObject({ system_fingerprint: "anneal-1.2.3-01234567" });
    expect(all.at(-1)!.choices[0]!.finish_reason).toBe("stop");
  });

  test("continuous usage counts each choice so far, and the totals at the end", async () => {
    const { chunks } = await openChat();
    const all = await chunks({
      n: 2,
      seed: 1,
      max_tokens: 5,
      ignore_eos: true,
      return_token_ids: true,
      stream_options: { include_usage: true, continuous_usage_stats: true },
    });
    const seen = [0, 0];
    for (const chunk of all.slice(0, -1)) {
      const choice = chunk.choices[0]!;
      seen[choice.index]! += choice.token_ids?.length ?? 0;
      expect(chunk.usage!.completion_tokens).toBe(seen[choice.index]);
    }
    expect(all[0]!.usage!.completion_tokens).toBe(0);
    expect(all.at(-1)!.usage!.completion_tokens).toBe(10);
    const without = await chunks({ stream_options: { continuous_usage_stats: true } });
    for (const chunk of without) expect(chunk.usage ?? null).toBeNull();
  });

  test("choices interleave, each finishing once, with the text of the answer in one piece", async () => {
    const { chunks, ask } = await openChat();
    const params = { n: 3, seed: 9, max_tokens: 12 };
    const all = await chunks(params);
    const whole = await ask(params);
    for (const { index, message } of whole.choices) {
      expect(contentOf(all, index)).toBe(message.content);
      const ended = all.filter((chunk) => chunk.choices[0]!.index === index && chunk.choices[0]!.finish_reason);
      expect(ended).toHaveLength(1);
    }
    const order = all.map((chunk) => chunk.choices[0]!.index);
    expect(order.indexOf(2)).toBeLessThan(order.lastIndexOf(0));
  });

  test("a bad request is refused before there is a stream", async () => {
    const { stream } = await says("a");
    await refusal(stream({ temperature: -1 }));
    await refusal(stream({ logit_bias: { 100000: 1 } }));
    await refusal(stream({ max_tokens: 100000 }));
  });

  test("leaving the loop aborts, also before the first chunk", async () => {
    const { stream, loop, pins } = await openChat();
    for await (const _ of await stream({ ignore_eos: true, max_tokens: 900 })) break;
    const chunks = await stream({ ignore_eos: true, max_tokens: 900 });
    await chunks[Symbol.asyncIterator]().return!();
    expect(loop.stats()).toMatchObject({ running: 0, waiting: 0, cacheUsage: 0 });
    await new Promise((resolve) => setImmediate(resolve));
    expect(pins).toEqual({ taken: 2, released: 2 });
  });
});

describe("aborting", () => {
  test("rejects with the signal's reason", async () => {
    const { ask, stream, loop } = await openChat();
    const abort = new AbortController();
    const asking = ask({ ignore_eos: true, max_tokens: 900 }, abort.signal);
    const chunks = await stream({ ignore_eos: true, max_tokens: 900 }, abort.signal);
    const reading = (async () => {
      for await (const _ of chunks);
    })();
    setTimeout(() => abort.abort("enough"), 10);
    await expect(asking).rejects.toBe("enough");
    await expect(reading).rejects.toBe("enough");
    expect(loop.stats()).toMatchObject({ running: 0, waiting: 0 });
    await expect(ask({}, abort.signal)).rejects.toBe("enough");
  });

  test("a full queue is refused with 429", async () => {
    const { ask, pins } = await openChat({ loop: { maxQueue: 1 } });
    const first = ask({ max_tokens: 3 });
    await expect(ask({ max_tokens: 3 })).rejects.toBeInstanceOf(RateLimitError);
    await first;
    await new Promise((resolve) => setImmediate(resolve));
    expect(pins.released).toBe(pins.taken);
  });
});

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

  test("prompt and limit together above the context are refused, not clamped", async () => {
    const error = await refusal(chat.ask({ max_tokens: 64 - prompt + 1 }));
    expect(error.param).toBe("input_tokens");
    for (const number of [64, prompt, 64 - prompt + 1]) expect(error.message).toContain(String(number));
    expect((await chat.ask({ max_tokens: 64 - prompt })).usage.total_tokens).toBe(64);
  });

  test("a prompt that fills or exceeds the context is refused", async () => {
    const long = (n: number) => ({ messages: [{ role: "user", content: "7".repeat(n) }], max_tokens: undefined });
    expect((await refusal(chat.ask(long(500)))).param).toBe("input_tokens");
    const fit = Array.from({ length: 100 }, (_, n) => n).find(
      (n) =>
        chat.tokenizer.encode(`<|im_start|>user\n${"7".repeat(n)}<|im_end|>\n<|im_start|>assistant\n`).length === 64,
    )!;
    expect((await refusal(chat.ask(long(fit)))).param).toBe("input_tokens");
  });

  test("a text that cannot fit is refused before it is encoded", async () => {
    const messages = [{ role: "user", content: "7".repeat(5_000_000) }];
    const started = performance.now();
    expect((await refusal(chat.ask({ messages }))).param).toBe("input_text");
    expect(performance.now() - started).toBeLessThan(1000);
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
    const over = chat.ask({ max_tokens: 10, truncate_prompt_tokens: 55 });
    expect((await refusal(over)).param).toBe("truncate_prompt_tokens");
  });
});

describe("the prompt", () => {
  /** The prompt's text, special tokens included. */
  const promptOf = async (chat: TestChat, params: object) => {
    const answer = await chat.ask({ max_tokens: 1, return_token_ids: true, ...params });
    return chat.tokenizer.decode(answer.prompt_token_ids!, { skipSpecialTokens: false });
  };
  const turns = [
    { role: "user", content: "Count" },
    { role: "assistant", content: "One, two," },
  ];

  test("is what the template makes of messages, tools, documents and its own variables", async () => {
    const template =
      "{{ bos_token }}{{ messages | length }} {{ tools[0].function.name }} {{ documents[0].title }} {{ mood }} " +
      "{{ reasoning_effort }} {{ add_generation_prompt }}";
    const chat = await openChat({ template });
    const tool = { type: "function", function: { name: "add", parameters: {} } };
    const text = await promptOf(chat, {
      tools: [tool],
      documents: [{ title: "Book", text: "..." }],
      chat_template_kwargs: { mood: "calm" },
      reasoning_effort: "low",
    });
    expect(text).toBe("1 add Book calm low True");
  });

  test("a request's own template replaces the model's, and is needed where there is none", async () => {
    const chat = await openChat({ template: null });
    expect((await refusal(chat.ask())).param).toBe("chat_template");
    expect(await promptOf(chat, { chat_template: "<{{ messages[0].content }}>" })).toBe("<Hi>");
    expect(await promptOf(chat, { chat_template_kwargs: { chat_template: "({{ messages[0].content }})" } })).toBe(
      "(Hi)",
    );
    expect((await refusal(chat.ask({ chat_template: "{% if %}" }))).param).toBe("chat_template");
    expect((await refusal(chat.ask({ chat_template: "{{ range(10**12) | list }}" }))).param).toBe("chat_template");
    expect((await refusal(chat.ask({ chat_template: "" }))).param).toBe("messages");
  });

  test("a template's own refusal is passed on", async () => {
    const chat = await openChat({ template: "{{ raise_exception('roles must alternate') }}" });
    const error = await refusal(chat.ask());
    expect(error.issues[0]).toMatchObject({ loc: ["body", "messages"], msg: "roles must alternate" });
  });

  test("messages that hold more than text are refused where they stand", async () => {
    const { ask } = await openChat();
    const content = [
      { type: "text", text: "see" },
      { type: "image_url", image_url: { url: "x" } },
    ];
    const error = await refusal(ask({ messages: [{ role: "user", content }] }));
    expect(error.issues[0]!.loc.slice(0, 5)).toEqual(["body", "messages", "0", "content", "1"]);
  });

  test("without a generation prompt the reply has the role of the last message", async () => {
    const chat = await says("more");
    const messages = [{ role: "user", content: "Count" }];
    expect(await promptOf(chat, { messages, add_generation_prompt: false })).toBe(
      "<|im_start|>user\nCount<|im_end|>\n",
    );
    const answer = await chat.ask({ messages, add_generation_prompt: false });
    expect(answer.choices[0]!.message.role).toBe("user");
    const all = await chat.chunks({ messages, add_generation_prompt: false });
    expect(all[0]!.choices[0]!.delta.role).toBe("user");
  });

  test("the last message can be continued", async () => {
    const chat = await says(" three");
    const expected = "<|im_start|>user\nCount<|im_end|>\n<|im_start|>assistant\nOne, two,";
    expect(await promptOf(chat, { messages: turns, continue_final_message: true })).toBe(expected);
    const both = { messages: turns, continue_final_message: true, add_generation_prompt: false };
    expect(await promptOf(chat, both)).toBe(expected);
    expect((await chat.ask(both)).choices[0]!.message).toMatchObject({ role: "assistant", content: " three" });
  });

  test("echo puts the last message before the reply when both have one role", async () => {
    const chat = await says(" three");
    const params = { messages: turns, continue_final_message: true, echo: true };
    const answer = await chat.ask(params);
    const plain = await chat.ask({ ...params, echo: false });
    expect(answer.choices[0]!.message.content).toBe("One, two, three");
    expect(answer.usage.completion_tokens).toBe(plain.usage.completion_tokens);
    expect(answer.prompt_logprobs).toHaveLength(answer.usage.prompt_tokens);
    expect(answer.usage.prompt_tokens_details.cached_tokens).toBe(0);
    expect(plain.prompt_logprobs).toBeNull();
    const all = await chat.chunks(params);
    expect(all[1]!.choices[0]!.delta).toEqual({ content: "One, two," });
    expect(contentOf(all)).toBe("One, two, three");
    expect((await chat.ask({ echo: true })).choices[0]!.message.content).toBe(" three");
  });

  test("add_special_tokens leaves it to the tokenizer to add some", async () => {
    const chat = await openChat();
    const plain = await promptOf(chat, {});
    // This tokenizer adds none.
    expect(await promptOf(chat, { add_special_tokens: true })).toBe(plain);
  });
});

describe("stopping", () => {
  const text = "one two three four";

  test("at a stop string, cut before it or after it, all sampled tokens kept", async () => {
    const { ask, tokenizer } = await says(text);
    const cut = await ask({ stop: ["two th"], return_token_ids: true });
    expect(cut.choices[0]).toMatchObject({ finish_reason: "stop", stop_reason: "two th" });
    expect(cut.choices[0]!.message.content).toBe("one ");
    expect(tokenizer.decode(cut.choices[0]!.token_ids!)).toMatch(/^one two th/);
    expect(cut.usage.completion_tokens).toBe(cut.choices[0]!.token_ids!.length);
    const kept = await ask({ stop: "two th", include_stop_str_in_output: true });
    expect(kept.choices[0]!.message.content).toBe("one two th");
    expect((await ask({ stop: ["five"] })).choices[0]!.message.content).toBe(text);
  });

  test.each([
    [["two th"], false],
    [["two th"], true],
    [["zzzzzzzz", "fou"], false],
    [["never to be seen"], false],
  ])("streamed text is the same for %o, included %s", async (stop, include_stop_str_in_output) => {
    const { ask, chunks } = await says(text);
    const params = { stop, include_stop_str_in_output };
    const whole = (await ask(params)).choices[0]!;
    const all = await chunks(params);
    expect(contentOf(all)).toBe(whole.message.content);
    expect(all.at(-1)!.choices[0]).toMatchObject({
      finish_reason: whole.finish_reason,
      stop_reason: whole.stop_reason,
    });
  });

  test("a stop string overrides the length verdict of the same token", async () => {
    const { ask, tokenizer } = await says(text);
    const max_tokens = tokenizer.encode("one two").length;
    expect((await ask({ max_tokens, stop: ["two"] })).choices[0]).toMatchObject({
      finish_reason: "stop",
      stop_reason: "two",
    });
  });

  test("the prompt is not searched", async () => {
    const { ask } = await says(text);
    expect((await ask({ stop: ["Hi"] })).choices[0]!.finish_reason).toBe("stop");
    expect((await ask({ stop: ["Hi"] })).choices[0]!.stop_reason).toBeNull();
  });

  test("stop_token_ids and further ends of sequence are named, the primary one is not", async () => {
    const { ask, tokenizer } = await openChat({ draws: [7, 8, 900] });
    expect((await ask()).choices[0]).toMatchObject({ finish_reason: "stop", stop_reason: 900 });
    const at = (await ask({ stop_token_ids: [8], return_token_ids: true })).choices[0]!;
    expect(at).toMatchObject({ finish_reason: "stop", stop_reason: 8, token_ids: [7, 8] });
    expect(at.message.content).toBe(tokenizer.decode([7]));
    const kept = (await ask({ stop_token_ids: [8], include_stop_str_in_output: true })).choices[0]!;
    expect(kept.message.content).toBe(tokenizer.decode([7, 8]));
  });

  test("ignore_eos goes on", async () => {
    const { ask, tokenizer } = await openChat();
    const eos = tokenizer.eosId!;
    const chat = await openChat({ draws: [7, eos, 7, 900, 7, 7] });
    expect((await chat.ask({ max_tokens: 6 })).usage.completion_tokens).toBe(2);
    expect((await chat.ask({ max_tokens: 6, ignore_eos: true })).usage.completion_tokens).toBe(6);
    const stops = { max_tokens: 6, ignore_eos: true, stop_token_ids: [900] };
    expect((await chat.ask(stops)).choices[0]!.stop_reason).toBe(900);
    await ask({ max_tokens: 1 });
  });

  test("min_tokens: stop strings count only behind it", async () => {
    const { ask, tokenizer } = await says("one two one two");
    const min_tokens = tokenizer.encode("one two").length;
    expect((await ask({ stop: ["two"] })).choices[0]!.message.content).toBe("one ");
    expect((await ask({ stop: ["two"], min_tokens })).choices[0]!.message.content).toBe("one two one ");
  });

  test("repetition", async () => {
    const { ask } = await openChat({ draws: Array.from({ length: 50 }, (_, i) => 7 + (i % 2)) });
    const repetition_detection = { min_pattern_size: 1, max_pattern_size: 3, min_count: 4 };
    const { choices, usage } = await ask({ repetition_detection });
    expect(choices[0]).toMatchObject({ finish_reason: "repetition", stop_reason: "repetition_detected" });
    expect(usage.completion_tokens).toBe(8);
  });

  test("nothing permitted: stop, nothing appended", async () => {
    const { ask } = await openChat({ draws: [7, -1] });
    const { choices, usage } = await ask();
    expect(choices[0]).toMatchObject({ finish_reason: "stop", stop_reason: null });
    expect(usage.completion_tokens).toBe(1);
  });

  test("special tokens are shown when asked for", async () => {
    const { ask, tokenizer } = await openChat({ draws: [7, 901, 8, 902] });
    expect((await ask()).choices[0]!.message.content).toBe(tokenizer.decode([7, 8]));
    expect((await ask({ skip_special_tokens: false })).choices[0]!.message.content).toBe(
      tokenizer.decode([7, 901, 8], { skipSpecialTokens: false }),
    );
  });
});

describe("sampling settings reach the device", () => {
  const settingsOf = async (params: object, options: ChatHostOptions = {}) => {
    const { ask, device } = await openChat({ draws: [7, 902], ...options });
    const slots: Parameters<typeof device.openSlot>[0][] = [];
    const open = device.openSlot.bind(device);
    device.openSlot = (slot) => {
      slots.push(slot);
      return open(slot);
    };
    await ask(params);
    return slots;
  };
  const folder = { temperature: 0.6, top_p: 0.9, top_k: 20, min_p: 0.1, repetition_penalty: 1.2 };
  const neutral = { temperature: 1, topP: 1, topK: 0, minP: 0, repetitionPenalty: 1 };

  test("the request goes before the folder, the folder before neutral values", async () => {
    expect((await settingsOf({}))[0]).toMatchObject({ ...neutral, frequencyPenalty: 0, presencePenalty: 0 });
    const model = { temperature: 0.6, topP: 0.9, topK: 20, minP: 0.1, repetitionPenalty: 1.2 };
    expect((await settingsOf({}, { generationConfig: folder }))[0]).toMatchObject(model);
    const asked = { temperature: 0.5, top_p: 0.8, top_k: -1, min_p: 0, repetition_penalty: 1 };
    expect((await settingsOf(asked, { generationConfig: folder }))[0]).toMatchObject({
      ...neutral,
      temperature: 0.5,
      topP: 0.8,
    });
    expect((await settingsOf({ temperature: null }, { generationConfig: folder }))[0]!.temperature).toBe(0.6);
  });

  test("trained models, and all with neutral defaults, do not look at the folder", async () => {
    expect((await settingsOf({ model: "trained" }, { generationConfig: folder }))[0]).toMatchObject(neutral);
    const options: ChatHostOptions = { generationConfig: folder, samplingDefaults: "neutral" };
    expect((await settingsOf({}, options))[0]).toMatchObject(neutral);
  });

  test("small temperatures are not raised", async () => {
    expect((await settingsOf({ temperature: 1e-6 }))[0]!.temperature).toBe(1e-6);
  });

  test("top_k above the vocabulary is off", async () => {
    expect((await settingsOf({ top_k: 5000 }))[0]!.topK).toBe(0);
    expect((await settingsOf({ top_k: 5 }))[0]!.topK).toBe(5);
  });

  test("seeds are exact, one more for each choice, -1 and absence random", async () => {
    const slots = await settingsOf({ seed: 9007199254740993n, n: 3 });
    expect(slots.map((slot) => [slot.seed, slot.choice])).toEqual([
      [9007199254740993n, 0],
      [9007199254740994n, 0],
      [9007199254740995n, 0],
    ]);
    const last = await settingsOf({ seed: 2n ** 63n - 1n, n: 2 });
    expect(last.map((slot) => slot.seed)).toEqual([2n ** 63n - 1n, -(2n ** 63n)]);
    const random = await Promise.all([{}, {}, { seed: -1 }, { seed: -1 }].map((params) => settingsOf(params)));
    expect(new Set(random.map((one) => one[0]!.seed)).size).toBe(4);
  });

  test("logit_bias is clamped, its ids checked", async () => {
    const slot = (await settingsOf({ logit_bias: { "9": 200, "3": -1.5, "7": -1000 } }))[0]!;
    expect([...slot.biasIds]).toEqual([3, 7, 9]);
    expect([...slot.biasValues]).toEqual([-1.5, -100, 100]);
    const { ask } = await openChat();
    for (const id of ["907", "-1"]) {
      const error = await refusal(ask({ logit_bias: { [id]: 1 } }));
      expect(error.param).toBe("logit_bias");
      expect(error.message).toContain("907");
    }
  });

  test("allowed_token_ids are checked", async () => {
    expect([...(await settingsOf({ allowed_token_ids: [9, 3, 9] }))[0]!.allowedIds!]).toEqual([3, 9]);
    const { ask } = await openChat();
    expect((await refusal(ask({ allowed_token_ids: [3, 907] }))).param).toBe("allowed_token_ids");
    expect((await refusal(ask({ allowed_token_ids: [-1] }))).param).toBe("allowed_token_ids");
  });

  test("bad_words: the bare tokens, and those after a space when they are as many and begin otherwise", async () => {
    const { tokenizer, ask } = await openChat();
    const encoded = (word: string) => [tokenizer.encode(word), tokenizer.encode(` ${word}`)] as const;
    const isBoth = (word: string) => {
      const [bare, spaced] = encoded(word);
      return bare.length === spaced.length && bare[0] !== spaced[0];
    };
    const words = ["the", "a", "of", "one", "word", "token", "hello", "zq", "x", "I"];
    const both = words.find(isBoth)!;
    const bareOnly = words.find((word) => !isBoth(word))!;
    const slot = (await settingsOf({ bad_words: [both, `  ${both}`, bareOnly] }))[0]!;
    expect(slot.badWords.map((word) => [...word])).toEqual([...encoded(both), ...encoded(both), encoded(bareOnly)[0]]);
    expect((await refusal(ask({ bad_words: ["fine", "  "] }))).param).toBe("bad_words.1");
  });

  test("min_tokens masks every end of sequence, even with ignore_eos", async () => {
    const slot = (await settingsOf({ min_tokens: 1, ignore_eos: true, stop_token_ids: [5], max_tokens: 2 }))[0]!;
    expect(slot.minTokens).toBe(1);
    expect([...slot.endIds]).toEqual([5, 900, 902]);
  });

  test("non-zero priority needs the priority scheduler", async () => {
    const { ask } = await openChat();
    expect((await refusal(ask({ priority: 1 }))).param).toBe("priority");
    await ask({ priority: 0, max_tokens: 1 });
    const other = await openChat({ loop: { scheduler: "priority" } });
    await other.ask({ priority: -3, max_tokens: 1 });
  });

  test("a constraint that cannot be enforced is refused where it stands", async () => {
    const { ask } = await openChat();
    const schema = { properties: { a: { type: "array", uniqueItems: true } } };
    const cases: [object, string][] = [
      [{ structured_outputs: { regex: "a(?=b)" } }, "structured_outputs.regex"],
      [{ structured_outputs: { json: schema } }, "structured_outputs.json.properties.a.uniqueItems"],
      [{ structured_outputs: { json: "{" } }, "structured_outputs.json"],
      [{ structured_outputs: { json: true, whitespace_pattern: "(" } }, "structured_outputs.whitespace_pattern"],
      [{ structured_outputs: { grammar: "root ::= x" } }, "structured_outputs.grammar"],
      [
        { structured_outputs: { structural_tag: { format: { type: "?" } } } },
        "structured_outputs.structural_tag.format.type",
      ],
      [{ structured_outputs: { json: { not: {} } } }, "structured_outputs.json"],
      [
        { response_format: { type: "json_schema", json_schema: { schema } } },
        "response_format.json_schema.schema.properties.a.uniqueItems",
      ],
      [{ response_format: { type: "structural_tag" } }, "response_format"],
    ];
    for (const [params, param] of cases) expect((await refusal(ask(params))).param).toBe(param);
    await ask({ response_format: { type: "text" }, max_tokens: 1 });
  });

  test("forced calls are refused with a constraint, and for parameters that cannot be enforced", async () => {
    const { ask } = await openChat({ template: CHATML_WITH_TOOLS });
    const parameters = { properties: { a: { uniqueItems: true } } };
    const tools = [
      { type: "function", function: { name: "f" } },
      { type: "function", function: { name: "g", parameters } },
    ];
    const param = "tools.1.function.parameters.properties.a.uniqueItems";
    expect((await refusal(ask({ tools, tool_choice: "required" }))).param).toBe(param);
    const named = { type: "function", function: { name: "g" } };
    expect((await refusal(ask({ tools, tool_choice: named }))).param).toBe(param);
    const constrained = { tools: tools.slice(0, 1), tool_choice: "required", response_format: { type: "json_object" } };
    expect((await refusal(ask(constrained))).param).toBe("response_format");
  });
});

describe("logprobs", () => {
  test("only as requested", async () => {
    const { ask } = await says("ab");
    expect((await ask()).choices[0]!.logprobs).toBeNull();
    expect((await ask({ logprobs: true, top_logprobs: null })).choices[0]!.logprobs).toBeNull();
  });

  test("one entry per output token, the end included, with its own text and bytes", async () => {
    const { ask, tokenizer } = await says("Hello you");
    const { choices } = await ask({ logprobs: true, return_token_ids: true });
    const ids = choices[0]!.token_ids!;
    expect(choices[0]!.logprobs!.content).toEqual(
      ids.map((id) => ({
        token: tokenizer.tokenText(id),
        logprob: -0.5,
        bytes: [...tokenizer.tokenBytes(id)],
        top_logprobs: [],
      })),
    );
    expect(ids.at(-1)).toBe(tokenizer.eosId);
  });

  test("a token that ends inside a character shows nothing of it, the one that completes it does", async () => {
    const { ask, tokenizer } = await says("a😀b");
    const content = (await ask({ logprobs: true })).choices[0]!.logprobs!.content;
    expect(tokenizer.encode("😀").length).toBeGreaterThan(1);
    expect(content.map((entry) => entry.token).join("")).toBe("a😀b<|im_end|>");
    expect(content.map((entry) => entry.token)).toContain("");
    expect(content.map((entry) => entry.token)).toContain("😀");
    const bytes = content.slice(0, -1).flatMap((entry) => entry.bytes);
    expect(new TextDecoder().decode(Uint8Array.from(bytes))).toBe("a😀b");
  });

  test("top_logprobs: exactly k, in the order of the device", async () => {
    const { ask, tokenizer } = await says("ab");
    const entries = (await ask({ logprobs: true, top_logprobs: 3 })).choices[0]!.logprobs!.content;
    expect(entries.length).toBe(tokenizer.encode("ab").length + 1);
    for (const entry of entries) {
      expect(entry.top_logprobs.map((top) => top.token)).toEqual([0, 1, 2].map((id) => tokenizer.tokenText(id)));
      for (const top of entry.top_logprobs) expect(top).toMatchObject({ logprob: -1, bytes: expect.any(Array) });
    }
    expect((await refusal(ask({ logprobs: true, top_logprobs: 21 }))).param).toBe("top_logprobs");
    expect((await refusal(ask({ logprobs: true, top_logprobs: -1 }))).param).toBe("top_logprobs");
    expect((await refusal(ask({ prompt_logprobs: 21 }))).param).toBe("prompt_logprobs");
  });

  test("token_id strings leave the bytes as they are", async () => {
    const { ask, tokenizer } = await says("ab");
    const params = { logprobs: true, top_logprobs: 1, return_tokens_as_token_ids: true, return_token_ids: true };
    const choice = (await ask(params)).choices[0]!;
    for (const [i, entry] of choice.logprobs!.content.entries()) {
      const id = choice.token_ids![i]!;
      expect(entry).toMatchObject({ token: `token_id:${id}`, bytes: [...tokenizer.tokenBytes(id)] });
      expect(entry.top_logprobs[0]).toMatchObject({ token: "token_id:0", bytes: [...tokenizer.tokenBytes(0)] });
    }
  });

  test("trained models return everything that training needs by default", async () => {
    const { ask, chunks } = await says("ab");
    const answer = await ask({ model: "trained" });
    expect(answer.prompt_token_ids).toHaveLength(answer.usage.prompt_tokens);
    const choice = answer.choices[0]!;
    expect(choice.token_ids).toHaveLength(answer.usage.completion_tokens);
    expect(choice.logprobs!.content.map((entry) => entry.token)).toEqual(
      choice.token_ids!.map((id) => `token_id:${id}`),
    );
    expect(choice.logprobs!.content[0]!.top_logprobs).toEqual([]);
    expect(choice).not.toHaveProperty("sampling_settings");
    const off = await ask({
      model: "trained",
      logprobs: false,
      return_token_ids: false,
      return_tokens_as_token_ids: false,
    });
    expect(off).toMatchObject({ prompt_token_ids: null, choices: [{ logprobs: null, token_ids: null }] });
    const all = await chunks({ model: "trained" });
    expect(all[0]!.prompt_token_ids).toEqual(answer.prompt_token_ids);
    expect(all.flatMap((chunk) => chunk.choices[0]!.token_ids ?? [])).toEqual(choice.token_ids);
    const streamed = all.flatMap((chunk) => chunk.choices[0]!.logprobs?.content ?? []);
    expect(streamed).toEqual(choice.logprobs!.content);
    for (const chunk of all) {
      const { logprobs, token_ids } = chunk.choices[0]!;
      expect(logprobs?.content.length ?? 0).toBe(token_ids?.length ?? 0);
    }
  });

  test("a trained model's choice carries its prompt when messages and tools alone do not make it", async () => {
    const { ask } = await says("ab");
    const tools = [{ type: "function", function: { name: "f" } }];
    for (const plain of [{}, { tools }, { chat_template_kwargs: {} }, { add_generation_prompt: true }]) {
      expect((await ask({ model: "trained", ...plain })).choices[0]).not.toHaveProperty("prompt_token_ids");
    }
    for (const other of [
      { chat_template_kwargs: { enable_thinking: false } },
      { reasoning_effort: "low" },
      { documents: [{ title: "t", text: "x" }] },
      { add_generation_prompt: false },
      { chat_template: "{% for m in messages %}{{ m.content }}{% endfor %}!" },
      { truncate_prompt_tokens: 4 },
    ]) {
      const answer = await ask({ model: "trained", ...other });
      expect(answer.choices[0]!.prompt_token_ids, JSON.stringify(other)).toEqual(answer.prompt_token_ids);
      expect((await ask(other)).choices[0]).not.toHaveProperty("prompt_token_ids");
    }
    const withheld = await ask({ model: "trained", return_token_ids: false, reasoning_effort: "low" });
    expect(withheld.choices[0]).not.toHaveProperty("prompt_token_ids");
  });

  test("a trained model's choice records every setting that was not neutral", async () => {
    const { ask } = await says("ab");
    const settings = { temperature: 0.7, top_p: 0.9, top_k: 3, min_p: 0.1, bad_words: ["x"], min_tokens: 1 };
    const answer = await ask({ model: "trained", ...settings, frequency_penalty: 1, logit_bias: { 5: 200 } });
    expect(answer.choices[0]!.sampling_settings).toEqual({
      ...settings,
      frequency_penalty: 1,
      logit_bias: { 5: 100 },
    });
    const neutral = { temperature: 1, top_p: 1, top_k: -1, min_p: 0, repetition_penalty: 1, bad_words: [] };
    expect((await ask({ model: "trained", ...neutral })).choices[0]).not.toHaveProperty("sampling_settings");
    expect((await ask(settings)).choices[0]).not.toHaveProperty("sampling_settings");
  });
});

describe("prompt logprobs", () => {
  test("one item per prompt token: null, then the token itself and the k likeliest", async () => {
    const { ask } = await says("ab");
    const answer = await ask({ prompt_logprobs: 2, return_token_ids: true });
    const items = answer.prompt_logprobs!;
    expect(items).toHaveLength(answer.usage.prompt_tokens);
    expect(items[0]).toBeNull();
    for (const [i, item] of items.entries()) {
      if (item === null) continue;
      expect(item).toHaveProperty(String(answer.prompt_token_ids![i]));
      expect([2, 3]).toContain(Object.keys(item).length);
      const ranks = Object.values(item).map((entry) => entry.rank);
      expect(ranks).toEqual(expect.arrayContaining([1, 2]));
      for (const entry of Object.values(item)) expect(typeof entry.decoded_token).toBe("string");
    }
    const own = (await ask({ prompt_logprobs: 0 })).prompt_logprobs!;
    for (const item of own.slice(1)) expect(Object.keys(item!)).toHaveLength(1);
  });

  test("such requests do not read the cache, but fill it", async () => {
    const { ask } = await says("ab");
    const messages = [{ role: "user", content: "word ".repeat(100) }];
    await ask({ messages, prompt_logprobs: 0 });
    expect((await ask({ messages, prompt_logprobs: 0 })).usage.prompt_tokens_details.cached_tokens).toBe(0);
    expect((await ask({ messages })).usage.prompt_tokens_details.cached_tokens).toBeGreaterThan(0);
  });

  test("are never streamed", async () => {
    const { chunks } = await says("ab");
    for (const chunk of await chunks({ prompt_logprobs: 0 })) expect(chunk).not.toHaveProperty("prompt_logprobs");
  });
});

describe("beam search", () => {
  test("answers with the best n, and streams each in one piece", async () => {
    const { ask, chunks } = await openChat();
    const params = { use_beam_search: true, n: 3, max_tokens: 6, length_penalty: 0 };
    const answer = await ask({ ...params, logprobs: true });
    expect(answer.choices).toHaveLength(3);
    const sums = answer.choices.map((choice) =>
      choice.logprobs!.content.reduce((sum, entry) => sum + entry.logprob, 0),
    );
    expect([...sums].sort((a, b) => b - a)).toEqual(sums);
    const all = await chunks(params);
    expect(all.map((chunk) => chunk.choices[0]!.index)).toEqual([0, 1, 2, 0, 1, 2]);
    for (const { index, message } of answer.choices) expect(contentOf(all, index)).toBe(message.content);
  });

  test("the seed has no effect, and widths above 10 work", async () => {
    const { ask } = await openChat();
    const params = { use_beam_search: true, n: 12, max_tokens: 4 };
    const texts = async (seed: number) => (await ask({ ...params, seed })).choices.map((one) => one.message.content);
    expect(await texts(1)).toEqual(await texts(2));
  });
});

test("metrics count what requests came to", async () => {
  const { ask, host, base, loop } = await says("ab");
  await ask({ n: 2 });
  const abort = new AbortController();
  abort.abort();
  await ask({ stop: ["b"] });
  await new Promise((resolve) => setImmediate(resolve));
  const families = host.metrics.families([{ id: base.id, stats: loop.stats() }]);
  const family = (name: string) => families.find((one) => one.name === name)!;
  expect(family("request_success").samples).toEqual([
    { labels: { model_name: "base", engine: "0", finished_reason: "stop" }, value: 3 },
  ]);
  const lengths = family("request_params_n");
  if (lengths.kind !== "histogram") throw new Error("not a histogram");
  expect(lengths.samples[0]).toMatchObject({ sum: 3, count: 2 });
  expect(lengths.samples[0]!.buckets.at(-1)).toEqual({ le: Number.POSITIVE_INFINITY, count: 2 });
});
