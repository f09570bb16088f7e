// The request of a chat completion: every field, its bounds, and the rules between fields that need no model.

import { z } from "zod";
import { list, looseObject, MAX_ISSUES, map } from "./limited.js";

const INT64_MIN = -(2n ** 63n);
const INT64_MAX = 2n ** 63n - 1n;

/** An integer of 64 bits, as number or BigInt, read exactly. */
const int64 = (least = INT64_MIN) =>
  z.union([z.number(), z.bigint()]).transform((value, ctx) => {
    if (typeof value === "number" && !Number.isInteger(value)) {
      ctx.issues.push({ code: "invalid_type", expected: "int", input: value });
      return z.NEVER;
    }
    const exact = BigInt(value);
    if (exact < least) {
      ctx.issues.push({ code: "too_small", origin: "bigint", minimum: least, inclusive: true, input: exact });
      return z.NEVER;
    }
    if (exact > INT64_MAX) {
      ctx.issues.push({ code: "too_big", origin: "bigint", maximum: INT64_MAX, inclusive: true, input: exact });
      return z.NEVER;
    }
    if (typeof value === "number" && !Number.isSafeInteger(value)) {
      ctx.issues.push({ code: "custom", message: "a number this large is not exact; pass a BigInt", input: value });
      return z.NEVER;
    }
    return exact;
  });

/** Null means that the field was left out. */
const optional = <S extends z.ZodType>(schema: S) => schema.nullish().transform((value) => value ?? undefined);

const flag = (byDefault: boolean) =>
  z
    .boolean()
    .nullish()
    .transform((value) => value ?? byDefault);

const MAX_MESSAGES = 131_072;
const MAX_PARTS = 16_384;
const MAX_TOOLS = 4096;
const MAX_STOPS = 1024;
/** As many as the largest vocabularies have. */
const MAX_TOKEN_IDS = 2 ** 19;
const MAX_BIASES = 131_072;
const MAX_TEXTS = 16_384;
const MAX_FIELDS = 65_536;

const freeObject = map(z.unknown(), MAX_FIELDS);

const message = looseObject({
  role: z.string().min(1),
  content: z.union([z.string(), list(z.unknown(), MAX_PARTS)]).nullish(),
  name: z.string().nullish(),
  tool_calls: list(z.unknown(), MAX_TOOLS).nullish(),
  tool_call_id: z.string().nullish(),
});

const chatTool = looseObject({
  type: z.literal("function"),
  function: looseObject({
    name: z.string().min(1),
    description: z.string().nullish(),
    parameters: freeObject.nullish(),
    strict: z.boolean().nullish(),
  }),
});

const toolChoice = z.union([
  z.enum(["none", "auto", "required"]),
  z.object({ type: z.literal("function"), function: z.object({ name: z.string().min(1) }) }),
]);

const responseFormat = looseObject({
  type: z.enum(["text", "json_object", "json_schema", "structural_tag"]),
  json_schema: looseObject({
    name: z.string().nullish(),
    description: z.string().nullish(),
    schema: z.union([freeObject, z.boolean()]).nullish(),
    strict: z.boolean().nullish(),
  }).nullish(),
}).superRefine((format, ctx) => {
  if (format.type !== "json_schema") return;
  if (format.json_schema == null) {
    ctx.addIssue({ code: "custom", path: ["json_schema"], message: 'is required when the type is "json_schema"' });
  } else if (format.json_schema.schema == null) {
    ctx.addIssue({ code: "custom", path: ["json_schema", "schema"], message: "is required" });
  }
});

const CONSTRAINTS = ["json", "regex", "choice", "grammar", "json_object", "structural_tag"] as const;

const structuredOutputs = looseObject({
  json: z.union([z.string().min(1), freeObject, z.boolean()]).nullish(),
  regex: z.string().nullish(),
  choice: list(z.string(), MAX_TEXTS).min(1).nullish(),
  grammar: z.string().min(1).nullish(),
  json_object: z.boolean().nullish(),
  structural_tag: z.union([z.string().min(1), freeObject]).nullish(),
  disable_fallback: z.boolean().nullish(),
  disable_any_whitespace: z.boolean().nullish(),
  disable_additional_properties: z.boolean().nullish(),
  whitespace_pattern: z.string().nullish(),
  _backend: z.enum(["auto", "anneal"]).nullish(),
  _backend_was_auto: z.boolean().nullish(),
}).superRefine((outputs, ctx) => {
  const given = CONSTRAINTS.filter((name) => outputs[name] != null && outputs[name] !== false);
  if (given.length === 1) return;
  const what = given.length === 0 ? "none is set" : `${given.join(" and ")} are set`;
  ctx.addIssue({ code: "custom", message: `exactly one of ${CONSTRAINTS.join(", ")} must be set; ${what}` });
});

