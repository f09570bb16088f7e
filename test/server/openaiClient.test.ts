import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Listening, listen } from "../../src/server/listen.js";
import { Harness } from "./harness.js";

let server: Harness;
let listening: Listening;
let client: OpenAI;
beforeAll(async () => {
  server = await Harness.open();
  listening = await listen(server.handler, { host: "127.0.0.1", port: 0 });
  client = new OpenAI({ apiKey: server.engine.apiKey, baseURL: `${listening.address}/v1`, maxRetries: 0 });
});
afterAll(async () => {
  await listening?.close(0);
  await server?.close();
});

const messages = [{ role: "user" as const, content: "What is 3 + 4?" }];

/** Requests at work or waiting, over all models. */
const underWay = () =>
  [...server.engine.core.bases.values()].reduce(
    (sum, { loop }) => sum + loop.stats().running + loop.stats().waiting,
    0,
  );

async function until(condition: () => boolean): Promise<void> {
  for (let i = 0; i < 200 && !condition(); i++) await new Promise((resolve) => setTimeout(resolve, 20));
  expect(condition()).toBe(true);
}

describe("the openai package", () => {
  it("gets completions, the same streamed as in one piece", async () => {
    const params = { model: "anneal/tiny", messages, max_tokens: 12, seed: 7 };
    const whole = await client.chat.completions.create({ ...params, logprobs: true, top_logprobs: 2 });
    expect(whole.object).toBe("chat.completion");
    expect(whole.usage?.completion_tokens).toBe(whole.choices[0]?.logprobs?.content?.length);
    const stream = await client.chat.completions.create({
      ...params,
      stream: true,
      stream_options: { include_usage: true },
    });
    let text = "";
    let usage: OpenAI.CompletionUsage | null | undefined;
    for await (const chunk of stream) {
      text += chunk.choices[0]?.delta.content ?? "";
      usage = chunk.usage ?? usage;
    }
    expect(text).toBe(whole.choices[0]?.message.content);
    expect(usage?.completion_tokens).toBe(whole.usage?.completion_tokens);
  });

  it("lists models and gets one by its name", async () => {
    await server.makeModel("listed");
    const ids: string[] = [];
    for await (const model of client.models.list()) ids.push(model.id);
    expect(ids).toEqual(["anneal/tiny", "wandb-artifact:///local/test/listed"]);
    const entry = await client.models.retrieve("wandb-artifact:///local/test/listed");
    expect(entry).toMatchObject({ object: "model", owned_by: "local", root: "local/test/listed:step0" });
    await expect(client.models.retrieve("none")).rejects.toBeInstanceOf(OpenAI.NotFoundError);
  });

  it("gets completions of trained models by every spelling, with what training needs", async () => {
    await server.makeModel("spelled");
    for (const model of [
      "wandb-artifact:///local/test/spelled",
      "wandb-artifact:///local/test/spelled:step0",
      "wandb-artifact://local/test/spelled:step0",
      "local/test/spelled",
      "spelled@0",
      "spelled",
    ]) {
      const reply = await client.chat.completions.create({ model, messages, max_tokens: 3 });
      expect(reply.model).toBe("wandb-artifact:///local/test/spelled:step0");
      const choice = reply.choices[0]! as OpenAI.ChatCompletion.Choice & { token_ids: number[] };
      expect(choice.logprobs?.content?.map(({ token }) => token)).toEqual(
        choice.token_ids.map((id) => `token_id:${id}`),
      );
      expect((reply as unknown as { prompt_token_ids: number[] }).prompt_token_ids.length).toBeGreaterThan(0);
    }
  });

  it("gets a 404 for what does not exist, never something else", async () => {
    await server.makeModel("twin");
    await server.makeModel("twin", { project: "elsewhere" });
    for (const model of [
      "spelled@9",
      "local/test/spelled:step9",
      "local/test/none",
      "none",
      "anneal/small",
      "twin",
      "twin@0",
    ]) {
      const failure = client.chat.completions.create({ model, messages });
      await expect(failure).rejects.toMatchObject({ status: 404, code: "model_not_found", param: "model" });
    }
    await expect(client.chat.completions.create({ model: "twin", messages })).rejects.toThrow(
      /local\/test\/twin.*local\/elsewhere\/twin/,
    );
  });

  it("gets errors of its own classes", async () => {
    const wrongKey = new OpenAI({ apiKey: "x", baseURL: `${listening.address}/v1`, maxRetries: 0 });
    await expect(wrongKey.models.list()).rejects.toBeInstanceOf(OpenAI.AuthenticationError);
    const invalid = client.chat.completions.create({ model: "anneal/tiny", messages, temperature: -1, stream: true });
    await expect(invalid).rejects.toBeInstanceOf(OpenAI.UnprocessableEntityError);
    await expect(invalid).rejects.toMatchObject({
      param: "temperature",
      type: "invalid_request_error",
      error: { message: expect.stringContaining("temperature") },
    });
    for (const length of [20_000, 200_000]) {
      const long = [{ role: "user" as const, content: "x".repeat(length) }];
      const failure = client.chat.completions.create({ model: "anneal/tiny", messages: long });
      await expect(failure).rejects.toMatchObject({ status: 422, code: "context_length_exceeded" });
    }
  });

  it("can be served without a port", async () => {
    const local = new OpenAI({ apiKey: server.engine.apiKey, baseURL: "http://engine/v1", fetch: server.engine.fetch });
    const reply = await local.chat.completions.create({ model: "anneal/tiny", messages, max_tokens: 2 });
    expect(reply.choices).toHaveLength(1);
    const abort = new AbortController();
    const endless = { model: "anneal/tiny", messages, max_tokens: 1900, ignore_eos: true };
    const whole = local.chat.completions.create(endless, { signal: abort.signal });
    const stream = await local.chat.completions.create({ ...endless, stream: true }, { signal: abort.signal });
    await stream[Symbol.asyncIterator]().next();
    abort.abort();
    await expect(whole).rejects.toBeInstanceOf(OpenAI.APIUserAbortError);
    await until(() => underWay() === 0);
  });
});

