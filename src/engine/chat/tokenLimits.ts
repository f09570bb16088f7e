// How many tokens a prompt may keep and a reply may have.

import { ValidationError } from "../../errors.js";
import type { ChatRequest } from "../../schemas/chat.js";

export interface TokenLimits {
  /** Positions of prompt and reply together. */
  context: number;
  /** Output tokens of a request that sets no limit, when the model's folder does. */
  byDefault: number | undefined;
}

/** The output limit that the request sets itself, and the field it stands in. */
function requestedOutput(request: ChatRequest): { field: string; tokens: number } | null {
  if (request.max_completion_tokens !== undefined) {
    return { field: "max_completion_tokens", tokens: request.max_completion_tokens };
  }
  return request.max_tokens === undefined ? null : { field: "max_tokens", tokens: request.max_tokens };
}

/** Prompt tokens to keep, from the end; null: all. */
export function keptPromptTokens(request: ChatRequest, { context }: TokenLimits): number | null {
  const keep = request.truncate_prompt_tokens;
  if (keep === undefined) return null;
  const field = "truncate_prompt_tokens";
  if (keep === 0) throw ValidationError.at(field, "0 leaves no prompt");
  const output = requestedOutput(request)?.tokens;
  // Without a limit there must be room for one token at least.
  if (keep === -1) return Math.max(1, context - (output ?? 1));
  const most = context - (output ?? 0);
  if (keep > most) {
    const reply = output === undefined ? "" : ` with ${output} output tokens`;
    throw ValidationError.at(field, `${keep} is more than the ${most} tokens that a prompt may have${reply}`);
  }
  return keep;
}

/** Output tokens of a request with `prompt` prompt tokens, at most. */
export function maxOutputTokens(request: ChatRequest, prompt: number, { context, byDefault }: TokenLimits): number {
  const requested = requestedOutput(request);
  if (requested !== null && requested.tokens > context) {
    const message = `${requested.tokens} is more than the model's context of ${context} tokens`;
    throw ValidationError.at(requested.field, message);
  }
  if (prompt > context) {
    throw tooLong(`the prompt has ${prompt} tokens, more than the model's context of ${context}`);
  }
  if (requested !== null && prompt + requested.tokens > context) {
    throw tooLong(
      `the model's context is ${context} tokens, but ${prompt} prompt tokens and ${requested.tokens} output tokens ` +
        `(${requested.field}) make ${prompt + requested.tokens}`,
    );
  }
  const limit = requested?.tokens ?? Math.min(context - prompt, byDefault ?? Number.POSITIVE_INFINITY);
  if (limit < 1) {
    throw tooLong(`the prompt fills the model's context of ${context} tokens: there is no room for a reply`);
  }
  if (request.min_tokens > limit) {
    throw ValidationError.at("min_tokens", `${request.min_tokens} is more than the ${limit} tokens the reply may have`);
  }
  return limit;
}

function tooLong(message: string): ValidationError {
  return ValidationError.at("messages", message, "context_length_exceeded", {
    param: "input_tokens",
    hint: "shorten the messages, lower max_completion_tokens, or set truncate_prompt_tokens",
  });
}

/** Texts up to this length are encoded at once, whatever comes out. In UTF-16 units. */
const ALWAYS_ENCODED = 65_536;

/** Refuses, before encoding it, a text that cannot fit: no token stands for more than `longestToken()` characters. */
export function checkTextLength(
  request: ChatRequest,
  text: string,
  longestToken: () => number,
  limits: TokenLimits,
): void {
  if (request.truncate_prompt_tokens !== undefined || text.length <= ALWAYS_ENCODED) return;
  const most = limits.context * longestToken();
  if (text.length <= most) return;
  const message = `the prompt has ${text.length} characters: more than ${most} cannot fit ${limits.context} tokens`;
  throw ValidationError.at("messages", message, "context_length_exceeded", { param: "input_text" });
}
