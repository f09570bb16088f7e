// Completions of plain prompts, in the shape that OpenAI's and vLLM's clients read.

import OpenAI from "openai";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Engine } from "../../src/anneal.js";
import type { TextCompletion } from "../../src/types/textCompletions.js";
import { scripted, scriptedModel } from "../conformance/scripted.js";
import { type Refusal, Served } from "../conformance/served.js";

let served: Served;
let client: OpenAI;
let ids: Record<string, number>;
beforeAll(async () => {
  const { model, ids: known } = await scriptedModel("plain", { context: 256, template: null });
  ids = known;
  served = await Served.open({ models: [model] });
  client = new OpenAI({ apiKey: served.engine.apiKey, baseURL: `${served.address}/v1`, maxRetries: 0 });
});
afterAll(() => served?.close());

async function complete(body: Record<string, unknown>): Promise<TextCompletion> {
  const answer = await served.request("POST", "/v1/completions", { add_special_tokens: false, ...body });
  const completion = (await answer.json()) as TextCompletion;
  expect(answer.status, JSON.stringify(completion)).toBe(200);
  return completion;
}

async function chunks(body: Record<string, unknown>): Promise<TextCompletion[]> {
  const answer = await served.request("POST", "/v1/completions", { add_special_tokens: false, ...body, stream: true });
  const events = (await answer.text()).split("\n\n").filter((event) => event !== "");
  expect(answer.status).toBe(200);
  expect(events.pop()).toBe("data: [DONE]");
  return events.map((event) => JSON.parse(event.slice("data: ".length)) as TextCompletion);
}

async function refusal(body: Record<string, unknown>, field: string): Promise<Refusal["detail"][0]> {
  const answer = await served.request("POST", "/v1/completions", body);
  const refused = (await answer.json()) as Refusal;
  expect(answer.status, JSON.stringify(refused).slice(0, 300)).toBe(422);
  expect(refused.detail[0]!.loc.join(".")).toBe(`body.${field}`);
  return refused.detail[0]!;
}

const texts = ({ choices }: TextCompletion) => choices.map(({ text }) => text);

describe("prompts", () => {
  it("are texts, token ids, and lists of either", async () => {
    const one = await complete({ prompt: "[words]" });
    expect(one).toMatchObject({
      object: "text_completion",
      model: "plain",
      usage: { prompt_tokens: 1, completion_tokens: 6 },
    });
    expect(one.id).toMatch(/^cmpl-/);
    expect(one.choices).toMatchObject([
      { index: 0, text: "One two three four five", finish_reason: "stop", logprobs: null },
    ]);
    const id = ids["[words]"]!;
    expect(texts(await complete({ prompt: [id] }))).toEqual(["One two three four five"]);
    const several = await complete({ prompt: ["[words]", "[split]"], n: 2 });
    expect(texts(several)).toEqual(["One two three four five", "One two three four five", "abcdef", "abcdef"]);
    expect(several.choices.map(({ index }) => index)).toEqual([0, 1, 2, 3]);
    expect(several.usage).toMatchObject({ prompt_tokens: 2, completion_tokens: 20 });
    expect(texts(await complete({ prompt: [[id], [ids["[split]"]!]] }))).toEqual(["One two three four five", "abcdef"]);
    // No template is asked for: the model has none. The tokenizer's own tokens are added unless that is refused.
    expect((await complete({ prompt: "[words]", add_special_tokens: true })).usage!.prompt_tokens).toBe(2);
    expect(scripted.bos).toBe("<|bos|>");
  });

  it("that are too long are refused by place, or cut", async () => {
    const long = "x".repeat(300);
    expect((await refusal({ prompt: long }, "prompt")).type).toBe("context_length_exceeded");
    expect((await refusal({ prompt: ["x", long] }, "prompt.1")).type).toBe("context_length_exceeded");
    expect((await complete({ prompt: `${long}[words]`, truncate_prompt_tokens: 1 })).choices[0]!.text).toBe(
      "One two three four five",
    );
  });
});

