// Made of src/schemas/tokens.ts by `npm run generate`: change those.

import type { ChatMessageParam } from "./chat.js";

/** Tokens whose text is asked for. */
export interface DetokenizeParams {
  /** A base model, or a trained model's name. Default: the engine's first base model. */
  model?: string | null;
  /** Token ids. Those that the vocabulary lacks have no text. At most 16777216 entries. */
  tokens: readonly number[];
}

/** The text of tokens. */
export interface DetokenizeResult {
  /** The text, special tokens included. */
  prompt: string;
}

/** Either `prompt` or `messages`; with `messages` the fields that shape a chat completion's prompt apply as there. */
export interface TokenizeParams {
  /** A base model, or a trained model's name. Default: the engine's first base model. */
  model?: string | null;
  /** A text. */
  prompt?: string | null;
  /** A conversation. At most 131072 entries. */
  messages?: ChatMessageParam[] | null;
  /**
   * Whether the tokenizer adds the tokens that texts begin and end with. Default: true for a prompt, false for
   * messages.
   */
  add_special_tokens?: boolean | null;
  /** Whether the answer has the tokens' pieces too. Default: false. */
  return_token_strs?: boolean | null;
  /** Further fields. */
  [chatField: string]: unknown;
}

/** The tokens of a text. */
export interface TokenizeResult {
  /** How many tokens. */
  count: number;
  /** The model's context, in tokens. */
  max_model_len: number;
  /** Their ids. */
  tokens: number[];
  /** The vocabulary's pieces, where they were asked for. */
  token_strs: string[] | null;
}

/** What clients that split texts and render conversations themselves ask for. */
export interface TokenizerInfo {
  /** The model's context, in tokens. */
  model_max_length: number;
  /** The text of the token that texts begin with; null: there is none. */
  bos_token: string | null;
  /** The text of the token that texts end with; null: there is none. */
  eos_token: string | null;
  /** The text of the token that stands for what the vocabulary lacks; null: there is none. */
  unk_token: string | null;
  /** The text of the token that fills up; null: there is none. */
  pad_token: string | null;
  /** The Jinja template that makes prompts of conversations; null: there is none. */
  chat_template: string | null;
}

/** Whose tokenizer is asked for. */
export interface TokenizerQuery {
  /** A base model, or a trained model's name. Default: the engine's first base model. */
  model?: string | null;
}
