// What a chat completion answers, whole and in chunks.

import * as z from "zod";
import { field, named, typed } from "./fields.js";

export const finishReason = named(
  "FinishReason",
  z.enum(["stop", "length", "tool_calls", "abort", "repetition"]),
  "Why a choice ended: by itself or by a stop; at its limit; to have functions called; broken off; in repetition.",
);

const logprobFields = {
  token: field(z.string(), "The token's text, or `token_id:N`."),
  logprob: field(z.number(), "Natural logarithm of the raw probability, at least -9999."),
  bytes: field(z.array(z.int()), "UTF-8 of the token's own text."),
};

const topLogprob = named("TopLogprob", z.object(logprobFields), "A token that could have been drawn.");

const tokenLogprob = named(
  "TokenLogprob",
  z.object({
    ...logprobFields,
    top_logprobs: field(z.array(topLogprob), "The likeliest tokens, falling, or those that were asked for."),
    temperature_logprob: field(
      z.number().optional(),
      "Of a trained model sampled at a temperature that is neither 0 nor 1: the logprob at it, which training needs.",
    ),
  }),
  "A drawn token.",
);

const choiceLogprobs = named(
  "ChoiceLogprobs",
  z.object({ content: field(z.array(tokenLogprob), "One entry per token.") }),
  "The logprobs of a choice's tokens.",
);

export const promptLogprobs = named(
  "PromptLogprobs",
  z.record(
    z.string(),
    z.object({
      logprob: field(z.number(), "Natural logarithm of the raw probability, at least -9999."),
      rank: field(z.int(), "Tokens that are at least as likely; 1 is the likeliest."),
      decoded_token: field(z.string(), "The token's text."),
    }),
  ),
  "Of one prompt token, keyed by token id: the token itself first, then the likeliest.",
);

const toolCall = named(
  "ToolCall",
  z.object({
    id: field(z.string(), "Its id, which the tool's message repeats."),
    type: z.literal("function"),
    function: field(
      z.object({
        name: field(z.string(), "The function's name."),
        arguments: field(z.string(), "JSON, as the model wrote it."),
      }),
      "The call.",
    ),
  }),
  "A function that the model wants called.",
);

const message = named(
  "ChatCompletionMessage",
  z.object({
    role: field(
      typed(z.string(), '"assistant"'),
      "With `add_generation_prompt: false` it is the role of the message that the model goes on with, whichever that is.",
    ),
    content: field(z.string().nullable(), "The text; null where there are only calls or thoughts."),
    refusal: field(z.null(), "Always null."),
    annotations: field(z.null(), "Always null."),
    audio: field(z.null(), "Always null."),
    function_call: field(z.null(), "Always null."),
    tool_calls: field(z.array(toolCall).optional(), "Functions that the model wants called."),
    reasoning: field(z.string().nullable(), "What the model thought."),
  }),
  "What the model says.",
);

const samplingSettings = named(
  "SamplingSettingsRecord",
  z.record(z.string(), z.unknown()),
  "Every sampling setting of a request that changes the distribution tokens are drawn from.",
);

const choiceSettings = field(
  samplingSettings.optional(),
  "Of a trained model: the settings that were not neutral, when there are any.",
);
const tokenIds = z.array(z.int());
const stopReason = z.union([z.number(), z.string()]).nullable();

const choice = named(
  "ChatCompletionChoice",
  z.object({
    index: field(z.int(), "Its place among the choices, from 0."),
    message: field(message, "What the model says."),
    logprobs: field(choiceLogprobs.nullable(), "Where they were asked for."),
    finish_reason: field(finishReason, "Why it ended."),
    stop_reason: field(stopReason, "The stop string or token id that ended it."),
    token_ids: field(tokenIds.nullable(), "The drawn tokens, where they were asked for."),
    prompt_token_ids: field(
      tokenIds.optional(),
      "The prompt, repeated here when messages and tools alone do not make it (template arguments, documents, a template that shows the time) and the model can be trained: choices are often kept without the completion around them.",
    ),
    sampling_settings: choiceSettings,
  }),
  "One of the replies.",
);