describe("seeds", () => {
  it("beyond 2^53 are read exactly", async () => {
    const text = async (seed: string) => {
      const body = `{"messages":[{"role":"user","content":"x"}],"max_tokens":8,"temperature":2,"seed":${seed}}`;
      const answer = await server.request("POST", "/v1/chat/completions", body);
      expect(answer.status).toBe(200);
      return ((await answer.json()) as OpenAI.ChatCompletion).choices[0]!.message.content;
    };
    const texts = await Promise.all(["9223372036854775806", "9223372036854775807", "9223372036854775807"].map(text));
    expect(texts[1]).toBe(texts[2]);
    expect(texts[0]).not.toBe(texts[1]);
    const beyond = '{"messages":[{"role":"user","content":"x"}],"seed":9223372036854775808}';
    expect((await server.call("POST", "/v1/chat/completions", beyond)).status).toBe(422);
  });
});

describe("clients that go away", () => {
  const endless = { model: "anneal/tiny", messages, ignore_eos: true, max_tokens: 1900 };

  it("end their streamed completion", async () => {
    const stream = await client.chat.completions.create({ ...endless, stream: true });
    for await (const _ of stream) break;
    await until(() => underWay() === 0);
  });

  it("end their completion in one piece", async () => {
    const abort = new AbortController();
    const reply = client.chat.completions.create(endless, { signal: abort.signal });
    await until(() => underWay() === 1);
    abort.abort();
    await expect(reply).rejects.toThrow();
    await until(() => underWay() === 0);
  });

  it("end it without a port too", async () => {
    const response = await server.request("POST", "/v1/chat/completions", { ...endless, stream: true });
    const reader = response.body!.getReader();
    await reader.read();
    await reader.cancel();
    await until(() => underWay() === 0);
  });
});

