import { describe, expect, test } from "vitest";
import { ValidationError } from "../errors.js";
import { type ChatRequest, chatCompletionCreate } from "./chat.js";
import { validate } from "./validate.js";

const messages = [{ role: "user", content: "Hi" }];
const tool = { type: "function", function: { name: "add", parameters: { type: "object" } } };
const allowed = (mode: string, ...names: string[]) => ({
  type: "allowed_tools",
  allowed_tools: { mode, tools: names.map((name) => ({ type: "function", function: { name } })) },
});
const read = (fields: object, strict = false): ChatRequest =>
  validate(chatCompletionCreate, { messages, ...fields }, { strict });

/** The issue of a request that is refused, its `loc` joined. */
function refusal(fields: object, strict = false): { at: string; type: string; msg: string } {
  try {
    read(fields, strict);
  } catch (error) {
    if (!(error instanceof ValidationError)) throw error;
    const issue = error.issues[0]!;
    for (const part of issue.loc) expect(typeof part).toBe("string");
    return { at: issue.loc.join("."), type: issue.type, msg: issue.msg };
  }
  throw new Error(`accepted: ${JSON.stringify(fields)}`);
}

describe("fields out of bounds are refused where they stand", () => {
  const cases: [at: string, fields: object][] = [
    ["messages", { messages: undefined }],
    ["messages", { messages: [] }],
    ["messages", { messages: "Hi" }],
    ["messages.0.role", { messages: [{ content: "Hi" }] }],
    ["messages.1.content", { messages: [...messages, { role: "user", content: 3 }] }],
    ["model", { model: 7 }],
    ["frequency_penalty", { frequency_penalty: 2.1 }],
    ["frequency_penalty", { frequency_penalty: -2.1 }],
    ["presence_penalty", { presence_penalty: 2.1 }],
    ["presence_penalty", { presence_penalty: -2.1 }],
    ["repetition_penalty", { repetition_penalty: 0 }],
    ["repetition_penalty", { repetition_penalty: -1 }],
    ["repetition_penalty", { repetition_penalty: Number.POSITIVE_INFINITY }],
    ["logit_bias.seven", { logit_bias: { seven: 1 } }],
    ["logit_bias.7.5", { logit_bias: { "7.5": 1 } }],
    ["logit_bias.7", { logit_bias: { 7: "much" } }],
    ["logit_bias.__proto__", { logit_bias: JSON.parse('{"__proto__": 1}') }],
    ["logprobs", { logprobs: 3 }],
    ["top_logprobs", { logprobs: true, top_logprobs: -2 }],
    ["top_logprobs", { logprobs: true, top_logprobs: "all" }],
    ["top_logprobs", { top_logprobs: 2 }],
    ["top_logprobs", { logprobs: false, top_logprobs: -1 }],
    ["logprob_token_ids", { logprobs: true, logprob_token_ids: [] }],
    ["logprob_token_ids.0", { logprobs: true, logprob_token_ids: ["3"] }],
    ["logprob_token_ids", { logprob_token_ids: [3] }],
    ["logprob_token_ids", { logprobs: true, use_beam_search: true, logprob_token_ids: [3] }],
    ["max_tokens", { max_tokens: 0 }],
    ["max_completion_tokens", { max_completion_tokens: 0 }],
    ["max_completion_tokens", { max_completion_tokens: 1.5 }],
    ["n", { n: 0 }],
    ["n", { n: 16385 }],
    ["response_format.type", { response_format: { type: "xml" } }],
    ["response_format.json_schema", { response_format: { type: "json_schema" } }],
    ["response_format.json_schema.schema", { response_format: { type: "json_schema", json_schema: { name: "a" } } }],
    ["seed", { seed: 2n ** 63n }],
    ["seed", { seed: -(2n ** 63n) - 1n }],
    ["seed", { seed: 1.5 }],
    ["seed", { seed: 2 ** 60 }],
    ["stop", { stop: "" }],
    ["stop.1", { stop: ["a", ""] }],
    ["stream", { stream: "yes" }],
    ["stream_options", { stream_options: { include_usage: null } }],
    ["stream_options", { stream: false, stream_options: { include_usage: true } }],
    ["temperature", { temperature: -0.1 }],
    ["temperature", { temperature: Number.POSITIVE_INFINITY }],
    ["temperature", { temperature: Number.NaN }],
    ["top_p", { top_p: 0 }],
    ["top_p", { top_p: 1.01 }],
    ["top_k", { top_k: -2 }],
    ["top_k", { top_k: 1.5 }],
    ["min_p", { min_p: -0.1 }],
    ["min_p", { min_p: 1.1 }],
    ["tools.0.type", { tools: [{ type: "custom", function: { name: "a" } }] }],
    ["tools.0.function.name", { tools: [{ type: "function", function: {} }] }],
    ["tool_choice", { tool_choice: "auto" }],
    ["tool_choice", { tools: [], tool_choice: "required" }],
    ["tool_choice", { tools: [tool], tool_choice: "always" }],
    ["tool_choice.function.name", { tools: [tool], tool_choice: { type: "function", function: { name: "sub" } } }],
    ["tool_choice.allowed_tools.mode", { tools: [tool], tool_choice: allowed("none", "add") }],
    ["tool_choice.allowed_tools.tools", { tools: [tool], tool_choice: allowed("auto") }],
    ["tool_choice", { tool_choice: allowed("auto", "add") }],
    [
      "tool_choice.allowed_tools.tools.1.function.name",
      { tools: [tool], tool_choice: allowed("required", "add", "sub") },
    ],
    ["reasoning_effort", { reasoning_effort: "extreme" }],
    ["thinking_token_budget", { thinking_token_budget: -2 }],
    ["thinking_token_budget", { thinking_token_budget: 1.5 }],
    ["thinking_token_budget", { use_beam_search: true, thinking_token_budget: 3 }],
    ["min_tokens", { min_tokens: -1 }],
    ["stop_token_ids.1", { stop_token_ids: [1, "2"] }],
    ["truncate_prompt_tokens", { truncate_prompt_tokens: -2 }],
    ["truncate_prompt_tokens", { truncate_prompt_tokens: 2n ** 63n }],
    ["truncation_side", { truncation_side: "middle" }],
    ["return_token_offsets", { return_token_offsets: "yes" }],
    ["stream_interval", { stream_interval: 0 }],
    ["stream_interval", { stream_interval: 1.5 }],
    ["vllm_xargs.a", { vllm_xargs: { a: true } }],
    ["prompt_logprobs", { prompt_logprobs: -2 }],
    ["prompt_logprobs", { stream: true, prompt_logprobs: 1 }],
    ["prompt_logprobs", { stream: true, prompt_logprobs: -1 }],
    ["allowed_token_ids", { allowed_token_ids: [] }],
    ["bad_words.0", { bad_words: [""] }],
    ["continue_final_message", { continue_final_message: true, add_generation_prompt: true }],
    ["documents.0.title", { documents: [{ title: 3 }] }],
    ["chat_template", { chat_template: 3 }],
    ["chat_template_kwargs.tokenize", { chat_template_kwargs: { tokenize: false } }],
    ["structured_outputs", { structured_outputs: {} }],
    ["structured_outputs", { structured_outputs: { json_object: false } }],
    ["structured_outputs", { structured_outputs: { regex: "a", choice: ["b"] } }],
    ["structured_outputs.choice", { structured_outputs: { choice: [] } }],
    ["structured_outputs.json", { structured_outputs: { json: "" } }],
    ["structured_outputs.grammar", { structured_outputs: { grammar: "" } }],
    ["structured_outputs._backend", { structured_outputs: { regex: "a", _backend: "xgrammar" } }],
    ["structured_outputs", { structured_outputs: { regex: "a" }, response_format: { type: "json_object" } }],
    [
      "structured_outputs",
      {
        structured_outputs: { regex: "a" },
        tools: [tool],
        tool_choice: { type: "function", function: { name: "add" } },
      },
    ],
    ["priority", { priority: 0.5 }],
    ["priority", { priority: 2n ** 63n }],
    ["request_id", { request_id: 7 }],
    ["cache_salt", { cache_salt: "" }],
    ["cache_salt", { cache_salt: 7 }],
    ["kv_transfer_params", { kv_transfer_params: { remote: "a" } }],
    ["kv_transfer_params", { kv_transfer_params: JSON.parse('{"__proto__": "a"}') }],
    ["engine_xargs.a", { engine_xargs: { a: { b: 1 } } }],
    ["engine_xargs.a", { engine_xargs: { a: true } }],
    ["engine_xargs.__proto__", { engine_xargs: JSON.parse('{"__proto__": {}}') }],
    ["mm_processor_kwargs", { mm_processor_kwargs: 3 }],
    ["repetition_detection.max_pattern_size", { repetition_detection: { max_pattern_size: -1 } }],
    [
      "repetition_detection.min_pattern_size",
      { repetition_detection: { max_pattern_size: 2, min_pattern_size: 3, min_count: 2 } },
    ],
    ["repetition_detection.min_count", { repetition_detection: { max_pattern_size: 2, min_count: 1 } }],
    ["frequency_penalty", { use_beam_search: true, frequency_penalty: 1 }],
    ["presence_penalty", { use_beam_search: true, presence_penalty: 1 }],
    ["repetition_penalty", { use_beam_search: true, repetition_penalty: 1.1 }],
    ["logit_bias", { use_beam_search: true, logit_bias: { 7: 1 } }],
    ["structured_outputs", { use_beam_search: true, structured_outputs: { regex: "a" } }],
    ["response_format", { use_beam_search: true, response_format: { type: "json_object" } }],
    ["repetition_detection", { use_beam_search: true, repetition_detection: { max_pattern_size: 1, min_count: 2 } }],
    ["priority", { use_beam_search: true, priority: 1 }],
    ["tool_choice", { use_beam_search: true, tools: [tool], tool_choice: "required" }],
    ["tool_choice", { use_beam_search: true, tools: [tool], tool_choice: allowed("required", "add") }],
    [
      "tool_choice",
      { use_beam_search: true, tools: [tool], tool_choice: { type: "function", function: { name: "add" } } },
    ],
  ];
  test.each(cases)("%s %o", (at, fields) => {
    expect(refusal(fields).at).toBe(`body.${at}`);
  });

  test("the rule of a bound is named", () => {
    expect(refusal({ seed: 2n ** 63n }).type).toBe("less_than_equal");
    expect(refusal({ seed: -(2n ** 63n) - 1n }).type).toBe("greater_than_equal");
    expect(refusal({ cache_salt: "" }).type).toBe("string_too_short");
    expect(refusal({ allowed_token_ids: [] }).type).toBe("too_short");
    expect(refusal({ top_p: 0 }).type).toBe("greater_than");
    expect(refusal({ top_p: 0 }).type).toBe("greater_than");
    expect(refusal({ messages: undefined }).type).toBe("missing");
  });

  test("values of another type are refused, with the type that is expected and the one that came", () => {
    for (const field of ["max_tokens", "temperature", "seed", "n", "top_k", "min_tokens", "truncate_prompt_tokens"]) {
      expect(refusal({ [field]: "5" }).msg).toContain("expected number, received string");
    }
    expect(refusal({ logprobs: "true" }).msg).toContain("expected boolean, received string");
    const manyStops = refusal({ stop: Array.from({ length: 200_000 }, () => "a") });
    expect(manyStops).toMatchObject({ at: "body.stop", type: "too_long" });
    expect(refusal({ stop: 5 })).toMatchObject({ at: "body.stop", type: "string_type" });
    expect(refusal({ stop_token_ids: ["5"] })).toMatchObject({ at: "body.stop_token_ids.0", type: "number_type" });
  });

  test("all violations are listed at once", () => {
    try {
      read({ n: 0, temperature: -1, logit_bias: { a: 1, b: 1 } });
      expect.unreachable();
    } catch (error) {
      const at = (error as ValidationError).issues.map((issue) => issue.loc.slice(1).join("."));
      expect(at.sort()).toEqual(["logit_bias.a", "logit_bias.b", "n", "temperature"]);
    }
  });
});

