// A request's messages as prompt tokens.

import { ValidationError } from "../../errors.js";
import type { ChatRequest } from "../../schemas/chat.js";
import { TemplateError, type Tokenizer } from "../../text/index.js";
import { type ChatTemplate, compileChatTemplate } from "../../text/template/chatTemplate.js";
import type { TemplateInput } from "../../text/template/fromJavaScript.js";
import type { BaseModel } from "../baseModel.js";
import { checkTextLength, keptPromptTokens, type TokenLimits } from "./tokenLimits.js";

export interface RenderedPrompt {
  tokens: number[];
  /** Role of the message that the model writes. */
  replyRole: string;
  /** Text of the last message when the reply goes on under its role; null otherwise. */
  echo: string | null;
}

/** The prompt that a conversation becomes, cut as `truncate_prompt_tokens` says. */
export function renderPrompt(request: ChatRequest, base: BaseModel, limits: TokenLimits): RenderedPrompt {
  const template = templateOf(request, base);
  const addGenerationPrompt = request.add_generation_prompt ?? !request.continue_final_message;
  const text = template.render({
    ...base.tokenizer.specialTokens,
    messages: request.messages as unknown as TemplateInput,
    tools: (request.tools ?? null) as unknown as TemplateInput,
    add_generation_prompt: addGenerationPrompt,
    ...(request.chat_template_kwargs as Record<string, TemplateInput>),
  });
  const kept = keptPromptTokens(request, limits);
  checkTextLength(request, text, () => longestToken(base.tokenizer), limits);
  const tokens = base.tokenizer.encode(text, { addSpecialTokens: request.add_special_tokens });
  const last = request.messages.at(-1)!;
  const replyRole = addGenerationPrompt ? "assistant" : last.role;
  return {
    tokens: kept === null ? tokens : tokens.slice(-kept),
    replyRole,
    echo: last.role === replyRole ? textOf(last.content) : null,
  };
}

function templateOf(request: ChatRequest, base: BaseModel): ChatTemplate {
  const own = request.chat_template ?? request.chat_template_kwargs?.chat_template;
  if (typeof own === "string") {
    try {
      return compileChatTemplate(own);
    } catch (error) {
      if (error instanceof TemplateError) throw ValidationError.at("chat_template", error.message, "template_error");
      throw error;
    }
  }
  if (base.template === null) {
    throw ValidationError.at("chat_template", "is required: the model's tokenizer defines none", "missing");
  }
  return base.template;
}

function textOf(content: unknown): string {
  if (typeof content === "string") return content;
  if (!Array.isArray(content)) return "";
  return content
    .map((part: unknown) => (typeof part === "string" ? part : ((part as { text?: string }).text ?? "")))
    .join("\n");
}

const longest = new WeakMap<Tokenizer, number>();

/** The most characters that one token stands for. */
function longestToken(tokenizer: Tokenizer): number {
  let most = longest.get(tokenizer);
  if (most === undefined) {
    most = 1;
    for (let id = 0; id < tokenizer.vocabSize; id++) most = Math.max(most, tokenizer.tokenBytes(id).length);
    longest.set(tokenizer, most);
  }
  return most;
}
