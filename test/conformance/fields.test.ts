// Every field of a request: what is refused and under which name, and what is taken.

import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { cpuMilliseconds } from "../fixtures/cpuTime.js";
import { scriptedModel, start } from "./scripted.js";
import { hello, Served } from "./served.js";

let served: Served;
beforeAll(async () => {
  served = await Served.open({ models: [(await scriptedModel("m")).model] });
});
afterAll(() => served?.close());

const tool = { type: "function", function: { name: "add", parameters: { type: "object" } } };

const refused: [field: string, body: Record<string, unknown>][] = [
  ["messages", { messages: undefined }],
  ["messages", { messages: null }],
  ["messages", { messages: [] }],
  ["messages", { messages: "hello" }],
  ["messages.0", { messages: ["hello"] }],
  ["messages.0.role", { messages: [{ content: "x" }] }],
  ["messages.0.content", { messages: [{ role: "user", content: 5 }] }],
  ["model", { model: 5 }],
  ["frequency_penalty", { frequency_penalty: 2.01 }],
  ["frequency_penalty", { frequency_penalty: -2.01 }],
  ["presence_penalty", { presence_penalty: 2.01 }],
  ["presence_penalty", { presence_penalty: -2.01 }],
  ["repetition_penalty", { repetition_penalty: 0 }],
  ["repetition_penalty", { repetition_penalty: -1 }],
  ["logit_bias.word", { logit_bias: { word: 1 } }],
  ["logit_bias.7", { logit_bias: { 7: "much" } }],
  ["logit_bias", { logit_bias: { 100000: 1 } }],
  ["logit_bias", { logit_bias: { "-1": 1 } }],
  ["logprobs", { logprobs: "perhaps" }],
  ["top_logprobs", { logprobs: true, top_logprobs: -2 }],
  ["top_logprobs", { logprobs: true, top_logprobs: "many" }],
  ["top_logprobs", { top_logprobs: 2 }],
  ["top_logprobs", { top_logprobs: -1 }],
  ["top_logprobs", { logprobs: false, top_logprobs: 2 }],
  ["top_logprobs", { logprobs: true, top_logprobs: 21 }],
  ["top_logprobs", { logprobs: true, top_logprobs: -1 }],
  ["max_tokens", { max_tokens: 0 }],
  ["max_tokens", { max_tokens: -5 }],
  ["max_completion_tokens", { max_completion_tokens: 0 }],
  ["n", { n: 0 }],
  ["n", { n: 16385 }],
  ["n", { n: 1.5 }],
  ["response_format.json_schema", { response_format: { type: "json_schema" } }],
  ["response_format.type", { response_format: { type: "poem" } }],
  ["stop", { stop: "" }],
  ["stop.1", { stop: ["a", ""] }],
  ["stream", { stream: "yes" }],
  ["stream_options", { stream: false, stream_options: { include_usage: true } }],
  ["stream_options", { stream: false, stream_options: { include_usage: null } }],
  ["temperature", { temperature: -0.1 }],
  ["temperature", { temperature: "warm" }],
  ["top_p", { top_p: 0 }],
  ["top_p", { top_p: 1.01 }],
  ["top_k", { top_k: -2 }],
  ["top_k", { top_k: 1.5 }],
  ["min_p", { min_p: -0.1 }],
  ["min_p", { min_p: 1.1 }],
  ["tools.0.type", { tools: [{ type: "browser" }] }],
  ["tools.0.function.name", { tools: [{ type: "function", function: {} }] }],
  ["tool_choice", { tool_choice: "auto" }],
  ["tool_choice", { tool_choice: "perhaps", tools: [tool] }],
  ["tool_choice", { tool_choice: { type: "function", function: { name: "add" } } }],
  ["reasoning_effort", { reasoning_effort: "extreme" }],
  ["include_reasoning", { include_reasoning: "x" }],
  ["use_beam_search", { use_beam_search: "x" }],
  ["length_penalty", { length_penalty: "x" }],
  ["stop_token_ids.0", { stop_token_ids: ["x"] }],
  ["stop_token_ids.0", { stop_token_ids: [1.5] }],
  ["stop_token_ids", { stop_token_ids: [100000] }],
  ["stop_token_ids", { stop_token_ids: [65, -4] }],
  ["min_tokens", { min_tokens: -1 }],
  ["min_tokens", { min_tokens: 6, max_tokens: 5 }],
  ["truncate_prompt_tokens", { truncate_prompt_tokens: -2 }],
  ["truncate_prompt_tokens", { truncate_prompt_tokens: 0 }],
  ["prompt_logprobs", { prompt_logprobs: -2 }],
  ["prompt_logprobs", { prompt_logprobs: -1 }],
  ["prompt_logprobs", { prompt_logprobs: 21 }],
  ["prompt_logprobs", { prompt_logprobs: 1, stream: true }],
  ["prompt_logprobs", { prompt_logprobs: -1, stream: true }],
  ["allowed_token_ids", { allowed_token_ids: [] }],
  ["allowed_token_ids", { allowed_token_ids: [-1] }],
  ["allowed_token_ids", { allowed_token_ids: [100000] }],
  ["bad_words.0", { bad_words: [""] }],
  ["bad_words.0", { bad_words: [5] }],
  ["continue_final_message", { continue_final_message: true, add_generation_prompt: true }],
  ["documents.0", { documents: ["text"] }],
  ["documents.0.title", { documents: [{ title: 5 }] }],
  ["chat_template", { chat_template: "{% for %}" }],
  ["chat_template_kwargs.tokenize", { chat_template_kwargs: { tokenize: false } }],
  ["priority", { priority: 1 }],
  ["priority", { priority: -1 }],
  ["priority", { priority: 1.5 }],
  ["priority", { priority: 1e30 }],
  ["cache_salt", { cache_salt: "" }],
  ["cache_salt", { cache_salt: 5 }],
  ["kv_transfer_params", { kv_transfer_params: { do_remote_prefill: true } }],
  ["engine_xargs.a", { engine_xargs: { a: { b: 1 } } }],
  ["engine_xargs.a", { engine_xargs: { a: true } }],
  ["repetition_detection.max_pattern_size", { repetition_detection: { max_pattern_size: -1 } }],
  [
    "repetition_detection.min_pattern_size",
    { repetition_detection: { max_pattern_size: 2, min_pattern_size: 3, min_count: 2 } },
  ],
  ["repetition_detection.min_count", { repetition_detection: { max_pattern_size: 2, min_count: 1 } }],
];