const repetitionDetection = looseObject({
  max_pattern_size: z.int().min(0).nullish(),
  min_pattern_size: z.int().min(0).nullish(),
  min_count: z.int().min(0).nullish(),
})
  .transform((fields) => ({
    max_pattern_size: fields.max_pattern_size ?? 0,
    min_pattern_size: fields.min_pattern_size ?? 0,
    min_count: fields.min_count ?? 0,
  }))
  .superRefine((fields, ctx) => {
    if (fields.min_pattern_size > fields.max_pattern_size) {
      const msg = `must be at most max_pattern_size (${fields.max_pattern_size})`;
      ctx.addIssue({ code: "custom", path: ["min_pattern_size"], message: msg });
    }
    if (fields.max_pattern_size > 0 && fields.min_count < 2) {
      ctx.addIssue({ code: "custom", path: ["min_count"], message: "must be at least 2" });
    }
  });

const logitBias = map(z.number(), MAX_BIASES).superRefine((biases, ctx) => {
  const wrong = Object.keys(biases).filter((key) => !/^-?\d+$/.test(key));
  for (const key of wrong.slice(0, MAX_ISSUES)) {
    ctx.addIssue({ code: "custom", path: [key], message: "keys must be token ids written as integers" });
  }
});

const stop = z.union([z.string().min(1), list(z.string().min(1), MAX_STOPS)]).transform((value) => [value].flat());

const extraArguments = map(
  z.union([z.string(), z.number(), list(z.union([z.string(), z.number()]), MAX_TEXTS)]),
  MAX_FIELDS,
);

/** `-1` and the counts from 0 on. */
const logprobCount = z.int().min(-1);

const fields = z.object({
  messages: list(message, MAX_MESSAGES).min(1),
  model: optional(z.string()),
  frequency_penalty: optional(z.number().min(-2).max(2)),
  presence_penalty: optional(z.number().min(-2).max(2)),
  repetition_penalty: optional(z.number().positive()),
  logit_bias: optional(logitBias),
  logprobs: optional(z.boolean()),
  top_logprobs: optional(logprobCount),
  logprob_token_ids: optional(list(z.int(), MAX_TOKEN_IDS).min(1)),
  /** Bounded only where it counts: `max_completion_tokens` beside it makes it irrelevant. */
  max_tokens: optional(z.int()),
  max_completion_tokens: optional(z.int().min(1)),
  n: z
    .int()
    .min(1)
    .max(16384)
    .nullish()
    .transform((value) => value ?? 1),
  response_format: optional(responseFormat),
  seed: optional(int64()),
  stop: stop.nullish().transform((value) => value ?? []),
  stream: flag(false),
  stream_options: optional(
    looseObject({ include_usage: z.boolean().nullish(), continuous_usage_stats: z.boolean().nullish() }),
  ),
  temperature: optional(z.number().min(0)),
  top_p: optional(z.number().positive().max(1)),
  top_k: optional(z.int().min(-1)),
  min_p: optional(z.number().min(0).max(1)),
  tools: optional(list(chatTool, MAX_TOOLS)),
  tool_choice: optional(toolChoice),
  reasoning_effort: optional(z.enum(["none", "minimal", "low", "medium", "high", "xhigh", "max"])),
  /** -1 is the same as absent: no bound. */
  thinking_token_budget: z
    .int()
    .min(-1)
    .nullish()
    .transform((value) => (value === -1 || value === null ? undefined : value)),
  include_reasoning: flag(true),
  /** null is told apart from absent: it keeps the first call only, as false does. */
  parallel_tool_calls: z.boolean().nullish(),
  user: optional(z.string()),
  use_beam_search: flag(false),
  length_penalty: z
    .number()
    .nullish()
    .transform((value) => value ?? 1),
  stop_token_ids: list(z.int(), MAX_TOKEN_IDS)
    .nullish()
    .transform((value) => value ?? []),
  include_stop_str_in_output: flag(false),
  ignore_eos: flag(false),
  min_tokens: z
    .int()
    .min(0)
    .nullish()
    .transform((value) => value ?? 0),
  skip_special_tokens: flag(true),
  spaces_between_special_tokens: flag(true),
  truncate_prompt_tokens: optional(int64(-1n).transform(Number)),
  truncation_side: optional(z.enum(["left", "right"])),
  prompt_logprobs: optional(logprobCount),
  allowed_token_ids: optional(list(z.int(), MAX_TOKEN_IDS).min(1)),
  bad_words: list(z.string().min(1), MAX_TEXTS)
    .nullish()
    .transform((value) => value ?? []),
  echo: flag(false),
  add_generation_prompt: optional(z.boolean()),
  continue_final_message: flag(false),
  add_special_tokens: flag(false),
  documents: optional(list(map(z.string(), MAX_FIELDS), MAX_TEXTS)),
  chat_template: optional(z.string()),
  chat_template_kwargs: optional(freeObject),
  mm_processor_kwargs: optional(freeObject),
  structured_outputs: optional(structuredOutputs),
  priority: int64()
    .nullish()
    .transform((value) => Number(value ?? 0n)),
  request_id: optional(z.string()),
  return_tokens_as_token_ids: optional(z.boolean()),
  return_token_ids: optional(z.boolean()),
  /** Of rendered prompts; generating ignores it. */
  return_token_offsets: optional(z.boolean()),
  cache_salt: optional(z.string().min(1)),
  kv_transfer_params: optional(freeObject),
  engine_xargs: optional(extraArguments),
  /** Another spelling of `engine_xargs`. */
  vllm_xargs: optional(extraArguments),
  repetition_detection: optional(repetitionDetection),
  stream_interval: z
    .int()
    .min(1)
    .nullish()
    .transform((value) => value ?? 1),
});

