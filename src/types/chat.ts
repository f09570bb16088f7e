// Made of src/schemas/chat.ts and completions.ts by `npm run generate`: change those.

/**
 * A message as a request takes it: any `ChatMessage`, and what is said less strictly; further fields reach the chat
 * template.
 */
export interface ChatMessageParam {
  /** Who says it. Roles are not restricted: the chat template decides. Not empty. */
  role: string;
  /** A text, or parts of one: texts, or objects with a `type` that says which of their fields is the text. */
  content?: string | readonly (string | object)[] | null;
  /** Of the one who says it, where the template shows it. */
  name?: string | null;
  /** Of an assistant message: the functions that it called. At most 4096 entries. */
  tool_calls?: readonly object[] | null;
  /** Of a tool message: the call that it answers. */
  tool_call_id?: string;
  /** What the assistant thought, where the template shows it. */
  reasoning?: string | null;
}

/** The form that replies have. */
export interface ChatResponseFormat {
  /** "text", "json_object", "json_schema" or "structural_tag". */
  type: string;
  /** With the type "json_schema": what the reply follows. */
  json_schema?: {
    /** Without effect. */
    name?: string | null;
    /** Without effect. */
    description?: string | null;
    /** The JSON Schema. A keyword that cannot be enforced is a ValidationError. */
    schema?: { [key: string]: unknown } | null;
    /** Whether objects have no properties but those that the schema names. Default: false. */
    strict?: boolean | null;
  } | null;
  /** With the type "structural_tag": either this, or `structures` and `triggers`. */
  format?: { [key: string]: unknown };
  /**
   * Where a trigger has been written, the reply goes on as one of these: with `begin`, a value of the JSON Schema
   * `schema`, and `end`.
   */
  structures?: readonly { begin: string; schema: { [key: string]: unknown }; end: string }[];
  /** Texts with which a structure begins. */
  triggers?: readonly string[];
}

/** A function that the model may call. */
export interface ChatTool {
  /** "function"; tools of other types are refused. */
  type: string;
  /** The function. */
  function?: {
    /** The function's name. Not empty. */
    name: string;
    /** What it does, for the model. */
    description?: string | null;
    /** JSON Schema of its arguments. Default: none, or any. */
    parameters?: Record<string, unknown> | null;
    /** Whether a call that is forced follows the schema exactly, so that objects are closed. */
    strict?: boolean | null;
  };
}

/** That a certain function has to be called. */
export interface ChatToolChoiceFunction {
  type: "function";
  /** The `name` of one of the request's tools. */
  function: {
    name: string;
  };
}

/** That some of the request's tools may be called or have to be; the model is shown no others. */
export interface ChatToolChoiceAllowedTools {
  type: "allowed_tools";
  /** The tools, and whether one has to be called. */
  allowed_tools: {
    /** As `tool_choice` itself. */
    mode: "auto" | "required";
    /** Which of the request's tools. 1 to 4096 entries. */
    tools: readonly {
      type: "function";
      /** Its `name`. */
      function: {
        name: string;
      };
    }[];
  };
}

/** What the text of a reply will be like. */
export interface ChatPrediction {
  /** "content". */
  type: "content";
  /** The text, or its parts in their order. */
  content:
    | string
    | readonly {
        /** "text". */
        type: "text";
        /** The part. */
        text: string;
      }[];
}

/** What the reply follows: exactly one of `json`, `regex`, `choice`, `grammar`, `json_object` and `structural_tag`. */
export interface StructuredOutputs {
  /** A JSON Schema, as text or as an object. A keyword that cannot be enforced is a ValidationError. */
  json?: string | Record<string, unknown> | boolean | null;
  /** A regular expression that the whole reply matches. */
  regex?: string | null;
  /** Texts of which the reply is one. 1 to 16384 entries. */
  choice?: readonly string[] | null;
  /** A grammar in GBNF, EBNF or Lark. Not empty. */
  grammar?: string | null;
  /** true: any JSON object. */
  json_object?: boolean | null;
  /** Free text with constrained passages, as JSON text or as an object. */
  structural_tag?: string | Record<string, unknown> | null;
  /** Without effect. Default: false. */
  disable_fallback?: boolean | null;
  /** Write JSON without spaces that it does not need. Default: false. */
  disable_any_whitespace?: boolean | null;
  /** Objects have no properties but those that the schema names. Default: false. */
  disable_additional_properties?: boolean | null;
  /**
   * Properties may come in any order. Where a schema declares more than 8 and all orders are too many, each of those
   * that it does not require may then come again; where it requires more than 8, they keep the order in which it
   * declares them. In a schema of hundreds of objects, 3 take the place of 8 in the later ones. Default: false.
   */
  any_order?: boolean | null;
  /** A regular expression of the spaces between the parts of JSON. Default: as usual. */
  whitespace_pattern?: string | null;
  /** Either "auto" or "anneal". Default: "auto". */
  _backend?: string | null;
  /** Without effect. Default: false. */
  _backend_was_auto?: boolean | null;
}

