// Chat completions as they go over the wire and through `engine.chat.completions.create`.

export interface ChatTextPart {
  type: "text";
  text: string;
}

/** Parts that text models refuse; they are here so that messages of the `openai` package fit. */
export type ChatMediaPart =
  | { type: "image_url"; image_url: { url: string; detail?: "auto" | "low" | "high" } }
  | { type: "input_audio"; input_audio: { data: string; format: "wav" | "mp3" } }
  | { type: "file"; file: { file_data?: string; file_id?: string; filename?: string } };

export interface ChatRefusalPart {
  type: "refusal";
  refusal: string;
}

export interface ChatSystemMessage {
  role: "system";
  content: string | ChatTextPart[];
  name?: string;
}

export interface ChatDeveloperMessage {
  role: "developer";
  content: string | ChatTextPart[];
  name?: string;
}

export interface ChatUserMessage {
  role: "user";
  content: string | (ChatTextPart | ChatMediaPart)[];
  name?: string;
}

export interface ChatAssistantMessage {
  role: "assistant";
  /** With `tool_calls` it may be absent or null. */
  content?: string | (ChatTextPart | ChatRefusalPart)[] | null;
  name?: string;
  /** Calls of the type "custom" are refused. */
  tool_calls?: (ToolCall | { id: string; type: "custom"; custom: { name: string; input: string } })[];
  /** What the assistant thought, where the template shows it. */
  reasoning?: string | null;
  refusal?: string | null;
  audio?: { id: string } | null;
  function_call?: { name: string; arguments: string } | null;
}

export interface ChatToolMessage {
  role: "tool";
  content: string | ChatTextPart[];
  tool_call_id: string;
}

export interface ChatFunctionMessage {
  role: "function";
  content: string | null;
  name: string;
}

/** A message of a conversation: the same as the `openai` package's, in both directions. */
export type ChatMessage =
  | ChatSystemMessage
  | ChatDeveloperMessage
  | ChatUserMessage
  | ChatAssistantMessage
  | ChatToolMessage
  | ChatFunctionMessage;

/**
 * A message as a request takes it: any `ChatMessage`, and what is said less strictly. Roles are not restricted, the chat
 * template decides; further fields reach it.
 */
export interface ChatMessageParam {
  role: string;
  content?: string | readonly (string | object)[] | null;
  name?: string | null;
  /** Of an assistant message. */
  tool_calls?: readonly object[] | null;
  /** Of a tool message. */
  tool_call_id?: string;
  /** What the assistant thought, where the template shows it. */
  reasoning?: string | null;
}

/** Tools of other types than "function" are refused. */
export interface ChatTool {
  type: string;
  function?: {
    name: string;
    description?: string | null;
    parameters?: { [key: string]: unknown } | null;
    strict?: boolean | null;
  };
}

export interface ChatToolChoiceFunction {
  type: "function";
  function: { name: string };
}

export interface ChatResponseFormat {
  type: string;
  json_schema?: {
    name?: string;
    description?: string | null;
    schema?: { [key: string]: unknown } | null;
    strict?: boolean | null;
  };
  /** With the type "structural_tag": either this, or `structures` and `triggers`. */
  format?: { [key: string]: unknown };
  structures?: readonly { begin: string; schema: { [key: string]: unknown }; end: string }[];
  triggers?: readonly string[];
}

/** Exactly one of `json`, `regex`, `choice`, `grammar`, `json_object` and `structural_tag`. */
export interface StructuredOutputs {
  /** JSON Schema, as text or as an object. */
  json?: string | { [key: string]: unknown } | boolean | null;
  regex?: string | null;
  choice?: readonly string[] | null;
  grammar?: string | null;
  json_object?: boolean | null;
  structural_tag?: string | { [key: string]: unknown } | null;
  disable_fallback?: boolean | null;
  disable_any_whitespace?: boolean | null;
  disable_additional_properties?: boolean | null;
  whitespace_pattern?: string | null;
  _backend?: string | null;
  _backend_was_auto?: boolean | null;
}