type Fields = z.output<typeof fields>;

/** Rules between fields: the field at fault and what is wrong with it. */
function* contradictions(request: Fields): Generator<[path: string[], message: string]> {
  const { stream } = request;
  if (!stream && Object.keys(request.stream_options ?? {}).length > 0) {
    yield [["stream_options"], "may only be set when stream is true"];
  }
  if (request.max_completion_tokens === undefined && (request.max_tokens ?? 1) < 1) {
    yield [["max_tokens"], "must be at least 1"];
  }
  const top = request.top_logprobs ?? 0;
  if (top !== 0 && request.logprobs !== true) yield [["top_logprobs"], "needs logprobs to be true"];
  if (request.logprob_token_ids !== undefined && request.logprobs !== true) {
    yield [["logprob_token_ids"], "needs logprobs to be true"];
  }
  if (stream && (request.prompt_logprobs ?? 0) !== 0) {
    yield [["prompt_logprobs"], "is not available when stream is true"];
  }
  if (request.continue_final_message && request.add_generation_prompt === true) {
    yield [["continue_final_message"], "cannot be combined with add_generation_prompt"];
  }
  const hasTools = (request.tools ?? []).length > 0;
  const choice = request.tool_choice ?? "none";
  if (choice !== "none" && !hasTools) yield [["tool_choice"], "needs tools"];
  if (typeof choice === "object" && hasTools && !request.tools!.some((tool) => isNamed(tool, choice.function.name))) {
    yield [["tool_choice", "function", "name"], `no function of tools is named "${choice.function.name}"`];
  }
  if (request.structured_outputs !== undefined) {
    const format = request.response_format?.type ?? "text";
    if (format !== "text") {
      yield [["structured_outputs"], `cannot be combined with a response_format of type "${format}"`];
    }
    if (typeof choice === "object") yield [["structured_outputs"], "cannot be combined with a named tool_choice"];
  }
  if (request.chat_template_kwargs !== undefined && "tokenize" in request.chat_template_kwargs) {
    yield [["chat_template_kwargs", "tokenize"], "may not be set: the prompt is always tokenized"];
  }
  if (Object.keys(request.kv_transfer_params ?? {}).length > 0) {
    yield [["kv_transfer_params"], "is not supported: this engine transfers no key-value cache; leave it empty"];
  }
  if (request.use_beam_search) yield* beamSearchContradictions(request);
}

function* beamSearchContradictions(request: Fields): Generator<[path: string[], message: string]> {
  const message = "is not available with beam search";
  if (request.frequency_penalty) yield [["frequency_penalty"], message];
  if (request.presence_penalty) yield [["presence_penalty"], message];
  if ((request.repetition_penalty ?? 1) !== 1) yield [["repetition_penalty"], message];
  if (Object.keys(request.logit_bias ?? {}).length > 0) yield [["logit_bias"], message];
  if (request.logprob_token_ids !== undefined) yield [["logprob_token_ids"], message];
  if (request.thinking_token_budget !== undefined) yield [["thinking_token_budget"], message];
  if (request.structured_outputs !== undefined) yield [["structured_outputs"], message];
  if ((request.response_format?.type ?? "text") !== "text") yield [["response_format"], message];
  if ((request.repetition_detection?.max_pattern_size ?? 0) > 0) yield [["repetition_detection"], message];
  if (request.priority !== 0) yield [["priority"], message];
}

function isNamed(tool: z.output<typeof chatTool>, name: string): boolean {
  return tool.function.name === name;
}

export const chatCompletionCreate = fields.superRefine((request, ctx) => {
  for (const [path, message] of contradictions(request)) ctx.addIssue({ code: "custom", path, message });
});

/** A checked request, nulls gone and plain defaults filled in. */
export type ChatRequest = z.output<typeof chatCompletionCreate>;