describe("choices", () => {
  it("stop, and are limited to sixteen tokens unless asked otherwise", async () => {
    expect((await complete({ prompt: "[loop]" })).usage!.completion_tokens).toBe(16);
    expect(await complete({ prompt: "[words]", stop: " three" })).toMatchObject({
      choices: [{ text: "One two", finish_reason: "stop", stop_reason: " three" }],
    });
    expect((await complete({ prompt: "[words]", max_tokens: 2 })).choices).toMatchObject([
      { text: "One two", finish_reason: "length" },
    ]);
    expect((await complete({ prompt: "[words]", structured_outputs: { choice: ["One two"] } })).choices[0]!.text).toBe(
      "One two",
    );
    expect((await complete({ prompt: "[words]", return_token_ids: true })).choices[0]).toMatchObject({
      prompt_token_ids: [ids["[words]"]],
      token_ids: [ids.One, ids[" two"], ids[" three"], ids[" four"], ids[" five"], 256],
    });
  });

  it("are the likeliest of several where that is asked for", async () => {
    const drawn = { prompt: "[dice]", max_tokens: 1, temperature: 1, seed: 5, ignore_eos: true };
    const all = await complete({ ...drawn, n: 30, logprobs: 0 });
    const ranked = all.choices
      .map(({ text, logprobs }) => ({ text, logprob: logprobs!.token_logprobs[0]! }))
      .sort((a, b) => b.logprob - a.logprob);
    const best = await complete({ ...drawn, n: 3, best_of: 30 });
    expect(texts(best)).toEqual(ranked.slice(0, 3).map(({ text }) => text));
    expect(best.choices.map(({ index, logprobs }) => [index, logprobs])).toEqual([
      [0, null],
      [1, null],
      [2, null],
    ]);
    expect(best.usage!.completion_tokens).toBe(30);
  });
});

describe("logprobs", () => {
  it("have the older shape: lists side by side, places in the text", async () => {
    const { choices } = await complete({ prompt: "[split]", logprobs: 2 });
    const { tokens, token_logprobs, top_logprobs, text_offset } = choices[0]!.logprobs!;
    expect(tokens.slice(0, 3)).toEqual(["ab", "cd", "ef"]);
    expect(text_offset.slice(0, 3)).toEqual([0, 2, 4]);
    for (const logprob of token_logprobs) expect(logprob).toBeCloseTo(0, 5);
    for (const [i, top] of top_logprobs.entries()) expect(top![tokens[i]!]).toBe(token_logprobs[i]);
    expect(Object.keys(top_logprobs[0]!).length).toBe(2);
    const asIds = await complete({ prompt: "[split]", logprobs: 0, return_tokens_as_token_ids: true });
    expect(asIds.choices[0]!.logprobs!.tokens[0]).toBe(`token_id:${ids.ab}`);
  });

  it("say where in the text each token begins, whatever stands for it in the list and is left out of the text", async () => {
    const offsets = async (body: object) =>
      (await complete({ logprobs: 0, max_tokens: 3, ...body })).choices[0]!.logprobs!.text_offset;
    expect(await offsets({ prompt: "[split]", return_tokens_as_token_ids: true })).toEqual([0, 2, 4]);
    const echoed = { prompt: "[words]One", echo: true, return_tokens_as_token_ids: true };
    expect(await offsets(echoed)).toEqual([0, 7, 10, 14, 20]);
    // "before<|mark|>after" without its mark, and a text whose first token is the tokenizer's own.
    expect(await offsets({ prompt: "[mark]" })).toEqual([0, 6, 6]);
    expect(await offsets({ prompt: "[mark]", skip_special_tokens: false })).toEqual([0, 6, 14]);
    expect(await offsets({ ...echoed, add_special_tokens: true })).toEqual([0, 0, 7, 10, 14, 20]);
    expect(await offsets({ ...echoed, prompt: "<|bos|>[words]One" })).toEqual([0, 7, 14, 17, 21, 27]);
    const cut = { ...echoed, prompt: "[split]ab[words]One", truncate_prompt_tokens: 2 };
    expect(await offsets(cut)).toEqual([9, 16, 19, 23, 29]);
    expect(await offsets({ ...cut, truncation_side: "right" })).toEqual([0, 7, 19, 21, 23]);
  });

  it("begin with the prompt's where it is echoed, also when nothing is written", async () => {
    const echoed = (await complete({ prompt: "[words]One", echo: true, logprobs: 1, max_tokens: 2 })).choices[0]!;
    expect(echoed.text).toBe("[words]One two three");
    expect(echoed.logprobs!.tokens).toEqual(["[words]", "One", " two", " three"]);
    expect(echoed.logprobs!.token_logprobs[0]).toBeNull();
    expect(echoed.logprobs!.top_logprobs[0]).toBeNull();
    expect(echoed.logprobs!.text_offset).toEqual([0, 7, 10, 14]);
    const scored = await complete({ prompt: ["[words]One", "[split]ab"], echo: true, logprobs: 1, max_tokens: 0 });
    expect(texts(scored)).toEqual(["[words]One", "[split]ab"]);
    expect(scored.choices[0]!.logprobs!.token_logprobs[1]).toBeCloseTo(0, 5);
    expect(scored.choices[0]!.logprobs!.tokens.length).toBe(2);
    expect(scored.usage).toMatchObject({ completion_tokens: 0, prompt_tokens: 4 });
    expect(scored.choices[0]!.finish_reason).toBe("length");
    const plain = await complete({ prompt: "[words]One", echo: true, max_tokens: 1 });
    expect(plain.choices[0]).toMatchObject({ text: "[words]One two", logprobs: null });
    // As in vLLM: the prompt's are told beside as well, as many as prompt_logprobs says.
    expect(Object.keys(echoed.prompt_logprobs![1]!)).toHaveLength(1);
    expect(plain.choices[0]!.prompt_logprobs).toBeNull();
    const more = { prompt: "[words]One", echo: true, logprobs: 1, prompt_logprobs: 3, max_tokens: 1 };
    const wide = (await complete(more)).choices[0]!;
    expect(Object.keys(wide.prompt_logprobs![1]!)).toHaveLength(3);
    expect(Object.keys(wide.logprobs!.top_logprobs[1]!)).toHaveLength(2);
    const narrow = (await complete({ ...more, prompt_logprobs: 0 })).choices[0]!;
    expect(Object.keys(narrow.prompt_logprobs![1]!)).toHaveLength(1);
    expect(Object.keys(narrow.logprobs!.top_logprobs[1]!)).toHaveLength(1);
    const told = await complete({ prompt: "[words]One", prompt_logprobs: 1, max_tokens: 1 });
    expect(told.choices[0]!.prompt_logprobs![1]![ids.One!]).toMatchObject({ rank: 1, decoded_token: "One" });
  });
});