describe("what is accepted", () => {
  test.each([
    { seed: 9223372036854775807n },
    { seed: -9223372036854775808n },
    { temperature: 0 },
    { temperature: 100 },
    { repetition_penalty: 50 },
    { top_k: -1 },
    { top_k: 1_000_000 },
    { tools: [] },
    { tools: [], tool_choice: "none" },
    { tool_choice: "none" },
    { tools: [tool], tool_choice: "auto" },
    { tools: [{ ...tool, function: { ...tool.function, strict: true, extra: 1 } }] },
    { stream: true, stream_options: { include_usage: true, continuous_usage_stats: true } },
    { stream_options: {} },
    { stream: true, prompt_logprobs: 0 },
    { logprobs: true, top_logprobs: -1 },
    { continue_final_message: true },
    { continue_final_message: true, add_generation_prompt: false },
    { kv_transfer_params: {} },
    { engine_xargs: { a: "x", b: 1, c: ["x", 1] } },
    { vllm_xargs: { a: "x", b: 1, c: ["x", 1] } },
    { thinking_token_budget: 0 },
    { use_beam_search: true, thinking_token_budget: -1 },
    { truncation_side: "right", return_token_offsets: true, stream_interval: 3 },
    ...["none", "minimal", "low", "medium", "high", "xhigh", "max"].map((reasoning_effort) => ({ reasoning_effort })),
    { mm_processor_kwargs: { anything: { at: "all" } } },
    { repetition_detection: {} },
    { repetition_detection: { max_pattern_size: 0, min_count: 0 } },
    { structured_outputs: { regex: "a", _backend: "auto", _backend_was_auto: true, disable_fallback: true } },
    { structured_outputs: { choice: ["a"] }, response_format: { type: "text" } },
    { messages: [{ role: "oracle", content: null, extra: true }] },
    { use_beam_search: true, frequency_penalty: 0, repetition_penalty: 1, logit_bias: {} },
    { use_beam_search: true, tools: [tool], tool_choice: "auto" },
    { use_beam_search: true, tools: [tool], tool_choice: "none" },
    { use_beam_search: true, tools: [tool], tool_choice: allowed("auto", "add") },
    { tools: [tool], tool_choice: allowed("required", "add", "add") },
    { user: "someone" },
    { n: 4, temperature: 0 },
  ])("%o", (fields) => {
    expect(() => read(fields, true)).not.toThrow();
  });

  test("null is the same as absent for every field", () => {
    const absent = read({});
    // One field gives null a meaning of its own.
    const names = Object.keys(chatCompletionCreate.shape).filter(
      (name) => !["messages", "parallel_tool_calls"].includes(name),
    );
    expect(names.length).toBeGreaterThan(50);
    for (const name of names) expect(read({ [name]: null })).toEqual(absent);
  });

  test("defaults", () => {
    expect(read({})).toMatchObject({
      n: 1,
      stop: [],
      stream: false,
      include_reasoning: true,
      use_beam_search: false,
      length_penalty: 1,
      stop_token_ids: [],
      include_stop_str_in_output: false,
      ignore_eos: false,
      min_tokens: 0,
      skip_special_tokens: true,
      spaces_between_special_tokens: true,
      bad_words: [],
      echo: false,
      continue_final_message: false,
      add_special_tokens: false,
      priority: 0,
    });
  });

  test("a bare stop string is a list of one", () => {
    expect(read({ stop: "END" }).stop).toEqual(["END"]);
  });

  test("seeds are read exactly", () => {
    expect(read({ seed: 9007199254740993n }).seed).toBe(9007199254740993n);
    expect(read({ seed: 42 }).seed).toBe(42n);
  });
});

test("an unknown field is ignored on the wire and named in process", () => {
  expect(read({ verbosity: "low" })).not.toHaveProperty("verbosity");
  expect(refusal({ verbosity: "low" }, true)).toMatchObject({ at: "body.verbosity", type: "extra_forbidden" });
});
