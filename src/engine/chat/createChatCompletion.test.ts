import { describe, expect, test } from "vitest";
import { contentOf, openChat, refusal, says } from "../../../test/fixtures/chatHost.js";
import { NotFoundError, RateLimitError } from "../../errors.js";

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
    expect(again.prompt_tokens_details.cached_tokens).toBe(Math.floor((again.prompt_tokens - 1) / 16) * 16);
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

  test("stream_interval gathers tokens, but for the first and the last chunk", async () => {
    const { chunks, tokenizer } = await says("Hello there, you are one of many");
    const every = await chunks({ return_token_ids: true, logprobs: true });
    const sizes = async (stream_interval: number) => {
      const all = await chunks({ stream_interval, return_token_ids: true, logprobs: true });
      const written = all.slice(1).map((chunk) => chunk.choices[0]!);
      expect(contentOf(all)).toBe("Hello there, you are one of many");
      expect(written.flatMap((choice) => choice.logprobs!.content)).toEqual(
        every.slice(1).flatMap((chunk) => chunk.choices[0]!.logprobs!.content),
      );
      return written.map((choice) => choice.token_ids!.length);
    };
    const total = tokenizer.encode("Hello there, you are one of many").length + 1;
    expect(await sizes(1)).toEqual(Array.from({ length: total }, () => 1));
    const threes = await sizes(3);
    expect(threes[0]).toBe(1);
    for (const size of threes.slice(1, -1)) expect(size).toBe(3);
    expect(threes.reduce((sum, size) => sum + size, 0)).toBe(total);
    expect(await sizes(1000)).toEqual([1, total - 1]);
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

describe("the iterator of a stream", () => {
  test("gives calls that come at once a chunk each, in order", async () => {
    const { ask, stream } = await openChat();
    const params = { temperature: 0, max_tokens: 6, n: 2, stream_options: { include_usage: true } };
    const iterator = (await stream(params))[Symbol.asyncIterator]();
    const results = await Promise.all(Array.from({ length: 40 }, () => iterator.next()));
    const chunks = results.flatMap((result) => (result.done ? [] : [result.value]));
    expect(results.slice(chunks.length).every(({ done }) => done)).toBe(true);
    expect(chunks.map(({ usage }) => usage !== undefined)).toEqual([...Array(chunks.length - 1).fill(false), true]);
    const { choices } = await ask({ temperature: 0, max_tokens: 6, n: 2 });
    for (const { index, message } of choices) expect(contentOf(chunks, index)).toBe(message.content);
  });

  test("ends a call that waits when it is left", async () => {
    const { stream } = await openChat();
    const iterator = (await stream({ ignore_eos: true, max_tokens: 900 }))[Symbol.asyncIterator]();
    const waiting = Array.from({ length: 3 }, () => iterator.next());
    await iterator.return!();
    expect((await Promise.all(waiting)).at(-1)).toEqual({ done: true, value: undefined });
  });

  test("ends with an error", async () => {
    const { stream } = await openChat();
    const abort = new AbortController();
    const params = { ignore_eos: true, max_tokens: 900, stream_options: { include_usage: true } };
    const iterator = (await stream(params, abort.signal))[Symbol.asyncIterator]();
    await iterator.next();
    abort.abort("enough");
    await expect(iterator.next()).rejects.toBe("enough");
    expect(await iterator.next()).toEqual({ done: true, value: undefined });
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