describe("a stream", () => {
  it("says of every choice what the whole says", async () => {
    const body = { prompt: ["[words]", "[split]", "[loop]"], n: 2, echo: true, logprobs: 1, return_token_ids: true };
    const whole = await complete(body);
    const told = await chunks({ ...body, stream_options: { include_usage: true } });
    const last = told.pop()!;
    expect([last.choices, last.usage]).toEqual([[], whole.usage]);
    for (const choice of whole.choices) {
      const pieces = told.flatMap(({ choices }) => choices).filter(({ index }) => index === choice.index);
      expect(pieces.map(({ text }) => text).join("")).toBe(choice.text);
      expect(pieces.at(-1)!.finish_reason).toBe(choice.finish_reason);
      expect(pieces.slice(0, -1).every(({ finish_reason }) => finish_reason === null)).toBe(true);
      for (const name of ["tokens", "text_offset"] as const) {
        expect(pieces.flatMap(({ logprobs }) => (logprobs?.[name] ?? []) as unknown[])).toEqual(choice.logprobs![name]);
      }
      expect(pieces.flatMap(({ token_ids }) => token_ids ?? [])).toEqual(choice.token_ids);
      expect(pieces[0]!.prompt_token_ids).toEqual(choice.prompt_token_ids);
    }
  });

  it("tells with every chunk the usage of its own choice so far, cached tokens included", async () => {
    const prompt = `${"x".repeat(63)}[words]`;
    await complete({ prompt });
    const stream_options = { include_usage: true, continuous_usage_stats: true };
    const told = await chunks({ prompt: [prompt, prompt, "[split]"], max_tokens: 2, stream_options });
    expect(told.pop()!.usage).toMatchObject({ prompt_tokens: 129, prompt_tokens_details: { cached_tokens: 96 } });
    for (const [index, prompt_tokens, cached_tokens] of [
      [0, 64, 48],
      [1, 64, 48],
      [2, 1, 0],
    ]) {
      const last = told.findLast(({ choices }) => choices[0]!.index === index)!;
      const prompt_tokens_details = { cached_tokens };
      expect(last.usage).toMatchObject({ prompt_tokens, completion_tokens: 2, prompt_tokens_details });
    }
  });

  it("ends when its reader leaves or its signal aborts", async () => {
    const { completions, core } = served.engine;
    const running = () => core.defaultBase.loop.stats().running;
    const asked = { prompt: ["[loop]", "[loop]"], max_tokens: 200, stream: true } as const;
    for await (const _ of await completions.create(asked)) break;
    expect(running()).toBe(0);
    const unread = await completions.create(asked);
    await unread[Symbol.asyncIterator]().return?.();
    expect(running()).toBe(0);
    const stop = new AbortController();
    const reason = new Error("enough");
    const aborted = await completions.create(asked, { signal: stop.signal });
    await expect(
      (async () => {
        for await (const _ of aborted) stop.abort(reason);
      })(),
    ).rejects.toBe(reason);
  });
});