it("requests beyond the queue are told to come again", async () => {
  const small = await Harness.open({ maxQueue: 1, maxSequences: 1 });
  const body = { messages, ignore_eos: true, max_tokens: 1500 };
  const abort = new AbortController();
  const ask = () =>
    small.handler(
      new Request("http://test/v1/chat/completions", {
        method: "POST",
        headers: { authorization: `Bearer ${small.engine.apiKey}`, "content-type": "application/json" },
        body: JSON.stringify(body),
        signal: abort.signal,
      }),
    );
  const first = ask();
  const { loop } = small.engine.core.defaultBase;
  for (let i = 0; i < 200 && loop.stats().steps === 0; i++) await new Promise((resolve) => setTimeout(resolve, 5));
  const second = ask();
  const third = await ask();
  expect([third.status, third.headers.get("retry-after")]).toEqual([429, "1"]);
  expect(await third.json()).toMatchObject({ error: { type: "rate_limit_error", code: "queue_full" } });
  abort.abort();
  expect((await Promise.all([first, second])).map(({ status }) => status)).toEqual([499, 499]);
  await small.close();
});

describe("streams", () => {
  it("are server-sent events ended by [DONE], with a body that is checked before", async () => {
    const body = { messages, stream: true, max_tokens: 3 };
    const response = await server.request("POST", "/v1/chat/completions/", body, { "compat-project": "team/project" });
    expect(response.headers.get("content-type")).toBe("text/event-stream; charset=utf-8");
    const events = (await response.text()).split("\n\n");
    expect(events.slice(-2)).toEqual(["data: [DONE]", ""]);
    for (const event of events.slice(0, -2))
      expect(JSON.parse(event.replace(/^data: /, "")).object).toBe("chat.completion.chunk");
    const refused = await server.call("POST", "/v1/chat/completions", { ...body, model: "none" });
    expect([refused.status, refused.body.error.code]).toEqual([404, "model_not_found"]);
  });

  it("that fail on the way say so before [DONE]", async () => {
    const other = await Harness.open();
    const response = await other.request("POST", "/v1/chat/completions", { messages, stream: true, ignore_eos: true });
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
    let text = (await reader.read()).value ?? "";
    const closing = other.close();
    for (let part = await reader.read(); !part.done; part = await reader.read()) text += part.value;
    await closing;
    const events = text.trimEnd().split("\n\n");
    expect(events.at(-1)).toBe("data: [DONE]");
    expect(JSON.parse(events.at(-2)!.replace(/^data: /, ""))).toEqual({
      error: { message: expect.any(String), type: expect.any(String), param: null, code: expect.any(String) },
    });
  });
});

describe("side routes", () => {
  it("count tokens as chat does, and turn them back", async () => {
    const { body } = await server.call("POST", "/tokenize", { messages, return_token_strs: true });
    const tokenized = body as unknown as {
      count: number;
      max_model_len: number;
      tokens: number[];
      token_strs: string[];
    };
    const chat = await server.call("POST", "/v1/chat/completions", { messages, max_tokens: 1, return_token_ids: true });
    expect(tokenized.tokens).toEqual((chat.body as unknown as { prompt_token_ids: number[] }).prompt_token_ids);
    expect([tokenized.count, tokenized.token_strs.length]).toEqual([tokenized.tokens.length, tokenized.tokens.length]);
    const plain = await server.call("POST", "/tokenize", { prompt: "Spell it." });
    const back = await server.call("POST", "/detokenize", {
      tokens: (plain.body as unknown as { tokens: number[] }).tokens,
    });
    expect(back.body).toEqual({ prompt: "Spell it." });
    expect((await server.call("POST", "/detokenize", { tokens: [] })).body).toEqual({ prompt: "" });
    expect((await server.call("POST", "/detokenize", { tokens: [1e6] })).body).toEqual({ prompt: "" });
    expect((await server.call("POST", "/tokenize", {})).status).toBe(422);
    expect((await server.call("POST", "/tokenize", { prompt: "x", model: "none" })).status).toBe(404);
  });

  it("write metrics that dashboards know", async () => {
    const response = await server.request("GET", "/metrics");
    expect(response.headers.get("content-type")).toMatch(/^text\/plain; version=0.0.4/);
    const text = await response.text();
    expect(text).toMatch(/^vllm:num_requests_running\{model_name="anneal\/tiny",engine="0"\} 0$/m);
    expect(text).toMatch(/^vllm:generation_tokens_total\{[^}]*\} [1-9]\d*$/m);
    expect(text).toMatch(/^vllm:time_to_first_token_seconds_bucket\{[^}]*le="\+Inf"\} [1-9]\d*$/m);
  });
});
