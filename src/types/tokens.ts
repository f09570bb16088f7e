import type { ChatMessageParam } from "./chat.js";

/** Either `prompt` or `messages`; with `messages` the fields that shape a chat completion's prompt apply as there. */
export interface TokenizeParams {
  model?: string | null;
  prompt?: string | null;
  messages?: ChatMessageParam[] | null;
  /** Default true for a prompt, false for messages. */
  add_special_tokens?: boolean | null;
  return_token_strs?: boolean | null;
  [chatField: string]: unknown;
}

export interface TokenizeResult {
  count: number;
  max_model_len: number;
  tokens: number[];
  token_strs: string[] | null;
}

export interface DetokenizeParams {
  model?: string | null;
  tokens: readonly number[];
}
