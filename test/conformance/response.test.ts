// The shape of answers, whole and streamed, of errors, and the two ways in: over a port and through engine.fetch.

import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createServer } from "../../src/server/createServer.js";
import type { ChatCompletion } from "../../src/types/chat.js";
import { scriptedModel, start } from "./scripted.js";
import { hello, Served, textOf } from "./served.js";

let served: Served;
let ids: Record<string, number>;
beforeAll(async () => {
  const scripted = await scriptedModel("m");
  ids = scripted.ids;
  served = await Served.open({ models: [scripted.model] }, { chatBodyLimit: 100_000 });
});
afterAll(() => served?.close());

const words = start("[words]");

describe("the answer in one piece", () => {
  test("has every key, nulls written out", async () => {
    const before = Math.floor(Date.now() / 1000);
    const response = await served.post(words);
    expect(response.headers.get("content-type")).toMatch(/^application\/json/);
    const answer = (await response.json()) as ChatCompletion;
    expect(answer).toStrictEqual({
      id: expect.stringMatching(/^chatcmpl-/),
      object: "chat.completion",
      created: expect.any(Number),
      model: "m",
      choices: [
        {
          index: 0,
          message: {
            role: "assistant",
            content: "One two three four five",
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
      system_fingerprint: expect.stringMatching(/^anneal-/),
      usage: {
        prompt_tokens: 9,
        total_tokens: 15,
        completion_tokens: 6,
        prompt_tokens_details: { cached_tokens: 0 },
      },
      prompt_logprobs: null,
      prompt_token_ids: null,
      kv_transfer_params: null,
    });
    expect(answer.created).toBeGreaterThanOrEqual(before);
    expect(answer.created).toBeLessThanOrEqual(Date.now() / 1000);
  });

  test("names the base model whether the request did or not", async () => {
    for (const model of [undefined, null, "m"]) expect((await served.chat({ model })).model).toBe("m");
  });

  test("orders n choices, counts the prompt once and sums their tokens", async () => {
    const { choices, usage } = await served.chat({ ...words, n: 5 });
    expect(choices.map(({ index }) => index)).toEqual([0, 1, 2, 3, 4]);
    expect(usage).toMatchObject({ prompt_tokens: 9, completion_tokens: 30, total_tokens: 39 });
  });

  test("return_token_ids adds those of prompt and choices", async () => {
    const { prompt_token_ids, choices } = await served.chat({ ...words, return_token_ids: true });
    expect(prompt_token_ids).toHaveLength(9);
    const texts = ["One", " two", " three", " four", " five", "<|end|>"];
    expect(choices[0]!.token_ids).toEqual(texts.map((text) => ids[text]));
  });

  test("cached tokens are counted by sixteens, of one salt", async () => {
    const messages = [{ role: "user", content: "c".repeat(140) }];
    const cached = async (more: object = {}) => {
      const { usage } = await served.chat({ messages, max_tokens: 2, ...more });
      return usage.prompt_tokens_details.cached_tokens;
    };
    expect(await cached()).toBe(0);
    expect(await cached()).toBe(128);
    expect(await cached({ cache_salt: "a" })).toBe(0);
    expect(await cached({ cache_salt: "b" })).toBe(0);
    expect(await cached({ cache_salt: "a" })).toBe(128);
    const short = { messages: [{ role: "user", content: "d".repeat(30) }] };
    expect([await cached(short), await cached(short)]).toEqual([0, 32]);
    const chunks = await served.chunks({ messages, max_tokens: 2, stream_options: { include_usage: true } });
    expect(chunks.at(-1)!.usage!.prompt_tokens_details).toEqual({ cached_tokens: 128 });
  });
});

describe("the answer in chunks", () => {
  test("begins with the role, goes on with content, ends with the reason in the last of it", async () => {
    const chunks = await served.chunks(words);
    const [first, ...rest] = chunks;
    expect(first!.choices).toEqual([
      { index: 0, delta: { role: "assistant", content: "" }, logprobs: null, finish_reason: null },
    ]);
    expect(rest.map(({ choices }) => choices[0]!.delta.content).join("")).toBe("One two three four five");
    const reasons = chunks.map(({ choices }) => choices[0]!.finish_reason);
    expect(reasons.slice(0, -1).every((reason) => reason === null)).toBe(true);
    expect(reasons.at(-1)).toBe("stop");
    expect(chunks.at(-1)!.choices[0]).toHaveProperty("stop_reason", null);
  });

  test("has the same id, time, model and object throughout", async () => {
    const chunks = await served.chunks({ ...words, request_id: "r", stream_options: { include_usage: true } });
    const heads = chunks.map(({ id, object, created, model }) => JSON.stringify({ id, object, created, model }));
    expect(new Set(heads).size).toBe(1);
    expect(chunks[0]).toMatchObject({ id: "chatcmpl-r", object: "chat.completion.chunk", model: "m" });
  });

  test("has no usage unless asked for", async () => {
    for (const stream_options of [undefined, {}, { include_usage: false }, { continuous_usage_stats: true }]) {
      for (const chunk of await served.chunks({ ...words, stream_options })) expect(chunk.usage ?? null).toBeNull();
    }
  });

  test("include_usage: a chunk without choices at the end, equal to the whole answer's", async () => {
    const body = { ...words, n: 3, cache_salt: "same" };
    const chunks = await served.chunks({ ...body, stream_options: { include_usage: true } });
    expect(chunks.at(-1)!.choices).toEqual([]);
    expect(chunks.at(-1)!.usage).toEqual((await served.chat(body)).usage);
    for (const chunk of chunks.slice(0, -1)) expect(chunk.usage ?? null).toBeNull();
  });

  test("continuous_usage_stats: every chunk counts its own choice so far, the last one all", async () => {
    const stream_options = { include_usage: true, continuous_usage_stats: true };
    const chunks = await served.chunks({ ...words, n: 2, return_token_ids: true, stream_options });
    const counts = [0, 0];
    for (const { choices, usage } of chunks.slice(0, -1)) {
      const { index, token_ids } = choices[0]!;
      counts[index]! += token_ids?.length ?? 0;
      expect(usage).toMatchObject({
        prompt_tokens: 9,
        completion_tokens: counts[index],
        total_tokens: 9 + counts[index]!,
      });
    }
    expect(chunks.at(-1)!.usage).toMatchObject({ completion_tokens: 12 });
  });

  test("return_token_ids: the prompt's in role chunks only, then each delta's", async () => {
    const chunks = await served.chunks({ ...words, n: 2, return_token_ids: true });
    const roles = chunks.filter(({ choices }) => choices[0]!.delta.role !== undefined);
    expect(roles).toHaveLength(2);
    for (const chunk of chunks) {
      if (roles.includes(chunk)) expect(chunk.prompt_token_ids).toHaveLength(9);
      else expect(chunk).not.toHaveProperty("prompt_token_ids");
    }
    const drawn = chunks.flatMap(({ choices }) => (choices[0]!.index === 1 ? (choices[0]!.token_ids ?? []) : []));
    expect(drawn).toHaveLength(6);
  });

  test("logprobs are those of exactly the delta's tokens", async () => {
    const chunks = await served.chunks({
      ...words,
      logprobs: true,
      top_logprobs: 1,
      return_token_ids: true,
      stop: "zzz",
    });
    for (const { choices } of chunks.slice(1)) {
      expect(choices[0]!.logprobs!.content).toHaveLength(choices[0]!.token_ids!.length);
    }
  });

  test("each of n choices has one role chunk and one reason", async () => {
    const chunks = await served.chunks({ ...start("[dice]"), n: 4, seed: 2 });
    const whole = await served.chat({ ...start("[dice]"), n: 4, seed: 2 });
    for (const { index, message, finish_reason } of whole.choices) {
      const own = chunks.map(({ choices }) => choices[0]!).filter((choice) => choice.index === index);
      expect(own.filter(({ delta }) => delta.role !== undefined)).toHaveLength(1);
      expect(own.filter((choice) => choice.finish_reason !== null).map((choice) => choice.finish_reason)).toEqual([
        finish_reason,
      ]);
      expect(own.at(-1)!.finish_reason).toBe(finish_reason);
      expect(textOf(chunks, index)).toBe(message.content);
    }
  });

  test("comes as it is made, not at the end", async () => {
    const response = await served.post({ ...start("[loop]"), max_tokens: 200, stream: true });
    const reader = response.body!.getReader();
    const { value } = await reader.read();
    expect(new TextDecoder().decode(value).split("\n\n").length).toBeLessThan(150);
    await reader.cancel();
  });
});

describe("errors", () => {
  const errorOf = async (response: Response) => ({ status: response.status, body: await response.json() });
  const error = { message: expect.any(String), type: expect.any(String), param: null, code: expect.any(String) };

  test.each([
    ["malformed JSON", "{"],
    ["an empty body", ""],
    ["no object", "[]"],
    ["null", "null"],
    ["a text", '"hello"'],
    ["deep nesting", `{"messages":${"[".repeat(40_000)}${"]".repeat(40_000)}}`],
  ])("%s is a validation error", async (_, body) => {
    const { status, body: answer } = await errorOf(await served.post(body));
    expect(status).toBe(422);
    expect(answer).toMatchObject({
      detail: [{ loc: expect.any(Array), msg: expect.any(String), type: expect.any(String) }],
      error: { type: "invalid_request_error" },
    });
  });

  test("all faults are told at once", async () => {
    const { body } = await errorOf(await served.post({ temperature: -1, top_p: 2, n: 0 }));
    const locs = (body as { detail: { loc: string[] }[] }).detail.map(({ loc }) => loc.join("."));
    expect(locs.sort()).toEqual(["body.n", "body.temperature", "body.top_p"]);
  });

  test("positions in lists are texts", async () => {
    const { body } = await errorOf(await served.post({ stop_token_ids: [1, "x"] }));
    expect(body).toMatchObject({ detail: [{ loc: ["body", "stop_token_ids", "1"] }] });
  });

  test("another content type is refused, a charset is not", async () => {
    const text = await served.post({}, { headers: { "content-type": "text/plain" } });
    expect((await errorOf(text)).status).toBe(422);
    const charset = await served.post(
      { max_tokens: 1 },
      { headers: { "content-type": "application/json; charset=utf-8" } },
    );
    expect(charset.status).toBe(200);
    await charset.text();
  });

  test.each([undefined, "Bearer wrong", "Basic abc", "Bearer"])("the key %s is 401", async (authorization) => {
    const response = await fetch(`${served.address}/v1/chat/completions`, {
      method: "POST",
      headers: { "content-type": "application/json", ...(authorization === undefined ? {} : { authorization }) },
      body: JSON.stringify({ messages: hello }),
    });
    expect(await errorOf(response)).toEqual({ status: 401, body: { error: { ...error, code: "invalid_api_key" } } });
  });

  test("a body beyond the limit is 413", async () => {
    const { status, body } = await errorOf(await served.post({ user: "x".repeat(100_000) }));
    expect({ status, body }).toMatchObject({ status: 413, body: { error: { type: "invalid_request_error" } } });
  });

  test("an unknown path is 404, a wrong method 405", async () => {
    expect((await errorOf(await served.request("GET", "/v1/nothing"))).status).toBe(404);
    const wrong = await served.request("GET", "/v1/chat/completions");
    expect(wrong.headers.get("allow")).toBe("POST");
    expect((await errorOf(wrong)).status).toBe(405);
  });

  test("both paths are served directly", async () => {
    const response = await served.request("POST", "/v1/chat/completions/", { messages: hello }, { redirect: "error" });
    expect(response.status).toBe(200);
    await response.text();
  });

  test("a full queue is 429, with a time to come back", async () => {
    const full = await Served.open({
      models: [(await scriptedModel("m")).model],
      maxQueue: 2,
      maxSequences: 1,
      speculation: "none",
    });
    try {
      const asked = Array.from({ length: 12 }, () => full.post({ ...start("[loop]"), max_tokens: 100 }));
      const answers = await Promise.all(asked);
      const refused = answers.filter(({ status }) => status === 429);
      expect(refused.length).toBeGreaterThan(0);
      expect(answers.filter(({ status }) => status === 200).length).toBeGreaterThan(0);
      expect(refused[0]!.headers.get("retry-after")).not.toBeNull();
      expect(await refused[0]!.json()).toEqual({ error: { ...error, type: "rate_limit_error" } });
      for (const answer of answers) if (answer.status === 200) await answer.text();
      await full.chat({ max_tokens: 1 });
    } finally {
      await full.close();
    }
  });

  test("a failure in the middle of a stream is one error event and [DONE]", async () => {
    const failing = await Served.open({ models: [(await scriptedModel("m")).model] });
    const response = await failing.post({ ...start("[loop]"), n: 500, stream: true });
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
    let text = (await reader.read()).value!;
    // Its model is taken away.
    const closing = failing.engine.core.defaultBase.loop.close();
    for (;;) {
      const { value, done } = await reader.read();
      if (done) break;
      text += value;
    }
    await closing;
    const events = text.trimEnd().split("\n\n");
    expect(events.at(-1)).toBe("data: [DONE]");
    expect(JSON.parse(events.at(-2)!.slice(6))).toEqual({ error });
    await failing.close();
  });
});

describe("without a port", () => {
  const asked = { ...words, messages: hello, seed: 1, request_id: "r" };
  const init = (key: string, body: object): RequestInit => ({
    method: "POST",
    headers: { authorization: `Bearer ${key}`, "content-type": "application/json" },
    body: JSON.stringify(body),
  });

  test("engine.fetch and a mounted handler answer as the port does", async () => {
    const { engine } = served;
    const url = "http://anywhere/v1/chat/completions";
    const over = await served.chat({ ...asked, cache_salt: "x" });
    const ways = [
      await engine.fetch(url, init(engine.apiKey, { ...asked, cache_salt: "y" })),
      await createServer(engine)(new Request(url, init(engine.apiKey, { ...asked, cache_salt: "z" }))),
    ];
    for (const response of ways)
      expect({ ...((await response.json()) as ChatCompletion), created: 0 }).toEqual({ ...over, created: 0 });
    const direct = await engine.chat.completions.create({ ...asked, cache_salt: "w" });
    expect({ ...direct, created: 0 }).toEqual({ ...over, created: 0 });
  });

  test("in process, chunks are those of the port", async () => {
    const body = { ...asked, stream_options: { include_usage: true } };
    const over = await served.chunks({ ...body, cache_salt: "p" });
    const inside = [];
    for await (const chunk of await served.engine.chat.completions.create({ ...body, cache_salt: "q", stream: true })) {
      inside.push({ ...chunk, created: 0 });
    }
    expect(JSON.parse(JSON.stringify(inside))).toEqual(over.map((chunk) => ({ ...chunk, created: 0 })));
  });
});
