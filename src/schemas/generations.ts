// Token ids in, token ids and their logprobs out: what trainers ask for that render conversations themselves.

import * as z from "zod";
import { chatFields, pickedSampling } from "./chat.js";
import { finishReason, promptLogprobs, usage } from "./completions.js";
import { field, named, streamable, streamKinds } from "./fields.js";
import { list } from "./limited.js";
import { optional } from "./parts.js";
import { settingsObject } from "./validate.js";

/** Far beyond any context. */
const MAX_TOKENS = 2 ** 20;

const settings = named(
  "GenerationSettings",
  settingsObject({
    ...chatFields.pick({
      ...pickedSampling,
      logit_bias: true,
      n: true,
      seed: true,
      stop: true,
      stop_token_ids: true,
      include_stop_str_in_output: true,
      ignore_eos: true,
      min_tokens: true,
      skip_special_tokens: true,
      allowed_token_ids: true,
      bad_words: true,
      structured_outputs: true,
      repetition_detection: true,
    }).shape,
    max_tokens: field(
      optional(z.int().min(1)),
      "Tokens of a choice at most; lowered to the room that the prompt leaves in the context. Default: that room.",
    ),
    logprobs: field(
      optional(z.int().min(0).max(20)),
      "Report the logprobs of tokens, with so many of the likeliest beside each. Default: none.",
    ),
    prompt_logprobs: field(
      optional(z.int().min(0).max(20)),
      "Report the logprobs of the prompt's tokens, with so many of the likeliest beside each. Not in streams. Default: none.",
    ),
  }),
  "How tokens are drawn. Absent and null both mean the default.",
);

const baseFields = named(
  "GenerationCreateParamsBase",
  z.object({
    ...chatFields.pick({ model: true, request_id: true, stream_options: true, cache_salt: true, priority: true }).shape,
    token_ids: field(list(z.int().min(0), MAX_TOKENS).min(1), "The prompt, taken as it is."),
    sampling_params: field(settings.nullish(), "How tokens are drawn. Default: by the model's own settings."),
    return_token_ids: field(optional(z.boolean()), "Whether the prompt's tokens are answered, too.", {
      default: false,
    }),
    output_mode: field(
      optional(z.literal("tokens")),
      "What is answered: token ids alone. Texts are what `/v1/completions` answers, which takes token ids, too.",
      { default: "tokens" },
    ),
  }),
  "A prompt of token ids. Absent and null both mean the default.",
);

export const generationCreate = streamable(baseFields, {
  id: "GenerationCreateParams",
  what: "Tokens to go on with",
  sentence: "Whether tokens come in chunks, as they are drawn.",
});

/** What the two kinds of calls take. */
export const generationCreateKinds = streamKinds(baseFields, {
  id: "GenerationCreateParams",
  what: "Tokens to go on with",
  whole: "The choices come in one piece.",
  parts: "The choices come in chunks, as tokens are drawn.",
  streamed: "in chunks",
});

/** A checked request, nulls gone. */
export type GenerationCreateRequest = z.output<typeof generationCreate>;

const logprobFields = {
  token: field(z.string(), "`token_id:N`."),
  token_id: field(z.int(), "N."),
  logprob: field(z.number(), "Natural logarithm of the raw probability, at least -9999."),
};

const topLogprob = named("GeneratedTopLogprob", z.object(logprobFields), "A token that could have been drawn.");

const tokenLogprob = named(
  "GeneratedTokenLogprob",
  z.object({ ...logprobFields, top_logprobs: field(z.array(topLogprob), "The likeliest tokens, falling.") }),
  "A drawn token.",
);

const choice = named(
  "GenerationChoice",
  z.object({
    index: field(z.int(), "Its place among the choices, from 0."),
    token_ids: field(z.array(z.int()), "The drawn tokens; of a chunk those that come next."),
    logprobs: field(
      z.object({ content: field(z.array(tokenLogprob), "One entry per token.") }).nullable(),
      "Where they were asked for.",
    ),
    finish_reason: field(finishReason.nullable(), "Why it ended; null on all chunks but its last."),
    stop_reason: field(z.union([z.number(), z.string()]).nullable(), "The stop string or token id that ended it."),
  }),
  "What was drawn behind the prompt.",
);

export const generation = named(
  "Generation",
  z.object({
    request_id: field(z.string(), "As asked, or a random one."),
    created: field(z.int(), "Unix time, in seconds."),
    model: field(z.string(), "The model that answered; of a trained one with its step."),
    output_mode: field(z.literal("tokens"), "What is answered."),
    choices: field(z.array(choice), "`n` in order; of a chunk one, on the chunk with the usage none."),
    usage: field(usage.nullish(), "How many tokens it took; of chunks as `stream_options` asks for it."),
    prompt_token_ids: field(
      z.array(z.int()).nullable(),
      "The prompt's tokens, where they were asked for; in streams on each choice's first chunk.",
    ),
    prompt_logprobs: field(
      z.array(promptLogprobs.nullable()).nullable(),
      "One entry per prompt token, the first null, where they were asked for; not in chunks.",
    ),
  }),
  "Tokens drawn behind a prompt of tokens, or a chunk of them.",
);
