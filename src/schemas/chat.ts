// The request of a chat completion: every field, its bounds, and the rules between fields that need no model.

import * as z from "zod";
import { type SamplingName, samplingNumbers } from "../samplingNumbers.js";
import { chatTool, isNamed, isNamedChoice, namedTools, toolChoice } from "./chatTools.js";
import { byDefault, field, mutable, named, streamable, streamKinds, typed } from "./fields.js";
import { list, looseObject, MAX_ISSUES, map } from "./limited.js";
import { responseFormat, structuredOutputs } from "./outputFormats.js";
import {
  flag,
  freeObject,
  MAX_FIELDS,
  MAX_MESSAGES,
  MAX_PARTS,
  MAX_TEXTS,
  MAX_TOOLS,
  message,
  optional,
} from "./parts.js";

const INT64_MIN = -(2n ** 63n);
const INT64_MAX = 2n ** 63n - 1n;

/** JSON has one kind of numbers. */
function wholeNumber<S extends z.ZodType>(schema: S): S {
  schema._zod.toJSONSchema = () => ({ type: "integer", format: "int64" });
  return typed(schema, "number | bigint");
}

/** An integer of 64 bits, as number or BigInt, read exactly. */
const int64 = (least = INT64_MIN) =>
  wholeNumber(
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
        const message = "a number this large is exact only in digits alone (in a program, as BigInt)";
        ctx.issues.push({ code: "custom", message, input: value });
        return z.NEVER;
      }
      return exact;
    }),
  );

const MAX_STOPS = 1024;
/** As many as the largest vocabularies have. */
const MAX_TOKEN_IDS = 2 ** 19;
const MAX_BIASES = 131_072;

const textPart = looseObject({
  type: field(z.literal("text"), '"text".'),
  text: field(z.string(), "The part."),
});

const prediction = named(
  "ChatPrediction",
  looseObject({
    type: field(z.literal("content"), '"content".'),
    content: field(z.union([z.string(), list(textPart, MAX_PARTS)]), "The text, or its parts in their order."),
  }),
  "What the text of a reply will be like.",
);

const patternSize = (what: string) => field(byDefault(z.int().min(0), 0), what);

