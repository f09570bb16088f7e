// Completions of plain prompts: no messages, no template, no tools.

import * as z from "zod";
import { chatFields, pickedSampling } from "./chat.js";
import { finishReason, promptLogprobs, usage } from "./completions.js";
import { byDefault, field, named, streamable, streamKinds, typed } from "./fields.js";
import { list } from "./limited.js";
import { flag, optional } from "./parts.js";

/** Far beyond any context: what does not fit is told by what it has too many of. */
const MAX_TOKENS = 2 ** 20;

const tokens = list(z.int().min(0), MAX_TOKENS).min(1);

const shared = chatFields.pick({
  model: true,
  ...pickedSampling,
  logit_bias: true,
  n: true,
  seed: true,
  stop: true,
  stream_options: true,
  user: true,
  use_beam_search: true,
  length_penalty: true,
  stop_token_ids: true,
  include_stop_str_in_output: true,
  ignore_eos: true,
  min_tokens: true,
  skip_special_tokens: true,
  spaces_between_special_tokens: true,
  truncate_prompt_tokens: true,
  truncation_side: true,
  allowed_token_ids: true,
  bad_words: true,
  response_format: true,
  structured_outputs: true,
  priority: true,
  request_id: true,
  return_tokens_as_token_ids: true,
  return_token_ids: true,
  cache_salt: true,
  repetition_detection: true,
  kv_transfer_params: true,
  engine_xargs: true,
  vllm_xargs: true,
  stream_interval: true,
});

const baseFields = named(
  "TextCompletionCreateParamsBase",
  z.object({
    ...shared.shape,
    prompt: field(
      typed(
        z.union([z.string(), list(z.union([z.string(), tokens, z.int().min(0)]), MAX_TOKENS).min(1)]),
        "string | readonly string[] | readonly number[] | readonly (readonly number[])[]",
      ),
      "What is gone on with: a text, token ids, or a list of either, of 1024 entries at most. Choice i is of prompt i / n.",
    ),
    suffix: field(typed(z.unknown().optional(), "null"), "Not available here. Has to be null or absent."),
    max_tokens: field(
      byDefault(z.int().min(0), 16),
      "Tokens of a choice at most; lowered to the room that the prompt leaves in the context. 0 needs `echo`: nothing is written.",
    ),
    echo: field(flag(false), "Whether a choice begins with its prompt, and its logprobs with the prompt's."),
    logprobs: field(
      optional(z.int().min(0).max(20)),
      "Report the logprobs of tokens, with so many of the likeliest beside each. Default: none.",
    ),
    prompt_logprobs: field(
      optional(z.int().min(0).max(20)),
      "Report the logprobs of the prompt's tokens, with so many of the likeliest beside each. Not in streams. Default: none, or with `echo` what `logprobs` says.",
    ),
    best_of: field(
      optional(z.int().min(1).max(16384)),
      "Draw so many choices, at least `n`, and answer the `n` whose tokens are likeliest on average. Not in streams. Default: `n`.",
    ),
    add_special_tokens: field(
      flag(true),
      "Whether the tokenizer adds the tokens that texts begin and end with. Token ids are taken as they are.",
    ),
  }),
  "The settings of a completion. Absent and null both mean the default.",
);

const fields = streamable(baseFields, {
  id: "TextCompletionCreateParams",
  what: "A completion to create",
  sentence: "Whether choices come in chunks, as they are written.",
});

/** What the two kinds of calls take. */
export const textCompletionCreateKinds = streamKinds(baseFields, {
  id: "TextCompletionCreateParams",
  what: "A completion to create",
  whole: "The choices come in one piece.",
  parts: "The choices come in chunks, as they are written.",
  streamed: "in chunks",
});

function* contradictions(request: z.output<typeof fields>): Generator<[path: string, message: string]> {
  if (request.suffix != null) yield ["suffix", "is not available here"];
  if (request.max_tokens === 0 && !request.echo) yield ["max_tokens", "must be at least 1, unless echo is true"];
  if ((request.best_of ?? request.n) < request.n) yield ["best_of", `must be at least n (${request.n})`];
  if ((request.best_of ?? request.n) > request.n) {
    if (request.stream) yield ["best_of", "is not available when stream is true"];
    if (request.use_beam_search) yield ["best_of", "is not available with beam search"];
  }
}

export const textCompletionCreate = fields.superRefine((request, ctx) => {
  for (const [path, message] of contradictions(request)) ctx.addIssue({ code: "custom", path: [path], message });
});

/** A checked request, nulls gone and plain defaults filled in. */
export type TextCompletionRequest = z.output<typeof textCompletionCreate>;

const logprobs = named(
  "TextCompletionLogprobs",
  z.object({
    tokens: field(z.array(z.string()), "The tokens' texts, or `token_id:N`."),
    token_logprobs: field(
      z.array(z.number().nullable()),
      "Natural logarithms of the raw probabilities, at least -9999; of the first token of a prompt null.",
    ),
    top_logprobs: field(
      z.array(z.record(z.string(), z.number()).nullable()),
      "By its text, each token and the likeliest beside it.",
    ),
    text_offset: field(z.array(z.int()), "Where in the text each token begins."),
  }),
  "The logprobs of a choice's tokens, one entry each.",
);

const choice = named(
  "TextCompletionChoice",
  z.object({
    index: field(z.int(), "Its place among the choices of all prompts, from 0."),
    text: field(z.string(), "The text; of a chunk what comes next of it."),
    logprobs: field(logprobs.nullable(), "Where they were asked for."),
    finish_reason: field(finishReason.nullable(), "Why it ended; null on all chunks but its last."),
    stop_reason: field(z.union([z.number(), z.string()]).nullable(), "The stop string or token id that ended it."),
    prompt_logprobs: field(
      z.array(promptLogprobs.nullable()).nullish(),
      "One entry per prompt token, the first null, where they were asked for; not in chunks.",
    ),
    token_ids: field(z.array(z.int()).nullable(), "The drawn tokens, where they were asked for."),
    prompt_token_ids: field(
      z.array(z.int()).nullable(),
      "The prompt's tokens, where they were asked for; in streams on the first chunk.",
    ),
  }),
  "One of the texts.",
);

export const textCompletion = named(
  "TextCompletion",
  z.object({
    id: field(z.string(), "`cmpl-` and the request's id."),
    object: z.literal("text_completion"),
    created: field(z.int(), "Unix time, in seconds."),
    model: field(z.string(), "The model that answered; of a trained one with its step."),
    choices: field(z.array(choice), "`n` of each prompt, in order; of a chunk one, on the chunk with the usage none."),
    system_fingerprint: field(z.string(), "Of the engine's version and the model."),
    usage: field(
      usage.nullish(),
      "How many tokens it took, over all prompts; of chunks as `stream_options` asks for it.",
    ),
  }),
  "A completion, or a chunk of one.",
);
