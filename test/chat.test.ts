// Chat completions on the embedded model and the native runtime.

import { fileURLToPath } from "node:url";
import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Engine } from "../src/anneal.js";
import type { ChatCompletion, ChatCompletionChunk, ChatCompletionCreateParamsBase } from "../src/types/chat.js";

const path = fileURLToPath(new URL("../models/tiny", import.meta.url));

let engine: Engine;
beforeAll(async () => {
  engine = await Engine.open({});
});
afterAll(async () => {
  await engine.close();
});

type Params = Partial<ChatCompletionCreateParamsBase>;

const asking = (content: string, params: Params = {}) => ({
  messages: [{ role: "user", content }],
  max_tokens: 24,
  ...params,
});
const ask = (content: string, params: Params = {}, on = engine): Promise<ChatCompletion> =>
  on.chat.completions.create(asking(content, params));
const textsOf = (answer: ChatCompletion) => answer.choices.map((choice) => choice.message.content);

/** Everything about an answer that is drawn: ids, texts, and the bits of every logprob. */
const drawn = (answer: ChatCompletion) =>
  answer.choices.map(({ token_ids, message, logprobs, finish_reason }) => [
    token_ids,
    message.content,
    logprobs?.content.map((entry) => [entry.logprob, entry.top_logprobs.map((top) => [top.token, top.logprob])]),
    finish_reason,
  ]);

const seeded: Params = {
  seed: 11,
  logprobs: true,
  top_logprobs: 2,
  return_token_ids: true,
  ignore_eos: true,
};

/** An engine of its own for pages and steps that differ from the usual ones. */
async function withEngine<T>(
  options: { kvPages?: number; tokenBudget?: number; maxSequences?: number },
  work: (on: Engine) => Promise<T>,
): Promise<T> {
  const { kvPages, ...rest } = options;
  const own = await Engine.open({
    models: [{ id: "anneal/tiny", path, ...(kvPages ? { kvPages } : {}) }],
    ...rest,
  });
  try {
    return await work(own);
  } finally {
    await own.close();
  }
}

test("answers a question", async () => {
  const answer = await ask("What is 3 + 4?", { temperature: 0 });
  expect(answer.model).toBe("anneal/tiny");
  expect(answer.choices[0]!.message.content!.length).toBeGreaterThan(0);
});

describe("the same request gives the same bits", () => {
  test("alone and among 63 others", async () => {
    const alone = drawn(await ask("Spell the word apple.", seeded));
    const others = Array.from({ length: 63 }, (_, i) => ask(`What is ${i} + ${i * 3}?`, { seed: i, ignore_eos: true }));
    const among = await ask("Spell the word apple.", seeded);
    expect(drawn(among)).toEqual(alone);
    await Promise.all(others);
  });

  test("greedy, with and without the cache, in large and small steps", async () => {
    const long = `Read: ${"the cat sat on the mat and ".repeat(12)}. What is 2 + 2?`;
    const params = { ...seeded, temperature: 0 };
    const first = await ask(long, params);
    const again = await ask(long, params);
    expect(first.usage.prompt_tokens).toBeGreaterThan(128);
    expect(again.usage.prompt_tokens_details.cached_tokens).toBe(Math.floor((first.usage.prompt_tokens - 1) / 16) * 16);
    expect(drawn(again)).toEqual(drawn(first));
    const small = await withEngine({ tokenBudget: 17 }, (on) => ask(long, params, on));
    expect(drawn(small)).toEqual(drawn(first));
  });

  test("for each of n choices, over shared pages, when pages run out too", async () => {
    const params = { ...seeded, n: 5, max_tokens: 150 };
    const question = `Read: ${"one two three four five ".repeat(8)}`;
    const plenty = await ask(question, params);
    expect(new Set(textsOf(plenty)).size).toBe(5);
    const first = await ask(question, { ...params, n: 1 });
    expect(drawn(first)[0]).toEqual(drawn(plenty)[0]);
    const scarce = await withEngine({ kvPages: 9 }, async (on) => {
      const answer = await ask(question, params, on);
      expect(on.core.defaultBase.loop.stats().preemptions).toBeGreaterThan(0);
      return answer;
    });
    expect(drawn(scarce)).toEqual(drawn(plenty));
  });

  test("logprobs of the prompt are those of the tokens when they were drawn", async () => {
    const answer = await ask("Count.", { ...seeded, max_tokens: 40 });
    const { token_ids, logprobs, message } = answer.choices[0]!;
    const scored = await engine.chat.completions.create({
      messages: [
        { role: "user", content: "Count." },
        { role: "assistant", content: message.content },
      ],
      continue_final_message: true,
      max_tokens: 1,
      prompt_logprobs: 0,
      return_token_ids: true,
    });
    const from = answer.usage.prompt_tokens;
    // Where the text encodes to the tokens drawn, every logprob is the same number.
    let same = 0;
    for (const [i, id] of token_ids!.entries()) {
      if (scored.prompt_token_ids![from + i] !== id) break;
      expect(scored.prompt_logprobs![from + i]![id]!.logprob).toBe(logprobs!.content[i]!.logprob);
      same++;
    }
    expect(same).toBeGreaterThan(0);
  });
});