export interface ChatCompletionCreateParamsBase {
  messages: ChatMessageParam[];
  /** Default: the engine's first base model. */
  model?: string | null;
  frequency_penalty?: number | null;
  presence_penalty?: number | null;
  repetition_penalty?: number | null;
  /** Additive bias by token id, clamped to [-100, 100]. */
  logit_bias?: { [tokenId: string]: number } | null;
  logprobs?: boolean | null;
  top_logprobs?: number | null;
  /** Tokens whose logprobs every entry lists, instead of the likeliest. Needs `logprobs: true`. */
  logprob_token_ids?: readonly number[] | null;
  /** Deprecated: `max_completion_tokens` wins. */
  max_tokens?: number | null;
  max_completion_tokens?: number | null;
  n?: number | null;
  response_format?: ChatResponseFormat | null;
  /** A 64-bit integer; -1 is none. Beyond 2^53 as BigInt. */
  seed?: number | bigint | null;
  stop?: string | readonly string[] | null;
  stream_options?: { include_usage?: boolean | null; continuous_usage_stats?: boolean | null } | null;
  /** 0: greedy. */
  temperature?: number | null;
  top_p?: number | null;
  /** 0 and -1: off. */
  top_k?: number | null;
  min_p?: number | null;
  tools?: readonly ChatTool[] | null;
  /** "none", "auto", "required" or a function of `tools`. */
  tool_choice?: string | ChatToolChoiceFunction | { type: string } | null;
  /** "none", "minimal", "low", "medium", "high", "xhigh" or "max"; what it does is up to the chat template. */
  reasoning_effort?: string | null;
  /** Tokens at most that the model may think; then its thoughts are closed. -1: any number. */
  thinking_token_budget?: number | null;
  include_reasoning?: boolean | null;
  parallel_tool_calls?: boolean | null;
  user?: string | null;
  use_beam_search?: boolean | null;
  length_penalty?: number | null;
  stop_token_ids?: readonly number[] | null;
  include_stop_str_in_output?: boolean | null;
  ignore_eos?: boolean | null;
  min_tokens?: number | null;
  skip_special_tokens?: boolean | null;
  spaces_between_special_tokens?: boolean | null;
  /** Keep k prompt tokens; -1: as many as the context has room for. */
  truncate_prompt_tokens?: number | null;
  /** Which end of the prompt is cut: "left" (the default) keeps its last tokens, "right" its first. */
  truncation_side?: string | null;
  prompt_logprobs?: number | null;
  allowed_token_ids?: readonly number[] | null;
  bad_words?: readonly string[] | null;
  echo?: boolean | null;
  add_generation_prompt?: boolean | null;
  continue_final_message?: boolean | null;
  add_special_tokens?: boolean | null;
  documents?: readonly { [key: string]: string }[] | null;
  /** A Jinja template instead of the model's own. */
  chat_template?: string | null;
  chat_template_kwargs?: { [key: string]: unknown } | null;
  mm_processor_kwargs?: { [key: string]: unknown } | null;
  structured_outputs?: StructuredOutputs | null;
  /** Lower runs earlier; only with the priority scheduler. */
  priority?: number | null;
  request_id?: string | null;
  return_tokens_as_token_ids?: boolean | null;
  return_token_ids?: boolean | null;
  /** Of rendered prompts; generating ignores it. */
  return_token_offsets?: boolean | null;
  /** Tokens that a chunk of a stream waits for; the first and the last chunk do not wait. Default 1. */
  stream_interval?: number | null;
  cache_salt?: string | null;
  kv_transfer_params?: { [key: string]: unknown } | null;
  engine_xargs?: { [key: string]: string | number | readonly (string | number)[] } | null;
  /** Another spelling of `engine_xargs`. */
  vllm_xargs?: { [key: string]: string | number | readonly (string | number)[] } | null;
  repetition_detection?: {
    max_pattern_size?: number | null;
    min_pattern_size?: number | null;
    min_count?: number | null;
  } | null;
}

