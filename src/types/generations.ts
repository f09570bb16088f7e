// Made of src/schemas/generations.ts by `npm run generate`: change those.

import type { CompletionUsage, FinishReason, PromptLogprobs, StructuredOutputs } from "./chat.js";

/** A token that could have been drawn. */
export interface GeneratedTopLogprob {
  /** `token_id:N`. */
  token: string;
  /** N. */
  token_id: number;
  /** Natural logarithm of the raw probability, at least -9999. */
  logprob: number;
}

/** A drawn token. */
export interface GeneratedTokenLogprob {
  /** `token_id:N`. */
  token: string;
  /** N. */
  token_id: number;
  /** Natural logarithm of the raw probability, at least -9999. */
  logprob: number;
  /** The likeliest tokens, falling. */
  top_logprobs: GeneratedTopLogprob[];
}

/** What was drawn behind the prompt. */
export interface GenerationChoice {
  /** Its place among the choices, from 0. */
  index: number;
  /** The drawn tokens; of a chunk those that come next. */
  token_ids: number[];
  /** Where they were asked for. */
  logprobs: {
    /** One entry per token. */
    content: GeneratedTokenLogprob[];
  } | null;
  /** Why it ended; null on all chunks but its last. */
  finish_reason: FinishReason | null;
  /** The stop string or token id that ended it. */
  stop_reason: number | string | null;
}

/** Tokens drawn behind a prompt of tokens, or a chunk of them. */
export interface Generation {
  /** As asked, or a random one. */
  request_id: string;
  /** Unix time, in seconds. */
  created: number;
  /** The model that answered; of a trained one with its step. */
  model: string;
  /** What is answered. */
  output_mode: "tokens";
  /** `n` in order; of a chunk one, on the chunk with the usage none. */
  choices: GenerationChoice[];
  /** How many tokens it took; of chunks as `stream_options` asks for it. */
  usage?: CompletionUsage | null;
  /** The prompt's tokens, where they were asked for; in streams on each choice's first chunk. */
  prompt_token_ids: number[] | null;
  /** One entry per prompt token, the first null, where they were asked for; not in chunks. */
  prompt_logprobs: (PromptLogprobs | null)[] | null;
}

/** How tokens are drawn. Absent and null both mean the default. */
export interface GenerationSettings {
  /**
   * What logits are divided by; 0 is greedy: the likeliest token. At least 0. Default: the model folder's; of trained
   * models, and where it has none, 1.
   */
  temperature?: number | null;
  /**
   * Only the likeliest tokens that together have this probability are drawn; 1: all. Above 0, at most 1. Default: the
   * model folder's; of trained models, and where it has none, 1.
   */
  top_p?: number | null;
  /**
   * Only so many of the likeliest tokens are drawn; 0 and -1: all. A whole number, at least -1. Default: the model
   * folder's; of trained models, and where it has none, 0.
   */
  top_k?: number | null;
  /**
   * Tokens less likely than this times the likeliest are not drawn; 0: all are. 0 to 1. Default: the model folder's; of
   * trained models, and where it has none, 0.
   */
  min_p?: number | null;
  /**
   * Divides positive and multiplies negative logits of tokens that prompt or reply have already. Above 0. Default: the
   * model folder's; of trained models, and where it has none, 1.
   */
  repetition_penalty?: number | null;
  /** Taken from a token's logit for every time that the reply has it already. -2 to 2. Default: 0. */
  frequency_penalty?: number | null;
  /** Taken from a token's logit when the reply has it already. -2 to 2. Default: 0. */
  presence_penalty?: number | null;
  /**
   * Added to the logits of tokens, by token id; clamped to [-100, 100]. Ids outside the vocabulary are a
   * ValidationError.
   */
  logit_bias?: { [tokenId: string]: number } | null;
  /** How many choices. A whole number, 1 to 16384. Default: 1. */
  n?: number | null;
  /**
   * A 64-bit integer, beyond 2^53 as BigInt: the same request with the same seed draws the same tokens. Choice i draws
   * as with seed + i. -1: none. Default: none.
   */
  seed?: number | bigint | null;
  /** Texts that end a choice, which is cut before them. Default: none. */
  stop?: string | readonly string[] | null;
  /**
   * Tokens that end a choice. Ids outside the vocabulary are a ValidationError. At most 524288 entries. Default: [].
   */
  stop_token_ids?: readonly number[] | null;
  /** Whether the text that ended a choice stays in it. Default: false. */
  include_stop_str_in_output?: boolean | null;
  /** Go on after the model's own end tokens; `stop_token_ids` still end a choice. Default: false. */
  ignore_eos?: boolean | null;
  /** Tokens before which nothing ends a choice. A whole number, at least 0. Default: 0. */
  min_tokens?: number | null;
  /** Leave special tokens out of the text. Default: true. */
  skip_special_tokens?: boolean | null;
  /**
   * The only tokens that may be drawn. Ids outside the vocabulary are a ValidationError. 1 to 524288 entries. Default:
   * all.
   */
  allowed_token_ids?: readonly number[] | null;
  /**
   * Words that are not written, at the start of a text or after a space; 100,000 characters at most together. At most
   * 16384 entries. Default: [].
   */
  bad_words?: readonly string[] | null;
  /** What the reply follows. Not with a `response_format`, nor a function in `tool_choice`. Default: any text. */
  structured_outputs?: StructuredOutputs | null;
  /** End a choice (`finish_reason: "repetition"`) whose last tokens repeat a pattern. Default: not looked for. */
  repetition_detection?: {
    /** Tokens of a pattern at most; 0: repetition is not looked for. A whole number, at least 0. Default: 0. */
    max_pattern_size?: number | null;
    /** Tokens of a pattern at least, up to `max_pattern_size`. A whole number, at least 0. Default: 0. */
    min_pattern_size?: number | null;
    /** Copies of a pattern in a row that end the reply, at least 2. A whole number, at least 0. Default: 0. */
    min_count?: number | null;
  } | null;
  /**
   * Tokens of a choice at most; lowered to the room that the prompt leaves in the context. A whole number, at least 1.
   * Default: that room.
   */
  max_tokens?: number | null;
  /**
   * Report the logprobs of tokens, with so many of the likeliest beside each. A whole number, 0 to 20. Default: none.
   */
  logprobs?: number | null;
  /**
   * Report the logprobs of the prompt's tokens, with so many of the likeliest beside each. Not in streams. A whole
   * number, 0 to 20. Default: none.
   */
  prompt_logprobs?: number | null;
}