test("streamed text is the text in one piece, with stop strings across tokens", async () => {
  const free = textsOf(
    await ask("Tell me a story.", {
      seed: 3,
      max_tokens: 40,
      ignore_eos: true,
    }),
  )[0]!;
  const stop = free.slice(Math.floor(free.length / 2), Math.floor(free.length / 2) + 5);
  for (const include_stop_str_in_output of [false, true]) {
    const params = {
      seed: 3,
      max_tokens: 40,
      ignore_eos: true,
      stop: [stop],
      include_stop_str_in_output,
    };
    const whole = (await ask("Tell me a story.", params)).choices[0]!;
    expect(whole.stop_reason).toBe(stop);
    let text = "";
    let last: ChatCompletionChunk | undefined;
    const chunks = await engine.chat.completions.create({
      ...asking("Tell me a story.", params),
      stream: true,
    });
    for await (const chunk of chunks) {
      text += chunk.choices[0]!.delta.content ?? "";
      last = chunk;
    }
    expect(text).toBe(whole.message.content);
    expect(last!.choices[0]).toMatchObject({
      finish_reason: "stop",
      stop_reason: stop,
    });
  }
});

test("masks and words are obeyed", async () => {
  const { tokenizer } = engine.core.defaultBase;
  const allowed = tokenizer.encode("1234567890");
  const digits = await ask("Hi", {
    allowed_token_ids: allowed,
    max_tokens: 30,
    return_token_ids: true,
  });
  for (const id of digits.choices[0]!.token_ids!) expect(allowed).toContain(id);

  const bias = { [allowed[3]!]: 100 };
  const biased = await ask("Hi", {
    logit_bias: bias,
    max_tokens: 8,
    temperature: 0,
    return_token_ids: true,
  });
  expect(new Set(biased.choices[0]!.token_ids)).toEqual(new Set([allowed[3]!]));

  const greedy = { temperature: 0, ignore_eos: true, return_token_ids: true };
  const free = (await ask("What is 3 + 4?", greedy)).choices[0]!.token_ids!;
  const isWord = (id: number) => String(tokenizer.encode(tokenizer.tokenText(id))) === String([id]);
  const word = free.find((id) => /^\S+$/.test(tokenizer.tokenText(id)) && isWord(id))!;
  const without = await ask("What is 3 + 4?", { ...greedy, bad_words: [tokenizer.tokenText(word)] });
  expect(without.choices[0]!.token_ids).not.toContain(word);

  const short = await ask("What is 3 + 4?", { temperature: 0, max_tokens: 60 });
  const min_tokens = short.usage.completion_tokens + 10;
  const longer = await ask("What is 3 + 4?", {
    temperature: 0,
    max_tokens: 60,
    min_tokens,
  });
  expect(longer.usage.completion_tokens).toBeGreaterThanOrEqual(min_tokens);
});

