// A completion's request as what is asked of the model: the settings are a chat completion's, the prompts come as they are.

import { ValidationError } from "../../errors.js";
import { shouldYield, yieldToEventLoop } from "../../eventLoop.js";
import type { GenerationRequest } from "../../inference/index.js";
import { type ChatRequest, chatCompletionCreate } from "../../schemas/chat.js";
import type { TextCompletionRequest } from "../../schemas/textCompletions.js";
import { validateAsync } from "../../schemas/validate.js";
import { keptTokens } from "../../text/index.js";
import { compileConstraint, constraintOf } from "../chat/constraint.js";
import { checkFeatures } from "../chat/createChatCompletion.js";
import type { ChatCall, ChatHost } from "../chat/host.js";
import { maxTokenLength } from "../chat/prompt.js";
import { samplingSettings } from "../chat/samplingSettings.js";
import { checkTextLength, keptPromptTokens, maxOutputTokens } from "../chat/tokenLimits.js";
import { cacheSalt } from "../core/access.js";
import type { ServedModel } from "../core/resolve.js";

const MAX_PROMPTS = 1024;
/** Of all prompts together. */
const MAX_CHOICES = 16_384;

export interface PreparedPrompt {
  /** As it is echoed. */
  text: string;
  generation: GenerationRequest;
}

/** @throws ValidationError naming the field, and of several prompts which one */
export async function prepare(
  host: ChatHost,
  request: TextCompletionRequest,
  served: ServedModel,
  { caller, signal, lowersMaxTokens }: ChatCall,
): Promise<PreparedPrompt[]> {
  const { base } = served;
  const chat = await asChat(request);
  checkFeatures(chat, served);
  const prompts = promptsOf(request);
  const limits = { context: base.loop.contextLength, byDefault: undefined, lowersMaxTokens };
  const wanted = constraintOf(chat);
  const grammar =
    wanted === null
      ? null
      : await compileConstraint(host.grammar, base, wanted, null, { client: caller.entity, signal });
  const requestId = request.request_id || crypto.randomUUID();
  const prepared: PreparedPrompt[] = [];
  for (const [i, prompt] of prompts.entries()) {
    const field = typeof request.prompt === "string" || prompts.length === 1 ? "prompt" : `prompt.${i}`;
    const tokens = await inPlace(field, () => promptTokens(prompt));
    const maxTokens = await inPlace(field, () => maxOutputTokens(chat, tokens.length, limits));
    const settings = samplingSettings(chat, served, host.samplingDefaults, maxTokens);
    settings.promptLogprobs ??= (request.echo ? request.logprobs : undefined) ?? null;
    // The likeliest are told by them.
    if ((request.best_of ?? request.n) > request.n) settings.logprobs ??= 0;
    prepared.push({
      text: typeof prompt === "string" ? prompt : base.tokenizer.decode(tokens, { skipSpecialTokens: false }),
      generation: {
        requestId,
        promptTokens: tokens,
        adapter: served.adapter,
        params: { ...settings, thinking: null },
        grammar,
        n: request.best_of ?? request.n,
        priority: request.priority,
        cacheSalt: cacheSalt(caller, request.cache_salt),
        useCache: settings.promptLogprobs === null,
        streaming: request.stream,
        streamInterval: request.stream_interval,
      },
    });
    while (shouldYield()) await yieldToEventLoop();
  }
  return prepared;

  async function promptTokens(prompt: string | readonly number[]): Promise<number[]> {
    const keep = keptPromptTokens(chat, limits);
    if (typeof prompt !== "string") {
      const outside = prompt.find((id) => id >= base.config.vocab);
      if (outside === undefined) return keptTokens([...prompt], keep);
      const message = `token id ${outside} is outside the vocabulary of ${base.config.vocab} tokens`;
      throw ValidationError.at("messages", message);
    }
    checkTextLength(chat, prompt, () => maxTokenLength(base.tokenizer), limits);
    const tokens = await base.tokenizer.encodeAsync(prompt, {
      addSpecialTokens: request.add_special_tokens,
      keep,
      signal,
    });
    if (tokens.length === 0) throw ValidationError.at("messages", "has no tokens");
    return tokens;
  }
}

/** The same settings as a chat completion's, so that they mean the same. */
async function asChat(request: TextCompletionRequest): Promise<ChatRequest> {
  const { prompt, suffix, best_of, echo, logprobs, add_special_tokens, max_tokens, ...same } = request;
  return validateAsync(chatCompletionCreate, {
    ...same,
    n: best_of ?? same.n,
    messages: [{ role: "user", content: "" }],
    max_tokens: Math.max(1, max_tokens),
    logprobs: logprobs !== undefined,
    ...(logprobs === undefined ? {} : { top_logprobs: logprobs }),
  });
}

function promptsOf({ prompt, n, best_of }: TextCompletionRequest): readonly (string | readonly number[])[] {
  if (typeof prompt === "string") return [prompt];
  if (prompt.every((one): one is number => typeof one === "number")) return [prompt];
  if (prompt.length > MAX_PROMPTS) {
    throw ValidationError.at("prompt", `${prompt.length} are more than ${MAX_PROMPTS} prompts`);
  }
  const choices = prompt.length * (best_of ?? n);
  if (choices > MAX_CHOICES) {
    throw ValidationError.at("prompt", `${choices} choices of all prompts are more than ${MAX_CHOICES}`);
  }
  const mixed = prompt.findIndex((one) => typeof one !== typeof prompt[0]);
  if (mixed >= 0) throw ValidationError.at(`prompt.${mixed}`, "is of another kind than the prompts before");
  return prompt as (string | number[])[];
}

/** What a chat completion says of its messages is said of the prompt. */
async function inPlace<T>(field: string, work: () => T | Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (!(error instanceof ValidationError) || error.issues[0]!.loc[1] !== "messages") throw error;
    const { msg, type } = error.issues[0]!;
    if (!error.isTooLong) throw ValidationError.at(field, msg, type, { cause: error });
    const hint = "shorten the prompt, or set truncate_prompt_tokens";
    throw ValidationError.tooLong(field, msg, { cause: error, hint });
  }
}
