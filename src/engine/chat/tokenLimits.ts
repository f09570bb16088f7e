// How many tokens a prompt may keep and a reply may have.

import { ValidationError } from "../../errors.js";
import type { ChatRequest } from "../../schemas/chat.js";
import type { KeptTokens } from "../../text/index.js";

export interface TokenLimits {
  /** Positions of prompt and reply together. */
  context: number;
  /** Output tokens of a request that sets no limit, when the model's folder does. */
  byDefault: number | undefined;
  /** See ChatCall. */
  lowersMaxTokens?: boolean | undefined;
}

/** The output limit that the request sets itself, and the field it stands in. */
function requestedOutput(request: ChatRequest): { field: string; tokens: number } | null {
  if (request.max_completion_tokens !== undefined) {
    return { field: "max_completion_tokens", tokens: request.max_completion_tokens };
  }
  return request.max_tokens === undefined ? null : { field: "max_tokens", tokens: request.max_tokens };
}

/** Prompt tokens to keep; null: all. */
export function keptPromptTokens(request: ChatRequest, { context }: TokenLimits): KeptTokens | null {
  const count = request.truncate_prompt_tokens;
  if (count === undefined) return null;
  const field = "truncate_prompt_tokens";
  if (count === 0) throw ValidationError.at(field, "0 leaves no prompt");
  if (count > context) {
    throw ValidationError.at(field, `${count} is more than the model's context of ${context} tokens`);
  }
  const side = request.truncation_side === "right" ? "first" : "last";
  // Without a limit there must be room for one token at least.
  if (count === -1) return { side, count: Math.max(1, context - (requestedOutput(request)?.tokens ?? 1)) };
  return { side, count };
}

/** Output tokens of a request with `prompt` prompt tokens, at most: what was asked for, or the room that is left. */
export function maxOutputTokens(request: ChatRequest, prompt: number, limits: TokenLimits): number {
  const { context, byDefault, lowersMaxTokens = false } = limits;
  const requested = requestedOutput(request);
  if (requested !== null && requested.tokens > context && !lowersMaxTokens) {
    const message = `${requested.tokens} is more than the model's context of ${context} tokens`;
    throw ValidationError.at(requested.field, message);
  }
  if (prompt > context) {
    throw tooLong(`the prompt has ${prompt} tokens, more than the model's context of ${context}`);
  }
  const limit = Math.min(context - prompt, requested?.tokens ?? byDefault ?? Number.POSITIVE_INFINITY);
  if (limit < 1) {
    throw tooLong(`the prompt fills the model's context of ${context} tokens: there is no room for a reply`);
  }
  if (request.min_tokens > limit) {
    throw ValidationError.at("min_tokens", `${request.min_tokens} is more than the ${limit} tokens the reply may have`);
  }
  return limit;
}

function tooLong(message: string): ValidationError {
  return ValidationError.tooLong("messages", message, {
    param: "input_tokens",
    hint: "shorten the messages, or set truncate_prompt_tokens",
  });
}

/** Texts up to this length are encoded at once, whatever comes out. In UTF-16 units. */
const ALWAYS_ENCODED = 65_536;

/** Refuses, before encoding it, a text that cannot fit: no token stands for more than `longestToken()` characters. */
export function checkTextLength(
  request: Pick<ChatRequest, "truncate_prompt_tokens">,
  text: string,
  longestToken: () => number,
  limits: Pick<TokenLimits, "context">,
  field = "messages",
): void {
  if (request.truncate_prompt_tokens !== undefined || text.length <= ALWAYS_ENCODED) return;
  const most = limits.context * longestToken();
  if (text.length <= most) return;
  const message = `the prompt has ${text.length} characters: more than ${most} cannot fit ${limits.context} tokens`;
  throw ValidationError.tooLong(field, message, { param: "input_text" });
}
