import { describe, expect, test } from "vitest";
import { refusal, says } from "../../../test/fixtures/chatHost.js";

describe("logprobs", () => {
  test("only as requested", async () => {
    const { ask } = await says("ab");
    expect((await ask()).choices[0]!.logprobs).toBeNull();
    const absent = (await ask({ logprobs: true })).choices[0]!.logprobs!.content;
    expect(absent.map((entry) => entry.top_logprobs)).toEqual([[], [], []].slice(0, absent.length));
    expect((await ask({ logprobs: true, top_logprobs: null })).choices[0]!.logprobs!.content).toEqual(absent);
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

  test("logprob_token_ids: the drawn token and those named, instead of the likeliest", async () => {
    const { ask, tokenizer } = await says("ab");
    const params = { logprobs: true, top_logprobs: 2, return_token_ids: true, logprob_token_ids: [9, 3, 9] };
    const choice = (await ask(params)).choices[0]!;
    for (const [i, entry] of choice.logprobs!.content.entries()) {
      const own = choice.token_ids![i]!;
      expect(entry.top_logprobs.map((top) => top.token)).toEqual([own, 9, 3].map((id) => tokenizer.tokenText(id)));
    }
    for (const logprob_token_ids of [[3, 907], [-1], Array.from({ length: 129 }, () => 3)]) {
      expect((await refusal(ask({ logprobs: true, logprob_token_ids }))).param).toBe("logprob_token_ids");
    }
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
    const { ask } = await says("ab", { toolParser: "hermes" });
    const tools = ["f", "g"].map((name) => ({ type: "function", function: { name } }));
    const allowed = (...some: object[]) => ({ type: "allowed_tools", allowed_tools: { mode: "auto", tools: some } });
    for (const plain of [
      {},
      { tools },
      { tools, tool_choice: allowed(...tools) },
      { chat_template_kwargs: {} },
      { add_generation_prompt: true },
    ]) {
      expect((await ask({ model: "trained", ...plain })).choices[0]).not.toHaveProperty("prompt_token_ids");
    }
    for (const other of [
      { chat_template_kwargs: { enable_thinking: false } },
      { reasoning_effort: "low" },
      { documents: [{ title: "t", text: "x" }] },
      { add_generation_prompt: false },
      { chat_template: "{% for m in messages %}{{ m.content }}{% endfor %}!" },
      { truncate_prompt_tokens: 4 },
      { tools, tool_choice: allowed(tools[0]!) },
      // A choice that is kept has its thoughts dropped where its conversation is rendered again.
      {
        messages: [
          { role: "user", content: "a" },
          { role: "assistant", content: "b", reasoning: "c" },
          { role: "user", content: "d" },
        ],
      },
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