export const usage = named(
  "CompletionUsage",
  z.object({
    prompt_tokens: field(z.int(), "Of the prompt, counted once."),
    total_tokens: field(z.int(), "Both."),
    completion_tokens: field(z.int(), "Of all choices."),
    prompt_tokens_details: field(
      z.object({ cached_tokens: field(z.int(), "Of the prompt's: those that were not computed again.") }),
      "More of the prompt.",
    ),
    completion_tokens_details: field(
      z
        .object({
          reasoning_tokens: field(
            z.int().optional(),
            "Of the completion's: those of thoughts, of a model that thinks.",
          ),
          accepted_prediction_tokens: field(
            z.int().optional(),
            "Of the completion's: those that were guessed from the `prediction`.",
          ),
          rejected_prediction_tokens: field(
            z.int().optional(),
            "Tokens of the `prediction` that were guessed, and did not come.",
          ),
        })
        .optional(),
      "More of the completion, of chats with a model that thinks or a `prediction`.",
    ),
  }),
  "How many tokens a completion took.",
);

const envelope = {
  id: field(z.string(), "`chatcmpl-` and the request's id."),
  created: field(z.int(), "Unix time, in seconds."),
  model: field(z.string(), "The model that answered; of a trained one with its step."),
};

export const chatCompletion = named(
  "ChatCompletion",
  z.object({
    ...envelope,
    object: z.literal("chat.completion"),
    choices: field(z.array(choice), "The replies, `n` of them."),
    service_tier: field(z.null(), "Always null."),
    system_fingerprint: field(z.string(), "Of the engine's version and the model."),
    usage: field(usage, "How many tokens it took."),
    prompt_logprobs: field(
      z.array(promptLogprobs.nullable()).nullable(),
      "One entry per prompt token, the first null, where they were asked for.",
    ),
    prompt_token_ids: field(tokenIds.nullable(), "The prompt's tokens, where they were asked for."),
    kv_transfer_params: field(z.null(), "Always null."),
  }),
  "A chat completion.",
);

const toolCallDelta = named(
  "ToolCallDelta",
  z.object({
    index: field(z.int(), "Which of the message's calls it belongs to."),
    id: field(z.string().optional(), "On the first delta of a call, with the name."),
    type: field(z.literal("function").optional(), "On the first delta of a call."),
    function: field(
      z.object({
        name: field(z.string().optional(), "The function's name."),
        arguments: field(z.string().optional(), "What comes next of the JSON."),
      }),
      "What comes next of the call.",
    ),
  }),
  "What comes next of a call.",
);

const delta = named(
  "ChatCompletionDelta",
  z.object({
    role: field(z.string().optional(), "On the first chunk of a choice."),
    content: field(z.string().nullish(), "What comes next of the text."),
    reasoning: field(z.string().optional(), "What comes next of the thoughts."),
    tool_calls: field(z.array(toolCallDelta).optional(), "What comes next of the calls."),
  }),
  "What comes next of a message.",
);

const chunkChoice = named(
  "ChatCompletionChunkChoice",
  z.object({
    index: field(z.int(), "Which of the choices it belongs to."),
    delta: field(delta, "What comes next."),
    logprobs: field(choiceLogprobs.nullable(), "Of this chunk's tokens."),
    finish_reason: field(finishReason.nullable(), "Why the choice ended, on its last chunk."),
    stop_reason: field(stopReason.optional(), "The stop string or token id that ended it, on its last chunk."),
    token_ids: field(tokenIds.nullish(), "This chunk's tokens, where they were asked for."),
    sampling_settings: choiceSettings,
  }),
  "What comes next of a choice.",
);

export const chatCompletionChunk = named(
  "ChatCompletionChunk",
  z.object({
    ...envelope,
    object: z.literal("chat.completion.chunk"),
    choices: field(z.array(chunkChoice), "One; on the chunk with the usage none."),
    system_fingerprint: field(z.string().optional(), "On the last chunk."),
    usage: field(usage.nullish(), "As `stream_options` asks for it."),
    prompt_token_ids: field(tokenIds.nullish(), "On the first chunk of each choice only, where they were asked for."),
  }),
  "A part of a chat completion.",
);
