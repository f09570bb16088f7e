// Chat completions: check, render, run, answer.

import { ValidationError } from "../../errors.js";
import { shouldYield, yieldToEventLoop } from "../../eventLoop.js";
import type { Generation, GenerationRequest } from "../../inference/index.js";
import type { CompiledGrammar, ThinkingBudget } from "../../runtime/runtime.js";
import { type ChatRequest, chatCompletionCreate } from "../../schemas/chat.js";
import { validateAsync } from "../../schemas/validate.js";
import type { Thoughts } from "../../structuredOutputs/index.js";
import type { Tokenizer } from "../../text/index.js";
import type { ChatCompletion, ChatCompletionChunk } from "../../types/chat.js";
import { cacheSalt } from "../core/access.js";
import type { BaseModel } from "../core/baseModel.js";
import type { ServedModel } from "../core/resolve.js";
import { ChunkStream } from "./chunks.js";
import { completion } from "./completion.js";
import { behind, compileConstraint, constraintOf, type RequestConstraint } from "./constraint.js";
import type { ChatCall, ChatHost } from "./host.js";
import type { PreparedChat } from "./preparedChat.js";
import { renderPrompt, templateOf } from "./prompt.js";
import { planReply, type ReplyPlan } from "./replyPlan.js";
import { ReplyReader } from "./replyReader.js";
import { defaultMaxTokens, nonNeutralSettings, samplingSettings } from "./samplingSettings.js";
import { startGeneration } from "./startGeneration.js";
import { ThoughtTokens, thoughtMarks } from "./thoughtTokens.js";
import { maxOutputTokens } from "./tokenLimits.js";

/**
 * Answers a conversation. With `stream: true` the promise resolves, to the chunks, once the request has been accepted:
 * everything that can be checked is checked before. Leaving the loop over the chunks aborts, as the signal does; an
 * aborted call rejects with the signal's reason.
 * @throws ValidationError, NotFoundError for an unknown model, RateLimitError when too many requests wait.
 */
export async function createChatCompletion(
  host: ChatHost,
  params: unknown,
  call: ChatCall,
): Promise<ChatCompletion | AsyncIterable<ChatCompletionChunk>> {
  // Requests that come in the hundreds at once are taken in over several turns.
  while (shouldYield()) await yieldToEventLoop();
  const request = await validateAsync(chatCompletionCreate, params, { strict: call.strict });
  call.signal?.throwIfAborted();
  const served = await host.resolve(request.model, call.caller);
  let chat: PreparedChat;
  let generation: Generation;
  try {
    chat = await prepareChat(host, request, served, call);
    generation = startGeneration(host, served, chat.generation, call.signal, served.release);
  } catch (error) {
    served.release();
    throw error;
  }
  return request.stream ? new ChunkStream(chat, generation) : completion(chat, generation);
}

async function prepareChat(
  host: ChatHost,
  request: ChatRequest,
  served: ServedModel,
  { caller, signal, lowersMaxTokens }: ChatCall,
): Promise<PreparedChat> {
  const { base, trained } = served;
  checkFeatures(request, served);
  const byDefault = defaultMaxTokens(served, host.samplingDefaults);
  const limits = { context: base.loop.contextLength, byDefault, lowersMaxTokens };
  const prompt = await renderPrompt(request, base, limits, signal);
  const plan = planReply(host, request, templateOf(request, base), base.tokenizer, prompt);
  const maxTokens = maxOutputTokens(request, prompt.tokens.length, limits);
  const settings = {
    ...samplingSettings(request, served, host.samplingDefaults, maxTokens),
    thinking: thinkingBudget(request, base.tokenizer, plan, prompt.thought),
  };
  const compile = (wanted: RequestConstraint, thoughts: Thoughts | null) =>
    compileConstraint(host.grammar, base, wanted, thoughts, { client: caller.entity, signal });
  const rules = await replyRules(host, request, served, plan, prompt.thought, compile);
  const marks = plan.reasoning === null ? null : thoughtMarks(base.tokenizer, plan.reasoning);
  const returnTokenIds = request.return_token_ids ?? trained !== null;
  const requestId = request.request_id || crypto.randomUUID();
  return {
    id: `chatcmpl-${requestId}`,
    created: Math.floor(Date.now() / 1000),
    model: trained?.servedName ?? base.id,
    fingerprint: `anneal-${host.version}-${base.hash.slice(0, 8)}`,
    tokenizer: base.tokenizer,
    generation: {
      requestId,
      promptTokens: prompt.tokens,
      adapter: served.adapter,
      ...rules,
      ...(await predicted(request, base, signal)),
      params: plan.needsSpecialTokens
        ? { ...settings, skipSpecialTokens: false, specialTokenSign: plan.specialTokenSign }
        : settings,
      n: request.n,
      priority: request.priority,
      cacheSalt: cacheSalt(caller, request.cache_salt),
      useCache: settings.promptLogprobs === null,
      streaming: request.stream,
      streamInterval: request.stream_interval,
    },
    n: request.n,
    role: prompt.replyRole,
    echo: request.echo ? prompt.echo : null,
    returnTokenIds,
    promptIdsInChoices: returnTokenIds && trained !== null && !prompt.isPlain,
    tokensAsIds: request.return_tokens_as_token_ids ?? trained !== null,
    hideReasoning: plan.reasoning !== null && !request.include_reasoning,
    includeUsage: request.stream_options?.include_usage ?? false,
    continuousUsage: (request.stream_options?.include_usage && request.stream_options.continuous_usage_stats) ?? false,
    samplingRecord: trained === null ? null : nonNeutralSettings(request, settings, plan.heldCalls),
    readsReply: plan.reasoning !== null || plan.toolFormat !== null,
    newReader: () => new ReplyReader(plan, prompt, request.stream),
    newThoughtTokens: marks === null ? null : () => new ThoughtTokens(base.tokenizer, marks, prompt.thought !== null),
  };
}

