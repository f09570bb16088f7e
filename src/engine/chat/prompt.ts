// A request's messages as prompt tokens.

import { ValidationError } from "../../errors.js";
import type { ChatRequest } from "../../schemas/chat.js";
import {
  begunMessage,
  type ChatTemplate,
  type Conversation,
  ConversationError,
  type ConversationMessage,
  contentText,
  isInsideReasoning,
  openThoughtIn,
  promptOpensReasoning,
  type ReasoningFormat,
  recogniseReasoning,
  TemplateError,
  type Tokenizer,
  USUAL_REASONING,
} from "../../text/index.js";
import type { BaseModel } from "../core/baseModel.js";
import { checkTextLength, keptPromptTokens, type TokenLimits } from "./tokenLimits.js";
import { offeredTools } from "./toolChoice.js";

export interface RenderedPrompt {
  tokens: number[];
  /** What of a thought these tokens end in, so that the reply goes on with it; null: none is open. */
  thought: string | null;
  /** Of the message that these tokens end in, as `begunMessage` gives it; null: replies are no such messages. */
  begun: string | null;
  /** Whether messages and tools alone make these tokens, at any time: training can then render them again. */
  isPlain: boolean;
  /** Role of the message that the model writes. */
  replyRole: string;
  /** Text of the last message when the reply goes on under its role; null otherwise. */
  echo: string | null;
}

/**
 * The prompt that a conversation becomes, cut as `truncate_prompt_tokens` says.
 * @throws ValidationError for messages or templates that cannot be rendered, and for texts that cannot fit; the signal's
 * reason after an abort.
 */
export async function renderPrompt(
  request: ChatRequest,
  base: BaseModel,
  limits: TokenLimits,
  signal?: AbortSignal,
): Promise<RenderedPrompt> {
  const messages = request.messages as readonly ConversationMessage[];
  const addGenerationPrompt = request.add_generation_prompt ?? !request.continue_final_message;
  const template = templateOf(request, base);
  const conversation: Conversation = {
    messages,
    tools: offeredTools(request),
    documents: request.documents,
    addGenerationPrompt,
    continueFinalMessage: request.continue_final_message,
    reasoningEffort: request.reasoning_effort,
    kwargs: request.chat_template_kwargs,
    specialTokens: base.tokenizer.specialTokens,
  };
  const text = await refusing(request, () => base.tokenizer.renderAsync(template, conversation, signal));
  const kept = keptPromptTokens(request, limits);
  checkTextLength(request, text, () => maxTokenLength(base.tokenizer), limits);
  const addSpecialTokens = request.add_special_tokens;
  const tokens = await base.tokenizer.encodeAsync(text, { addSpecialTokens, keep: kept, signal });
  if (tokens.length === 0) throw ValidationError.at("messages", "the chat template makes an empty prompt of them");
  const last = messages.at(-1)!;
  const replyRole = addGenerationPrompt ? "assistant" : last.role;
  const reasoning = recogniseReasoning(template.source) ?? USUAL_REASONING;
  const opens = opensIn(text, reasoning);
  const isCut = opens > 0 && kept !== null && tokens.length === kept.count;
  const left = isCut ? base.tokenizer.decode(tokens, EVERY_TOKEN) : text;
  // The last message may be cut off with the mark that it begins with.
  const goesOn = request.continue_final_message && (kept?.side !== "first" || opensIn(left, reasoning) === opens);
  return {
    tokens,
    thought: openThought(left, goesOn ? contentText(last.content, "messages") : "", reasoning),
    begun: reasoning.messages === undefined ? null : begunMessage(left),
    isPlain:
      kept === null &&
      template === base.template &&
      isPlainRequest(request) &&
      // Whoever keeps choices only keeps no thoughts of earlier ones.
      messages.every(
        ({ reasoning, reasoning_content, thinking }) => (reasoning ?? reasoning_content ?? thinking ?? null) === null,
      ) &&
      !base.template!.mentions("strftime_now"),
    replyRole,
    echo: last.role === replyRole ? contentText(last.content, `messages.${messages.length - 1}.content`) : null,
  };
}

const EVERY_TOKEN = { skipSpecialTokens: false, spacesBetweenSpecialTokens: false };

/** How often thoughts are opened. */
function opensIn(text: string, { opens }: ReasoningFormat): number {
  return opens.reduce((count, open) => count + text.split(open).length - 1, 0);
}

/** `continued`: the answer that the prompt ends with, to be gone on with. */
function openThought(prompt: string, continued: string, reasoning: ReasoningFormat): string | null {
  const mayBeOpen = promptOpensReasoning(prompt, reasoning) || isInsideReasoning(continued, reasoning);
  if (!mayBeOpen && reasoning.messages === undefined) return null;
  return openThoughtIn(prompt, reasoning);
}

/** Whether nothing in the request makes the prompt another than messages and tools would. */
function isPlainRequest(request: ChatRequest): boolean {
  const { chat_template_kwargs: kwargs, documents, reasoning_effort: effort } = request;
  return (
    ownTemplate(request) === undefined &&
    offeredTools(request).length === (request.tools ?? []).length &&
    Object.keys(kwargs ?? {}).length === 0 &&
    (documents ?? null) === null &&
    (effort ?? null) === null &&
    (request.add_generation_prompt ?? true) &&
    !request.continue_final_message &&
    !request.add_special_tokens
  );
}

/** The request's own template, or the model's. */
export function templateOf(request: ChatRequest, base: BaseModel): Pick<ChatTemplate, "source"> {
  const source = ownTemplate(request);
  if (source !== undefined) return { source };
  if (base.template !== null) return base.template;
  throw ValidationError.at("chat_template", "is required: the model's tokenizer defines none", "missing");
}

/** As in vLLM, "" is none. */
function ownTemplate(request: ChatRequest): string | undefined {
  if (request.chat_template) return request.chat_template;
  const named = request.chat_template_kwargs?.chat_template;
  return typeof named === "string" && named !== "" ? named : undefined;
}

/** What a template or a conversation throws, as the fault of a field of the request. */
async function refusing<T>(request: ChatRequest, work: () => T | Promise<T>): Promise<T> {
  try {
    return await work();
  } catch (error) {
    if (error instanceof ConversationError) throw ValidationError.at(error.location, error.reason);
    if (!(error instanceof TemplateError)) throw error;
    const field = error.kind !== "raised" && ownTemplate(request) !== undefined ? "chat_template" : "messages";
    throw ValidationError.at(field, error.message, "template_error");
  }
}

const maxTokenLengths = new WeakMap<Tokenizer, number>();

/** Characters of the longest token, at most. */
export function maxTokenLength(tokenizer: Tokenizer): number {
  let max = maxTokenLengths.get(tokenizer);
  if (max === undefined) {
    max = 1;
    for (let id = 0; id < tokenizer.vocabSize; id++) max = Math.max(max, tokenizer.tokenBytes(id).length);
    maxTokenLengths.set(tokenizer, max);
  }
  return max;
}