test.each(refused)("%s is refused in %j", async (field, body) => {
  await served.refusal(body, field);
});

const taken: Record<string, unknown>[] = [
  { model: null },
  { model: "m" },
  { frequency_penalty: 2, presence_penalty: -2 },
  { frequency_penalty: null, presence_penalty: null, repetition_penalty: null },
  { repetition_penalty: 50 },
  { logit_bias: {} },
  { logit_bias: null },
  { logit_bias: { 280: 1000 } },
  { logprobs: null, top_logprobs: null },
  { top_logprobs: 0 },
  { logprobs: false, top_logprobs: 0 },
  { max_tokens: 0, max_completion_tokens: 3 },
  { max_tokens: null, max_completion_tokens: null },
  { n: null },
  { n: 2, temperature: 0 },
  { response_format: { type: "text" } },
  { response_format: null },
  { seed: null },
  { seed: -1 },
  { stop: null },
  { stop: "never" },
  { stop: Array.from({ length: 40 }, (_, i) => `never ${i}`) },
  { stream: null },
  { stream_options: null },
  { stream_options: {} },
  { temperature: 1e-6 },
  { temperature: 100 },
  { temperature: null, top_p: null, top_k: null, min_p: null },
  { top_p: 1, top_k: -1, min_p: 0 },
  { top_k: 0 },
  { top_k: 1_000_000 },
  { min_p: 1 },
  { tools: [] },
  { tools: null },
  { tools: [tool] },
  { tools: [tool], tool_choice: "none" },
  { tools: [{ ...tool, extra: 1, function: { ...tool.function, strict: true, extra: 1 } }] },
  { tool_choice: "none" },
  { tool_choice: null },
  { parallel_tool_calls: null },
  { reasoning_effort: "low" },
  { reasoning_effort: null },
  { include_reasoning: false },
  { user: "somebody" },
  { length_penalty: -3 },
  { stop_token_ids: null },
  { bad_words: null },
  { add_generation_prompt: null },
  { documents: [{ title: "a", text: "b" }] },
  { chat_template_kwargs: { nothing_reads_this: [1, { a: null }] } },
  { mm_processor_kwargs: { size: 5 } },
  { structured_outputs: null },
  { priority: 0 },
  { request_id: "x".repeat(1000) },
  { cache_salt: "@/\\ salt" },
  { kv_transfer_params: {} },
  { kv_transfer_params: null },
  { engine_xargs: { a: "x", b: 1.5, c: ["x", 1], d: [] } },
  { repetition_detection: null },
  { repetition_detection: {} },
  { repetition_detection: { max_pattern_size: 0, min_count: 0 } },
  { this_field_is_unknown: { a: 1 } },
  { messages: [{ role: "user", content: "x", nobody_knows: [1] }] },
  { messages: [{ role: "user", content: "x", name: null }] },
];