/** The tokens that the reply is predicted to have, where any are guessed; more than fit a context are of no use. */
async function predicted(
  { prediction }: ChatRequest,
  { tokenizer, loop }: BaseModel,
  signal: AbortSignal | undefined,
): Promise<Pick<GenerationRequest, "prediction">> {
  if (prediction === undefined) return {};
  if (!loop.guesses) return { prediction: [] };
  const { content } = prediction;
  const text = typeof content === "string" ? content : content.map((part) => part.text).join("");
  const keep = { side: "first", count: loop.contextLength } as const;
  return { prediction: await tokenizer.encodeAsync(text, { keep, signal }) };
}

/** How long the reply may think. */
function thinkingBudget(
  request: ChatRequest,
  tokenizer: Tokenizer,
  plan: ReplyPlan,
  thought: string | null,
): ThinkingBudget | null {
  const { thinking_token_budget: tokens } = request;
  if (tokens === undefined) return null;
  if (plan.reasoning === null) {
    const message = "needs a model that thinks: the chat template shows no <think>";
    throw ValidationError.at("thinking_token_budget", message, "not_supported");
  }
  const ids = (text: string) => Int32Array.from(tokenizer.encode(text));
  const { opens, closes, messages, again = messages !== undefined } = plan.reasoning;
  return {
    tokens: Math.min(tokens, MAX_INT32),
    used: thought === null ? -1 : ids(thought).length,
    open: ids(opens[0]),
    close: ids(closes[0]),
    ...(again ? { several: true } : {}),
  };
}

const MAX_INT32 = 2 ** 31 - 1;

/**
 * What the reply's tokens must follow, from the constraint of the request or from the calls it must or may make. Thoughts come
 * before it where the prompt has opened them, or where the model's first word would open them.
 */
async function replyRules(
  host: ChatHost,
  request: ChatRequest,
  { base }: ServedModel,
  plan: ReplyPlan,
  thought: string | null,
  compile: (wanted: RequestConstraint, thoughts: Thoughts | null) => Promise<CompiledGrammar>,
): Promise<Pick<GenerationRequest, "grammar" | "thoughtIds">> {
  const asked = constraintOf(request);
  if (asked?.field === "structured_outputs" && plan.heldCalls !== null) {
    throw ValidationError.at(asked.field, "cannot be combined with a tool_choice that asks for calls");
  }
  // Where calls are asked for there is no text that a response_format could be of.
  const wanted = plan.heldCalls?.constraint ?? (asked && behind(plan.heads?.answer, asked));
  if (wanted === null) return { grammar: null };
  if (plan.reasoning === null) return { grammar: await compile(wanted, null) };
  const { opens, closes, messages } = plan.reasoning;
  const begin = thought === null ? "possible" : "open";
  if (messages !== undefined) {
    // The prompt has begun the answer already; elsewhere the model chooses by the header that it writes first.
    if (plan.heads?.answer.length === 0) return { grammar: await compile(wanted, null) };
    return { grammar: await compile(wanted, { begin, opens, closes, next: messages.next }) };
  }
  const grammar = await compile(wanted, { begin, opens, closes });
  if (begin === "open") return { grammar };
  return { grammar, thoughtIds: host.grammar.thoughtIds(base, opens) };
}

/** Fields whose meaning depends on how the engine was opened. */
export function checkFeatures(request: ChatRequest, { base }: ServedModel): void {
  if (base.embedding !== null) {
    throw ValidationError.at("model", `${base.id} makes vectors of texts and does not chat`, "not_supported", {
      hint: "ask it for embeddings",
    });
  }
  if (request.priority !== 0 && base.loop.policy !== "priority") {
    throw ValidationError.at("priority", "needs the priority scheduler", "not_supported", {
      hint: 'open the engine with scheduler: "priority" (--scheduler priority)',
    });
  }
}