/** A prompt of token ids. Absent and null both mean the default. */
export interface GenerationCreateParamsBase {
  /**
   * A base model, or a trained model's name, such as `project/name` or `entity/project/name:step3`; a NotFoundError
   * when there is none. Default: the engine's first base model.
   */
  model?: string | null;
  /** Part of the reply's `id`. Default: a random one. */
  request_id?: string | null;
  /** Only with `stream: true`. */
  stream_options?: {
    /** Whether a last chunk without choices has the usage. Default: false. */
    include_usage?: boolean | null;
    /** Whether every chunk has the usage so far; needs `include_usage`. Default: false. */
    continuous_usage_stats?: boolean | null;
  } | null;
  /**
   * Cached prompts are shared only among requests of the same salt, so that nobody learns from the time a reply takes
   * what others asked. Not empty. Default: those without one share theirs, of each entity other than the owner's among
   * themselves.
   */
  cache_salt?: string | null;
  /** Lower runs earlier. A ValidationError unless it is 0 or the engine's scheduler is "priority". Default: 0. */
  priority?: number | null;
  /** The prompt, taken as it is. 1 to 1048576 entries. */
  token_ids: readonly number[];
  /** How tokens are drawn. Default: by the model's own settings. */
  sampling_params?: GenerationSettings | null;
  /** Whether the prompt's tokens are answered, too. Default: false. */
  return_token_ids?: boolean | null;
  /**
   * What is answered: token ids alone. Texts are what `/v1/completions` answers, which takes token ids, too. Default:
   * "tokens".
   */
  output_mode?: "tokens" | null;
}

/** Tokens to go on with. */
export interface GenerationCreateParams extends GenerationCreateParamsBase {
  /** Whether tokens come in chunks, as they are drawn. Default: false. */
  stream?: boolean | null;
}

/** Tokens to go on with, in one piece. */
export interface GenerationCreateParamsNonStreaming extends GenerationCreateParamsBase {
  /** The choices come in one piece. */
  stream?: false | null;
}

/** Tokens to go on with, in chunks. */
export interface GenerationCreateParamsStreaming extends GenerationCreateParamsBase {
  /** The choices come in chunks, as tokens are drawn. */
  stream: true;
}