/** The settings of a chat completion. Absent and null both mean the default. */
export interface ChatCompletionCreateParamsBase {
  /** The conversation that the reply continues. 1 to 131072 entries. */
  messages: ChatMessageParam[];
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
  /** Whether choices have the logprobs of their tokens. Default: true for trained models, else false. */
  logprobs?: boolean | null;
  /**
   * How many of the likeliest tokens every entry of `logprobs` lists, 20 at most; -1: the whole vocabulary, where that
   * is not more. Needs `logprobs: true`. A whole number, at least -1. Default: 0.
   */
  top_logprobs?: number | null;
  /**
   * Tokens, 128 at most, whose logprobs every entry lists instead of the likeliest. Needs `logprobs: true`. 1 to 524288
   * entries.
   */
  logprob_token_ids?: readonly number[] | null;
  /** Another spelling of `max_completion_tokens`, which wins. At least 1. A whole number. @deprecated */
  max_tokens?: number | null;
  /**
   * Tokens of a choice at most, thoughts included; lowered to the room that the prompt leaves in the context. A whole
   * number, at least 1. Default: the model folder's, else all of it.
   */
  max_completion_tokens?: number | null;
  /** How many choices. A whole number, 1 to 16384. Default: 1. */
  n?: number | null;
  /** The form that the text of replies has. Default: any. */
  response_format?: ChatResponseFormat | null;
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
  /** Functions that the model may call. At most 4096 entries. Default: none. */
  tools?: readonly ChatTool[] | null;
  /**
   * "none": no calls. "auto": as the model likes; beside a `response_format` of JSON a reply is either calls, whose
   * arguments follow the functions' parameters, or a text in the form. "required": at least one. Or (`type` "function")
   * a function of `tools`, which is called; or (`type` "allowed_tools") some of them. All but "none" need a tool parser
   * of the engine. Default: "auto" with `tools` where there is such a parser, else "none".
   */
  tool_choice?: string | ChatToolChoiceFunction | ChatToolChoiceAllowedTools | { type: string } | null;
  /** What it does is up to the chat template. Default: what the template takes it for. */
  reasoning_effort?: "none" | "minimal" | "low" | "medium" | "high" | "xhigh" | "max" | null;
  /**
   * Tokens at most that the model may think; then its thoughts are closed. -1: any number. A whole number, at least -1.
   * Default: any number.
   */
  thinking_token_budget?: number | null;
  /** false: thoughts, token ids and logprobs are left out of the reply. Default: true. */
  include_reasoning?: boolean | null;
  /** false and null: only the first call is kept. Default: true. */
  parallel_tool_calls?: boolean | null;
  /**
   * A text that replies will be much like, as a file that is to be changed in places: the tokens that come of it are
   * guessed, and a step computes many of them at once where the engine guesses (`speculation`). Replies are the same
   * without it; `usage` tells how many of its tokens came so. Default: none.
   */
  prediction?: ChatPrediction | null;
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
   * Report the logprobs of the prompt's tokens, with so many of the likeliest beside each, 20 at most; -1: the whole
   * vocabulary, where that is not more. Not in streams. A whole number, at least -1. Default: none, or with `echo` as
   * `top_logprobs`.
   */
  prompt_logprobs?: number | null;
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
  /** Begin the reply with the last message's text, where that has the same role as the reply. Default: false. */
  echo?: boolean | null;
  /** Whether the template opens the assistant's message. Default: true, but with `continue_final_message` false. */
  add_generation_prompt?: boolean | null;
  /** Go on with the last message instead of beginning one. Not with `add_generation_prompt: true`. Default: false. */
  continue_final_message?: boolean | null;
  /**
   * Whether the tokenizer adds the tokens that texts begin and end with to what the template has written. Default:
   * false.
   */
  add_special_tokens?: boolean | null;
  /** Documents for templates that show them, each with `title` and `text`. At most 16384 entries. Default: none. */
  documents?: readonly Record<string, string>[] | null;
  /** A Jinja template instead of the model's own. */
  chat_template?: string | null;
  /** Further variables of the template. */
  chat_template_kwargs?: Record<string, unknown> | null;
  /** Without effect. */
  mm_processor_kwargs?: Record<string, unknown> | null;
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
  /** Of rendered prompts; generating ignores it. */
  return_token_offsets?: boolean | null;
  /**
   * Cached prompts are shared only among requests of the same salt, so that nobody learns from the time a reply takes
   * what others asked. Not empty. Default: those without one share theirs, of each entity other than the owner's among
   * themselves.
   */
  cache_salt?: string | null;
  /** Has to be empty: this engine transfers no key-value cache. */
  kv_transfer_params?: Record<string, unknown> | null;
  /** Without effect. */
  engine_xargs?: Record<string, string | number | readonly (string | number)[]> | null;
  /** Another spelling of `engine_xargs`. */
  vllm_xargs?: Record<string, string | number | readonly (string | number)[]> | null;
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
   * Tokens that a chunk of a stream waits for; the first and the last chunk do not wait. A whole number, at least 1.
   * Default: 1.
   */
  stream_interval?: number | null;
}

