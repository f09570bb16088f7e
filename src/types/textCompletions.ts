// Made of src/schemas/textCompletions.ts by `npm run generate`: change those.

import type { ChatResponseFormat, CompletionUsage, FinishReason, PromptLogprobs, StructuredOutputs } from "./chat.js";

/** The logprobs of a choice's tokens, one entry each. */
export interface TextCompletionLogprobs {
  /** The tokens' texts, or `token_id:N`. */
  tokens: string[];
  /** Natural logarithms of the raw probabilities, at least -9999; of the first token of a prompt null. */
  token_logprobs: (number | null)[];
  /** By its text, each token and the likeliest beside it. */
  top_logprobs: (Record<string, number> | null)[];
  /** Where in the text each token begins. */
  text_offset: number[];
}

/** One of the texts. */
export interface TextCompletionChoice {
  /** Its place among the choices of all prompts, from 0. */
  index: number;
  /** The text; of a chunk what comes next of it. */
  text: string;
  /** Where they were asked for. */
  logprobs: TextCompletionLogprobs | null;
  /** Why it ended; null on all chunks but its last. */
  finish_reason: FinishReason | null;
  /** The stop string or token id that ended it. */
  stop_reason: number | string | null;
  /** One entry per prompt token, the first null, where they were asked for; not in chunks. */
  prompt_logprobs?: (PromptLogprobs | null)[] | null;
  /** The drawn tokens, where they were asked for. */
  token_ids: number[] | null;
  /** The prompt's tokens, where they were asked for; in streams on the first chunk. */
  prompt_token_ids: number[] | null;
}

/** A completion, or a chunk of one. */
export interface TextCompletion {
  /** `cmpl-` and the request's id. */
  id: string;
  object: "text_completion";
  /** Unix time, in seconds. */
  created: number;
  /** The model that answered; of a trained one with its step. */
  model: string;
  /** `n` of each prompt, in order; of a chunk one, on the chunk with the usage none. */
  choices: TextCompletionChoice[];
  /** Of the engine's version and the model. */
  system_fingerprint: string;
  /** How many tokens it took, over all prompts; of chunks as `stream_options` asks for it. */
  usage?: CompletionUsage | null;
}