it("works for the openai package and for an engine behind an address", async () => {
  const asked = { model: "plain", prompt: "[words]", extra_body: {} };
  const whole = await client.completions.create(asked);
  expect(whole.choices[0]!.text).toBe("One two three four five");
  let text = "";
  for await (const { choices } of await client.completions.create({ ...asked, stream: true }))
    text += choices[0]?.text ?? "";
  expect(text).toBe(whole.choices[0]!.text);
  const remote = await Engine.connect(served.address, { apiKey: served.engine.apiKey });
  const plain = { model: "plain", prompt: "[words]" };
  expect((await remote.completions.create(plain)).choices).toEqual(
    (await served.engine.completions.create(plain)).choices,
  );
  let streamed = "";
  for await (const { choices } of await remote.completions.create({ ...plain, stream: true }))
    streamed += choices[0]?.text ?? "";
  expect(streamed).toBe(text);
});

describe("what cannot be", () => {
  it.each([
    [{}, "prompt"],
    [{ prompt: "" }, "prompt"],
    [{ prompt: [] }, "prompt"],
    [{ prompt: [[]] }, "prompt.0"],
    [{ prompt: ["a", [1]] }, "prompt.1"],
    [{ prompt: [1, 99_999] }, "prompt"],
    [{ prompt: Array.from({ length: 1025 }, () => "a") }, "prompt"],
    [{ prompt: Array.from({ length: 1024 }, () => "a"), n: 17 }, "prompt"],
    [{ prompt: "a", suffix: "b" }, "suffix"],
    [{ prompt: "a", max_tokens: 0 }, "max_tokens"],
    [{ prompt: "a", max_tokens: -1 }, "max_tokens"],
    [{ prompt: "a", max_tokens: 257 }, "max_tokens"],
    [{ prompt: "a", best_of: 2, n: 3 }, "best_of"],
    [{ prompt: "a", best_of: 2, stream: true }, "best_of"],
    [{ prompt: "a", logprobs: 21 }, "logprobs"],
    [{ prompt: "a", temperature: -1 }, "temperature"],
    [{ prompt: "a", stop_token_ids: [99_999] }, "stop_token_ids"],
    [{ prompt: "a", structured_outputs: { regex: "(?<=a)b" } }, "structured_outputs.regex"],
  ])("is refused by name: %j", async (body, field) => {
    await refusal({ add_special_tokens: false, ...body } as Record<string, unknown>, field);
  });

  it("is refused before its elements are looked at", async () => {
    for (const body of [
      `{"prompt":[${"{},".repeat(2_000_000)}1]}`,
      `{"prompt":[[${"-1,".repeat(2_000_000)}1]]}`,
      `{"prompt":${"[".repeat(50_000)}${"]".repeat(50_000)}}`,
    ]) {
      const answer = await served.request("POST", "/v1/completions", body);
      expect([400, 413, 422]).toContain(answer.status);
      expect((await answer.text()).length).toBeLessThan(10_000);
    }
    expect(texts(await complete({ prompt: "[split]" }))).toEqual(["abcdef"]);
  });

  it("is named in process with every unknown field", async () => {
    await expect(served.engine.completions.create({ prompt: "a", no_such: 1 } as never)).rejects.toMatchObject({
      param: "no_such",
    });
    await expect(served.engine.completions.create({ prompt: "a", model: "none" })).rejects.toMatchObject({
      status: 404,
    });
  });
});