/** A chat completion to create. */
export interface ChatCompletionCreateParams extends ChatCompletionCreateParamsBase {
  /** Whether the reply comes in chunks, as it is written. Default: false. */
  stream?: boolean | null;
}

/** A chat completion to create, in one piece. */
export interface ChatCompletionCreateParamsNonStreaming extends ChatCompletionCreateParamsBase {
  /** The reply comes in one piece. */
  stream?: false | null;
}

/** A chat completion to create, in chunks. */
export interface ChatCompletionCreateParamsStreaming extends ChatCompletionCreateParamsBase {
  /** The reply comes in chunks, as it is written. */
  stream: true;
}

/** A function that the model wants called. */
export interface ToolCall {
  /** Its id, which the tool's message repeats. */
  id: string;
  type: "function";
  /** The call. */
  function: {
    /** The function's name. */
    name: string;
    /** JSON, as the model wrote it. */
    arguments: string;
  };
}

/** What the model says. */
export interface ChatCompletionMessage {
  /**
   * With `add_generation_prompt: false` it is the role of the message that the model goes on with, whichever that is.
   */
  role: "assistant";
  /** The text; null where there are only calls or thoughts. */
  content: string | null;
  /** Always null. */
  refusal: null;
  /** Always null. */
  annotations: null;
  /** Always null. */
  audio: null;
  /** Always null. */
  function_call: null;
  /** Functions that the model wants called. */
  tool_calls?: ToolCall[];
  /** What the model thought. */
  reasoning: string | null;
}

/** A token that could have been drawn. */
export interface TopLogprob {
  /** The token's text, or `token_id:N`. */
  token: string;
  /** Natural logarithm of the raw probability, at least -9999. */
  logprob: number;
  /** UTF-8 of the token's own text. */
  bytes: number[];
}

/** A drawn token. */
export interface TokenLogprob {
  /** The token's text, or `token_id:N`. */
  token: string;
  /** Natural logarithm of the raw probability, at least -9999. */
  logprob: number;
  /** UTF-8 of the token's own text. */
  bytes: number[];
  /** The likeliest tokens, falling, or those that were asked for. */
  top_logprobs: TopLogprob[];
  /** Of a trained model sampled at a temperature that is neither 0 nor 1: the logprob at it, which training needs. */
  temperature_logprob?: number;
}

/** The logprobs of a choice's tokens. */
export interface ChoiceLogprobs {
  /** One entry per token. */
  content: TokenLogprob[];
}

/** Why a choice ended: by itself or by a stop; at its limit; to have functions called; broken off; in repetition. */
export type FinishReason = "stop" | "length" | "tool_calls" | "abort" | "repetition";

/** Every sampling setting of a request that changes the distribution tokens are drawn from. */
export type SamplingSettingsRecord = Record<string, unknown>;

/** One of the replies. */
export interface ChatCompletionChoice {
  /** Its place among the choices, from 0. */
  index: number;
  /** What the model says. */
  message: ChatCompletionMessage;
  /** Where they were asked for. */
  logprobs: ChoiceLogprobs | null;
  /** Why it ended. */
  finish_reason: FinishReason;
  /** The stop string or token id that ended it. */
  stop_reason: number | string | null;
  /** The drawn tokens, where they were asked for. */
  token_ids: number[] | null;
  /**
   * The prompt, repeated here when messages and tools alone do not make it (template arguments, documents, a template
   * that shows the time) and the model can be trained: choices are often kept without the completion around them.
   */
  prompt_token_ids?: number[];
  /** Of a trained model: the settings that were not neutral, when there are any. */
  sampling_settings?: SamplingSettingsRecord;
}