/** The settings of a completion. Absent and null both mean the default. */
export interface TextCompletionCreateParamsBase {
  /**
   * A base model, or a trained model's name, such as `project/name` or `entity/project/name:step3`; a NotFoundError
   * when there is none. Default: the engine's first base model.
   */
  model?: string | null;
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
  /** Only with `stream: true`. */
  stream_options?: {
    /** Whether a last chunk without choices has the usage. Default: false. */
    include_usage?: boolean | null;
    /** Whether every chunk has the usage so far; needs `include_usage`. Default: false. */
    continuous_usage_stats?: boolean | null;
  } | null;
  /** Without effect. */
  user?: string | null;
  /** Search the `n` likeliest replies instead of drawing them. Default: false. */
  use_beam_search?: boolean | null;
  /** Of beam search: scores are divided by the length, prompt included, to this power. Default: 1. */
  length_penalty?: number | null;
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
  /** Put spaces around special tokens in the text; without effect while they are left out. Default: true. */
  spaces_between_special_tokens?: boolean | null;
  /**
   * Keep so many of the prompt's tokens; -1: as many as the context has room for. Default: a prompt that is too long is
   * a ValidationError.
   */
  truncate_prompt_tokens?: number | null;
  /** Which end of the prompt is cut: "left" keeps its last tokens, "right" its first. Default: "left". */
  truncation_side?: "left" | "right" | null;
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
  /** The form that the text of replies has. Default: any. */
  response_format?: ChatResponseFormat | null;
  /** What the reply follows. Not with a `response_format`, nor a function in `tool_choice`. Default: any text. */
  structured_outputs?: StructuredOutputs | null;
  /** Lower runs earlier. A ValidationError unless it is 0 or the engine's scheduler is "priority". Default: 0. */
  priority?: number | null;
  /** Part of the reply's `id`. Default: a random one. */
  request_id?: string | null;
  /** Write tokens of `logprobs` as `token_id:N`. Default: true for trained models, else false. */
  return_tokens_as_token_ids?: boolean | null;
  /** Whether the reply has the token ids of prompt and choices. Default: true for trained models, else false. */
  return_token_ids?: boolean | null;
  /**
   * Cached prompts are shared only among requests of the same salt, so that nobody learns from the time a reply takes
   * what others asked. Not empty. Default: those without one share theirs, of each entity other than the owner's among
   * themselves.
   */
  cache_salt?: string | null;
  /** End a choice (`finish_reason: "repetition"`) whose last tokens repeat a pattern. Default: not looked for. */
  repetition_detection?: {
    /** Tokens of a pattern at most; 0: repetition is not looked for. A whole number, at least 0. Default: 0. */
    max_pattern_size?: number | null;
    /** Tokens of a pattern at least, up to `max_pattern_size`. A whole number, at least 0. Default: 0. */
    min_pattern_size?: number | null;
    /** Copies of a pattern in a row that end the reply, at least 2. A whole number, at least 0. Default: 0. */
    min_count?: number | null;
  } | null;
  /** Has to be empty: this engine transfers no key-value cache. */
  kv_transfer_params?: Record<string, unknown> | null;
  /** Without effect. */
  engine_xargs?: Record<string, string | number | readonly (string | number)[]> | null;
  /** Another spelling of `engine_xargs`. */
  vllm_xargs?: Record<string, string | number | readonly (string | number)[]> | null;
  /**
   * Tokens that a chunk of a stream waits for; the first and the last chunk do not wait. A whole number, at least 1.
   * Default: 1.
   */
  stream_interval?: number | null;
  /**
   * What is gone on with: a text, token ids, or a list of either, of 1024 entries at most. Choice i is of prompt i / n.
   */
  prompt: string | readonly string[] | readonly number[] | readonly (readonly number[])[];
  /** Not available here. Has to be null or absent. */
  suffix?: null;
  /**
   * Tokens of a choice at most; lowered to the room that the prompt leaves in the context. 0 needs `echo`: nothing is
   * written. A whole number, at least 0. Default: 16.
   */
  max_tokens?: number | null;
  /** Whether a choice begins with its prompt, and its logprobs with the prompt's. Default: false. */
  echo?: boolean | null;
  /**
   * Report the logprobs of tokens, with so many of the likeliest beside each. A whole number, 0 to 20. Default: none.
   */
  logprobs?: number | null;
  /**
   * Report the logprobs of the prompt's tokens, with so many of the likeliest beside each. Not in streams. A whole
   * number, 0 to 20. Default: none, or with `echo` what `logprobs` says.
   */
  prompt_logprobs?: number | null;
  /**
   * Draw so many choices, at least `n`, and answer the `n` whose tokens are likeliest on average. Not in streams. A
   * whole number, 1 to 16384. Default: `n`.
   */
  best_of?: number | null;
  /**
   * Whether the tokenizer adds the tokens that texts begin and end with. Token ids are taken as they are. Default:
   * true.
   */
  add_special_tokens?: boolean | null;
}

/** A completion to create. */
export interface TextCompletionCreateParams extends TextCompletionCreateParamsBase {
  /** Whether choices come in chunks, as they are written. Default: false. */
  stream?: boolean | null;
}

/** A completion to create, in one piece. */
export interface TextCompletionCreateParamsNonStreaming extends TextCompletionCreateParamsBase {
  /** The choices come in one piece. */
  stream?: false | null;
}

/** A completion to create, in chunks. */
export interface TextCompletionCreateParamsStreaming extends TextCompletionCreateParamsBase {
  /** The choices come in chunks, as they are written. */
  stream: true;
}