test.each(taken)("%j is taken", async (body) => {
  const { choices } = await served.chat({ max_tokens: 2, ...body });
  expect(choices[0]!.message.role).toBe("assistant");
});

describe("seeds", () => {
  const draw = async (seed: string) => {
    const body = { messages: hello, n: 8, ...start("[dice]"), max_tokens: 1 };
    const answer = await served.chat(`${JSON.stringify(body).slice(0, -1)},"seed":${seed}}`);
    return answer.choices.map(({ message }) => message.content).join("");
  };

  test("are read exactly, up to the bounds of int64", async () => {
    const seeds = ["9223372036854775807", "-9223372036854775808", "9007199254740993", "9007199254740992", "0", "1"];
    const drawn = await Promise.all(seeds.map(draw));
    expect(await Promise.all(seeds.map(draw))).toEqual(drawn);
    // 4^8 texts: neighbours beyond 2^53 that were rounded together would agree.
    expect(drawn[2]).not.toBe(drawn[3]);
  });

  test.each([
    ["9223372036854775808", "less_than_equal"],
    ["-9223372036854775809", "greater_than_equal"],
  ])("%s is refused", async (seed, type) => {
    const response = await served.post(`{"messages":[{"role":"user","content":"x"}],"seed":${seed}}`);
    expect(response.status).toBe(422);
    expect(await response.json()).toMatchObject({ detail: [{ loc: ["body", "seed"], type }] });
  });

  test("1.5 is refused", () => served.refusal({ seed: 1.5 }, "seed"));

  test("one that is not written in digits alone is refused in words that JSON knows", async () => {
    for (const seed of ["1e18", "9007199254740993.0"]) {
      const response = await served.post(`{"messages":[{"role":"user","content":"x"}],"seed":${seed}}`);
      expect(response.status).toBe(422);
      expect(await response.json()).toMatchObject({ detail: [{ msg: expect.stringContaining("digits alone") }] });
    }
  });
});

test("truncate_prompt_tokens is read exactly too", async () => {
  const ask = (count: string) =>
    served.post(`{"messages":[{"role":"user","content":"x"}],"truncate_prompt_tokens":${count}}`);
  for (const count of ["9223372036854775807", "9223372036854775808"]) {
    const response = await ask(count);
    expect(response.status).toBe(422);
    expect(await response.json()).toMatchObject({ error: { param: "truncate_prompt_tokens" } });
  }
});

test("in process an unknown field is named", async () => {
  const params = { messages: hello, tempature: 0 };
  await expect(served.engine.chat.completions.create(params)).rejects.toMatchObject({
    status: 422,
    param: "tempature",
  });
});

test("an unknown model is not found", async () => {
  const response = await served.post({ model: "nobody" });
  expect(response.status).toBe(404);
  expect(await response.json()).toMatchObject({ error: { param: "model", code: "model_not_found" } });
});

describe("the id", () => {
  test("names the request", async () => {
    expect((await served.chat({ request_id: "mine" })).id).toBe("chatcmpl-mine");
    expect((await served.chat({ request_id: "" })).id).toMatch(/^chatcmpl-[0-9a-f-]{36}$/);
  });

  test("names the header X-Request-Id before the body's", async () => {
    const headers = { "X-Request-Id": "theirs" };
    expect((await served.chat({ request_id: "mine" }, { headers })).id).toBe("chatcmpl-theirs");
    expect((await served.chat({}, { headers })).id).toBe("chatcmpl-theirs");
  });

  test("is random otherwise", async () => {
    const ids = await Promise.all([served.chat({}), served.chat({})]);
    expect(ids[0].id).toMatch(/^chatcmpl-[0-9a-f-]{36}$/);
    expect(ids[0].id).not.toBe(ids[1].id);
  });

  test("may be shared by requests under way", async () => {
    const both = [1, 2].map(() => served.chat({ request_id: "same", ...start("[words]") }));
    for (const { choices } of await Promise.all(both)) expect(choices[0]!.message.content).toContain("five");
  });
});

describe("what would stop everything else while it is read", () => {
  test("words without end are refused", async () => {
    await served.refusal({ bad_words: Array.from({ length: 30_000 }, (_, i) => `never ${i}`) }, "bad_words");
  });

  test("ids that cannot be drawn are refused at once", async () => {
    const stop_token_ids = Array.from({ length: 300_000 }, (_, i) => i + 500);
    const before = cpuMilliseconds();
    await served.refusal({ ...start("[words]"), stop_token_ids, n: 100, min_tokens: 2 }, "stop_token_ids");
    expect(cpuMilliseconds() - before).toBeLessThan(10_000);
  });
});