test("top_logprobs are the likeliest tokens, falling, and greedy draws the first", async () => {
  const answer = await ask("What is 3 + 4?", {
    temperature: 0,
    logprobs: true,
    top_logprobs: 5,
  });
  for (const entry of answer.choices[0]!.logprobs!.content) {
    const values = entry.top_logprobs.map((top) => top.logprob);
    expect(values).toHaveLength(5);
    expect([...values].sort((a, b) => b - a)).toEqual(values);
    expect(entry.top_logprobs[0]).toMatchObject({
      token: entry.token,
      logprob: entry.logprob,
    });
  }
});

test("beam search of width 1 is greedy, and wider beams are at least as likely", async () => {
  const params: Params = { logprobs: true, max_tokens: 12, ignore_eos: true, return_token_ids: true };
  const sum = (answer: ChatCompletion) =>
    answer.choices[0]!.logprobs!.content.reduce((total, entry) => total + entry.logprob, 0);
  const greedy = await ask("Spell cat.", { ...params, temperature: 0 });
  const one = await ask("Spell cat.", { ...params, use_beam_search: true });
  const wide = await ask("Spell cat.", {
    ...params,
    use_beam_search: true,
    n: 8,
  });
  expect(textsOf(one)).toEqual(textsOf(greedy));
  expect(sum(wide)).toBeGreaterThanOrEqual(sum(greedy));
  // Hidden tokens may make two of them one text.
  expect(new Set(wide.choices.map((choice) => String(choice.token_ids))).size).toBe(8);
});

test("500 requests cancelled midway leave nothing, and the next is answered at once", async () => {
  const abort = new AbortController();
  const all = Array.from({ length: 500 }, (_, i) =>
    engine.chat.completions
      .create(asking(`Count to ${i}.`, { max_tokens: 500, ignore_eos: true }), {
        signal: abort.signal,
      })
      .then(
        () => "answered",
        (reason: unknown) => reason,
      ),
  );
  await new Promise((resolve) => setTimeout(resolve, 100));
  abort.abort("enough");
  expect(new Set(await Promise.all(all))).toEqual(new Set(["enough"]));
  const { loop } = engine.core.defaultBase;
  expect(loop.stats()).toMatchObject({ running: 0, waiting: 0, cacheUsage: 0 });
  const before = loop.stats().steps;
  await ask("Hi", { max_tokens: 2, ignore_eos: true });
  expect(loop.stats().steps - before).toBeLessThanOrEqual(2);
});

test("memory stays where it is", async () => {
  const round = async () => {
    await Promise.all(
      Array.from({ length: 32 }, (_, i) => ask(`Round ${i}`, { logprobs: true, max_tokens: 12, ignore_eos: true })),
    );
  };
  const used = () => {
    const { rss } = process.memoryUsage();
    return rss / 2 ** 20;
  };
  for (let i = 0; i < 5; i++) await round();
  const before = used();
  for (let i = 0; i < 15; i++) await round();
  // 480 requests: what one of them keeps is at most a few kilobytes.
  expect(used() - before).toBeLessThan(40);
});

test("the openai package reads answers and streams", async () => {
  const client = new OpenAI({
    apiKey: engine.core.ownerKey,
    baseURL: "http://anneal/v1",
    fetch: (url, init) => engine.fetch(new Request(url, init)),
  });
  const params = {
    model: "anneal/tiny",
    messages: [{ role: "user" as const, content: "What is 3 + 4?" }],
    temperature: 0,
  };
  const answer = await client.chat.completions.create(params);
  expect(answer.choices[0]!.message.content).toBe(
    textsOf(await ask("What is 3 + 4?", { temperature: 0, max_tokens: null }))[0],
  );
  let text = "";
  for await (const chunk of await client.chat.completions.create({
    ...params,
    stream: true,
  })) {
    text += chunk.choices[0]?.delta.content ?? "";
  }
  expect(text).toBe(answer.choices[0]!.message.content);
});