const repetitionDetection = looseObject({
  max_pattern_size: patternSize("Tokens of a pattern at most; 0: repetition is not looked for."),
  min_pattern_size: patternSize("Tokens of a pattern at least, up to `max_pattern_size`."),
  min_count: patternSize("Copies of a pattern in a row that end the reply, at least 2."),
}).superRefine((fields, ctx) => {
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

/** The field of a number that tokens are drawn by. */
function samplingField({ isWhole, min, above, max, neutral, folder, meaning }: (typeof samplingNumbers)[number]) {
  let bounded: z.ZodNumber = isWhole ? z.int() : z.number();
  if (min !== undefined) bounded = bounded.min(min);
  if (above !== undefined) bounded = bounded.gt(above);
  if (max !== undefined) bounded = bounded.max(max);
  const schema = optional(bounded);
  if (folder === undefined) return field(schema, meaning, { default: neutral });
  const byDefault = `Default: the model folder's; of trained models, and where it has none, ${neutral}.`;
  return field(schema, `${meaning} ${byDefault}`);
}

const samplingFields = Object.fromEntries(
  samplingNumbers.map((number) => [number.name, samplingField(number)]),
) as Record<SamplingName, ReturnType<typeof samplingField>>;

/** All of them, for `pick`. */
export const pickedSampling = Object.fromEntries(samplingNumbers.map(({ name }) => [name, true])) as Record<
  SamplingName,
  true
>;

/** Everything but `stream`. */
export const chatFields = named(
  "ChatCompletionCreateParamsBase",
  z.object({
    messages: field(mutable(list(message, MAX_MESSAGES).min(1)), "The conversation that the reply continues."),
    model: field(
      optional(z.string()),
      "A base model, or a trained model's name, such as `project/name` or `entity/project/name:step3`; a NotFoundError when there is none. Default: the engine's first base model.",
    ),
    ...samplingFields,
    logit_bias: field(
      typed(optional(logitBias), "{ [tokenId: string]: number } | null"),
      "Added to the logits of tokens, by token id; clamped to [-100, 100]. Ids outside the vocabulary are a ValidationError.",
    ),
    logprobs: field(
      optional(z.boolean()),
      "Whether choices have the logprobs of their tokens. Default: true for trained models, else false.",
    ),
    top_logprobs: field(
      optional(logprobCount),
      "How many of the likeliest tokens every entry of `logprobs` lists, 20 at most; -1: the whole vocabulary, where that is not more. Needs `logprobs: true`.",
      { default: 0 },
    ),
    logprob_token_ids: field(
      optional(list(z.int(), MAX_TOKEN_IDS).min(1)),
      "Tokens, 128 at most, whose logprobs every entry lists instead of the likeliest. Needs `logprobs: true`.",
    ),
    // Bounded only where it counts: `max_completion_tokens` beside it makes it irrelevant.
    max_tokens: field(optional(z.int()), "Another spelling of `max_completion_tokens`, which wins. At least 1.", {
      deprecated: true,
    }),
    max_completion_tokens: field(
      optional(z.int().min(1)),
      "Tokens of a choice at most, thoughts included; lowered to the room that the prompt leaves in the context. Default: the model folder's, else all of it.",
    ),
    n: field(byDefault(z.int().min(1).max(16384), 1), "How many choices."),
    response_format: field(optional(responseFormat), "The form that the text of replies has. Default: any."),
    seed: field(
      optional(int64()),
      "A 64-bit integer, beyond 2^53 as BigInt: the same request with the same seed draws the same tokens. Choice i draws as with seed + i. -1: none. Default: none.",
    ),
    stop: field(
      typed(
        stop.nullish().transform((value) => value ?? []),
        "string | readonly string[] | null",
      ),
      "Texts that end a choice, which is cut before them. Default: none.",
    ),
    stream_options: field(
      optional(
        looseObject({
          include_usage: field(z.boolean().nullish(), "Whether a last chunk without choices has the usage.", {
            default: false,
          }),
          continuous_usage_stats: field(
            z.boolean().nullish(),
            "Whether every chunk has the usage so far; needs `include_usage`.",
            { default: false },
          ),
        }),
      ),
      "Only with `stream: true`.",
    ),
    tools: field(optional(list(chatTool, MAX_TOOLS)), "Functions that the model may call. Default: none."),
    tool_choice: field(
      optional(toolChoice),
      '"none": no calls. "auto": as the model likes; beside a `response_format` of JSON a reply is either calls, whose arguments follow the functions\' parameters, or a text in the form. "required": at least one. Or (`type` "function") a function of `tools`, which is called; or (`type` "allowed_tools") some of them. All but "none" need a tool parser of the engine. Default: "auto" with `tools` where there is such a parser, else "none".',
    ),
    reasoning_effort: field(
      optional(z.enum(["none", "minimal", "low", "medium", "high", "xhigh", "max"])),
      "What it does is up to the chat template. Default: what the template takes it for.",
    ),
    // -1 is the same as absent: no bound.
    thinking_token_budget: field(
      z
        .int()
        .min(-1)
        .nullish()
        .transform((value) => (value === -1 || value === null ? undefined : value)),
      "Tokens at most that the model may think; then its thoughts are closed. -1: any number. Default: any number.",
    ),
    include_reasoning: field(flag(true), "false: thoughts, token ids and logprobs are left out of the reply."),
    // null is told apart from absent: it keeps the first call only, as false does.
    parallel_tool_calls: field(z.boolean().nullish(), "false and null: only the first call is kept. Default: true."),
    prediction: field(
      optional(prediction),
      "A text that replies will be much like, as a file that is to be changed in places: the tokens that come of it are guessed, and a step computes many of them at once where the engine guesses (`speculation`). Replies are the same without it; `usage` tells how many of its tokens came so. Default: none.",
    ),
    user: field(optional(z.string()), "Without effect."),
    use_beam_search: field(flag(false), "Search the `n` likeliest replies instead of drawing them."),
    length_penalty: field(
      byDefault(z.number(), 1),
      "Of beam search: scores are divided by the length, prompt included, to this power.",
    ),
    stop_token_ids: field(
      byDefault(list(z.int(), MAX_TOKEN_IDS), []),
      "Tokens that end a choice. Ids outside the vocabulary are a ValidationError.",
    ),
    include_stop_str_in_output: field(flag(false), "Whether the text that ended a choice stays in it."),
    ignore_eos: field(flag(false), "Go on after the model's own end tokens; `stop_token_ids` still end a choice."),
    min_tokens: field(byDefault(z.int().min(0), 0), "Tokens before which nothing ends a choice."),
    skip_special_tokens: field(flag(true), "Leave special tokens out of the text."),
    spaces_between_special_tokens: field(
      flag(true),
      "Put spaces around special tokens in the text; without effect while they are left out.",
    ),
    truncate_prompt_tokens: field(
      typed(optional(int64(-1n).transform(Number)), "number | null"),
      "Keep so many of the prompt's tokens; -1: as many as the context has room for. Default: a prompt that is too long is a ValidationError.",
    ),
    truncation_side: field(
      optional(z.enum(["left", "right"])),
      'Which end of the prompt is cut: "left" keeps its last tokens, "right" its first. Default: "left".',
    ),
    prompt_logprobs: field(
      optional(logprobCount),
      "Report the logprobs of the prompt's tokens, with so many of the likeliest beside each, 20 at most; -1: the whole vocabulary, where that is not more. Not in streams. Default: none, or with `echo` as `top_logprobs`.",
    ),
    allowed_token_ids: field(
      optional(list(z.int(), MAX_TOKEN_IDS).min(1)),
      "The only tokens that may be drawn. Ids outside the vocabulary are a ValidationError. Default: all.",
    ),
    bad_words: field(
      byDefault(list(z.string().min(1), MAX_TEXTS), []),
      "Words that are not written, at the start of a text or after a space; 100,000 characters at most together.",
    ),
    echo: field(
      flag(false),
      "Begin the reply with the last message's text, where that has the same role as the reply.",
    ),
    add_generation_prompt: field(
      optional(z.boolean()),
      "Whether the template opens the assistant's message. Default: true, but with `continue_final_message` false.",
    ),
    continue_final_message: field(
      flag(false),
      "Go on with the last message instead of beginning one. Not with `add_generation_prompt: true`.",
    ),
    add_special_tokens: field(
      flag(false),
      "Whether the tokenizer adds the tokens that texts begin and end with to what the template has written.",
    ),
    documents: field(
      optional(list(map(z.string(), MAX_FIELDS), MAX_TEXTS)),
      "Documents for templates that show them, each with `title` and `text`. Default: none.",
    ),
    chat_template: field(optional(z.string()), "A Jinja template instead of the model's own."),
    chat_template_kwargs: field(optional(freeObject), "Further variables of the template."),
    mm_processor_kwargs: field(optional(freeObject), "Without effect."),
    structured_outputs: field(
      optional(structuredOutputs),
      "What the reply follows. Not with a `response_format`, nor a function in `tool_choice`. Default: any text.",
    ),
    priority: field(
      typed(
        int64()
          .nullish()
          .transform((value) => Number(value ?? 0n)),
        "number | null",
      ),
      'Lower runs earlier. A ValidationError unless it is 0 or the engine\'s scheduler is "priority".',
      { default: 0 },
    ),
    request_id: field(optional(z.string()), "Part of the reply's `id`. Default: a random one."),
    return_tokens_as_token_ids: field(
      optional(z.boolean()),
      "Write tokens of `logprobs` as `token_id:N`. Default: true for trained models, else false.",
    ),
    return_token_ids: field(
      optional(z.boolean()),
      "Whether the reply has the token ids of prompt and choices. Default: true for trained models, else false.",
    ),
    return_token_offsets: field(optional(z.boolean()), "Of rendered prompts; generating ignores it."),
    cache_salt: field(
      optional(z.string().min(1)),
      "Cached prompts are shared only among requests of the same salt, so that nobody learns from the time a reply takes what others asked. Default: those without one share theirs, of each entity other than the owner's among themselves.",
    ),
    kv_transfer_params: field(optional(freeObject), "Has to be empty: this engine transfers no key-value cache."),
    engine_xargs: field(optional(extraArguments), "Without effect."),
    vllm_xargs: field(optional(extraArguments), "Another spelling of `engine_xargs`."),
    repetition_detection: field(
      optional(repetitionDetection),
      'End a choice (`finish_reason: "repetition"`) whose last tokens repeat a pattern. Default: not looked for.',
    ),
    stream_interval: field(
      byDefault(z.int().min(1), 1),
      "Tokens that a chunk of a stream waits for; the first and the last chunk do not wait.",
    ),
  }),
  "The settings of a chat completion. Absent and null both mean the default.",
);

const fields = streamable(chatFields, {
  id: "ChatCompletionCreateParams",
  what: "A chat completion to create",
  sentence: "Whether the reply comes in chunks, as it is written.",
});

/** What the two kinds of calls take. */
export const chatCompletionCreateKinds = streamKinds(chatFields, {
  id: "ChatCompletionCreateParams",
  what: "A chat completion to create",
  whole: "The reply comes in one piece.",
  parts: "The reply comes in chunks, as it is written.",
  streamed: "in chunks",
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
  for (const [path, name] of hasTools ? namedTools(choice) : []) {
    if (request.tools!.some((tool) => isNamed(tool, name))) continue;
    yield [["tool_choice", ...path, "function", "name"], `no function of tools is named "${name}"`];
  }
  if (request.structured_outputs !== undefined) {
    const format = request.response_format?.type ?? "text";
    if (format !== "text") {
      yield [["structured_outputs"], `cannot be combined with a response_format of type "${format}"`];
    }
    if (isNamedChoice(choice)) yield [["structured_outputs"], "cannot be combined with a named tool_choice"];
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
  const choice = request.tool_choice ?? "none";
  const mode = typeof choice === "object" && choice.type === "allowed_tools" ? choice.allowed_tools.mode : choice;
  if (mode === "required" || typeof mode === "object") yield [["tool_choice"], message];
}

export const chatCompletionCreate = fields.superRefine((request, ctx) => {
  for (const [path, message] of contradictions(request)) ctx.addIssue({ code: "custom", path, message });
});

/** A checked request, nulls gone and plain defaults filled in. */
export type ChatRequest = z.output<typeof chatCompletionCreate>;