export interface ChatCompletionCreateParamsNonStreaming extends ChatCompletionCreateParamsBase {
  stream?: false | null;
}

export interface ChatCompletionCreateParamsStreaming extends ChatCompletionCreateParamsBase {
  stream: true;
}

export type ChatCompletionCreateParams = ChatCompletionCreateParamsBase & { stream?: boolean | null };

export type FinishReason = "stop" | "length" | "tool_calls" | "abort" | "repetition";

export interface TopLogprob {
  token: string;
  /** Natural logarithm of the raw probability, at least -9999. */
  logprob: number;
  /** UTF-8 of the token's own text. */
  bytes: number[];
}

export interface TokenLogprob extends TopLogprob {
  top_logprobs: TopLogprob[];
  /** Of a trained model sampled at a temperature that is neither 0 nor 1: the logprob at it, which training needs. */
  temperature_logprob?: number;
}

export interface ChoiceLogprobs {
  content: TokenLogprob[];
}

/** Of one prompt token, keyed by token id: the token itself first, then the likeliest. */
export interface PromptLogprobs {
  [tokenId: string]: { logprob: number; rank: number; decoded_token: string };
}

export interface ToolCall {
  id: string;
  type: "function";
  function: { name: string; arguments: string };
}

export interface ChatCompletionMessage {
  /** With `add_generation_prompt: false` it is the role of the message that the model goes on with, whichever that is. */
  role: "assistant";
  content: string | null;
  refusal: null;
  annotations: null;
  audio: null;
  function_call: null;
  tool_calls?: ToolCall[];
  reasoning: string | null;
}

/** Every sampling setting of a request that changes the distribution tokens are drawn from. */
export type SamplingSettingsRecord = Record<string, unknown>;

export interface ChatCompletionChoice {
  index: number;
  message: ChatCompletionMessage;
  logprobs: ChoiceLogprobs | null;
  finish_reason: FinishReason;
  /** The stop string or token id that ended it. */
  stop_reason: number | string | null;
  token_ids: number[] | null;
  /**
   * The prompt, repeated here when messages and tools alone do not make it (template arguments, documents, a template that
   * shows the time) and the model can be trained: choices are often kept without the completion around them.
   */
  prompt_token_ids?: number[];
  /** Of a trained model: the settings that were not neutral, when there are any. */
  sampling_settings?: SamplingSettingsRecord;
}

export interface CompletionUsage {
  prompt_tokens: number;
  total_tokens: number;
  completion_tokens: number;
  prompt_tokens_details: { cached_tokens: number };
}

export interface ChatCompletion {
  id: string;
  object: "chat.completion";
  created: number;
  model: string;
  choices: ChatCompletionChoice[];
  service_tier: null;
  system_fingerprint: string;
  usage: CompletionUsage;
  prompt_logprobs: (PromptLogprobs | null)[] | null;
  prompt_token_ids: number[] | null;
  kv_transfer_params: null;
}

export interface ToolCallDelta {
  index: number;
  /** On the first delta of a call, with the name. */
  id?: string;
  type?: "function";
  function: { name?: string; arguments?: string };
}

export interface ChatCompletionDelta {
  role?: string;
  content?: string | null;
  reasoning?: string;
  tool_calls?: ToolCallDelta[];
}

export interface ChatCompletionChunkChoice {
  index: number;
  delta: ChatCompletionDelta;
  logprobs: ChoiceLogprobs | null;
  finish_reason: FinishReason | null;
  stop_reason?: number | string | null;
  token_ids?: number[] | null;
  sampling_settings?: SamplingSettingsRecord;
}

export interface ChatCompletionChunk {
  id: string;
  object: "chat.completion.chunk";
  created: number;
  model: string;
  choices: ChatCompletionChunkChoice[];
  system_fingerprint?: string;
  usage?: CompletionUsage | null;
  /** On the first chunk of each choice only. */
  prompt_token_ids?: number[] | null;
}