/** How many tokens a completion took. */
export interface CompletionUsage {
  /** Of the prompt, counted once. */
  prompt_tokens: number;
  /** Both. */
  total_tokens: number;
  /** Of all choices. */
  completion_tokens: number;
  /** More of the prompt. */
  prompt_tokens_details: {
    /** Of the prompt's: those that were not computed again. */
    cached_tokens: number;
  };
  /** More of the completion, of chats with a model that thinks or a `prediction`. */
  completion_tokens_details?: {
    /** Of the completion's: those of thoughts, of a model that thinks. */
    reasoning_tokens?: number;
    /** Of the completion's: those that were guessed from the `prediction`. */
    accepted_prediction_tokens?: number;
    /** Tokens of the `prediction` that were guessed, and did not come. */
    rejected_prediction_tokens?: number;
  };
}

/** Of one prompt token, keyed by token id: the token itself first, then the likeliest. */
export type PromptLogprobs = Record<
  string,
  {
    /** Natural logarithm of the raw probability, at least -9999. */
    logprob: number;
    /** Tokens that are at least as likely; 1 is the likeliest. */
    rank: number;
    /** The token's text. */
    decoded_token: string;
  }
>;

/** A chat completion. */
export interface ChatCompletion {
  /** `chatcmpl-` and the request's id. */
  id: string;
  /** Unix time, in seconds. */
  created: number;
  /** The model that answered; of a trained one with its step. */
  model: string;
  object: "chat.completion";
  /** The replies, `n` of them. */
  choices: ChatCompletionChoice[];
  /** Always null. */
  service_tier: null;
  /** Of the engine's version and the model. */
  system_fingerprint: string;
  /** How many tokens it took. */
  usage: CompletionUsage;
  /** One entry per prompt token, the first null, where they were asked for. */
  prompt_logprobs: (PromptLogprobs | null)[] | null;
  /** The prompt's tokens, where they were asked for. */
  prompt_token_ids: number[] | null;
  /** Always null. */
  kv_transfer_params: null;
}

/** What comes next of a call. */
export interface ToolCallDelta {
  /** Which of the message's calls it belongs to. */
  index: number;
  /** On the first delta of a call, with the name. */
  id?: string;
  /** On the first delta of a call. */
  type?: "function";
  /** What comes next of the call. */
  function: {
    /** The function's name. */
    name?: string;
    /** What comes next of the JSON. */
    arguments?: string;
  };
}

/** What comes next of a message. */
export interface ChatCompletionDelta {
  /** On the first chunk of a choice. */
  role?: string;
  /** What comes next of the text. */
  content?: string | null;
  /** What comes next of the thoughts. */
  reasoning?: string;
  /** What comes next of the calls. */
  tool_calls?: ToolCallDelta[];
}

/** What comes next of a choice. */
export interface ChatCompletionChunkChoice {
  /** Which of the choices it belongs to. */
  index: number;
  /** What comes next. */
  delta: ChatCompletionDelta;
  /** Of this chunk's tokens. */
  logprobs: ChoiceLogprobs | null;
  /** Why the choice ended, on its last chunk. */
  finish_reason: FinishReason | null;
  /** The stop string or token id that ended it, on its last chunk. */
  stop_reason?: number | string | null;
  /** This chunk's tokens, where they were asked for. */
  token_ids?: number[] | null;
  /** Of a trained model: the settings that were not neutral, when there are any. */
  sampling_settings?: SamplingSettingsRecord;
}

/** A part of a chat completion. */
export interface ChatCompletionChunk {
  /** `chatcmpl-` and the request's id. */
  id: string;
  /** Unix time, in seconds. */
  created: number;
  /** The model that answered; of a trained one with its step. */
  model: string;
  object: "chat.completion.chunk";
  /** One; on the chunk with the usage none. */
  choices: ChatCompletionChunkChoice[];
  /** On the last chunk. */
  system_fingerprint?: string;
  /** As `stream_options` asks for it. */
  usage?: CompletionUsage | null;
  /** On the first chunk of each choice only, where they were asked for. */
  prompt_token_ids?: number[] | null;
}
