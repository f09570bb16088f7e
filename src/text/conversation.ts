// A conversation as the text that a model reads.

import { DEFAULT_LIMITS, type TemplateLimits } from "../jinja/budget.js";
import type { ChatTemplate } from "../jinja/chatTemplate.js";
import { TemplateError } from "../jinja/errors.js";
import type { TemplateInput } from "../jinja/input.js";
import { ConversationError } from "./errors.js";
import { isGemma4 } from "./gemma4.js";
import { gemma4Messages, withWholeTurns } from "./gemma4Messages.js";
import { isHarmony } from "./harmony.js";
import { harmonyMessages } from "./harmonyMessages.js";
import {
  type ConversationMessage,
  hasLaterSystem,
  systemFirst,
  type TemplateMessage,
  type TemplatePart,
  templateMessages,
  withText,
} from "./templateMessages.js";
import { withUntaughtTools } from "./untaughtTools.js";

export interface Conversation {
  messages: readonly ConversationMessage[];
  /** Null and an empty list are the same: no tools. */
  tools?: readonly unknown[] | null;
  documents?: readonly unknown[] | null;
  /** Whether the text ends with the header of the answer. Default: true, or false with `continueFinalMessage`. */
  addGenerationPrompt?: boolean;
  /** Whether the last message stays open, to be continued. Default false. */
  continueFinalMessage?: boolean;
  /** Shown to the template as `reasoning_effort`; also decides `enable_thinking` or `thinking` where `kwargs` do not. */
  reasoningEffort?: string | null;
  /** More variables for the template. They win over special tokens, and the fields above win over them. */
  kwargs?: Readonly<Record<string, unknown>> | null;
  /** Special tokens by name, as the tokenizer knows them. */
  specialTokens?: Readonly<Record<string, string>>;
  /** What `strftime_now` shows. Default: now. */
  now?: Date;
  limits?: Partial<TemplateLimits>;
}

/** Granted beyond the default limit: common templates take up to 160 for a short message. */
const STEPS_PER_MESSAGE = 200;

/** What templates call the switch for thoughts: Qwen and SmolLM; Granite and DeepSeek. */
const THINKING_SWITCHES = ["enable_thinking", "thinking"];

/** Stands at the end of a message that is to be continued; its last space shows whether the template trims. */
const SENTINEL = "FINAL_MESSAGE_CONTINUES_HERE ";

/**
 * Renders a conversation. What later system messages say is said at the beginning where the template refuses them. Throws
 * ConversationError naming a field that cannot be rendered, and TemplateError when the template itself fails or refuses.
 */
export function renderConversation(template: ChatTemplate, conversation: Conversation): string {
  const continues = conversation.continueFinalMessage ?? false;
  const addGenerationPrompt = conversation.addGenerationPrompt ?? !continues;
  if (continues && addGenerationPrompt) {
    throw new ConversationError("continue_final_message", "cannot be combined with add_generation_prompt");
  }
  if (conversation.messages.length === 0) throw new ConversationError("messages", "must not be empty");
  const tools =
    conversation.tools && conversation.tools.length > 0 ? conversation.tools.map(shownTools(template)) : null;
  const rendered = (arranged: (messages: TemplateMessage[]) => TemplateMessage[]): string => {
    const given = arranged(templateMessages(template, conversation.messages));
    const messages = arrangedFor(template, given, tools, continues);
    if (continues) markEnd(messages, `messages.${conversation.messages.length - 1}.content`);
    const text = template.render(templateVariables(template, conversation, messages, tools, addGenerationPrompt), {
      now: conversation.now,
      limits: { steps: DEFAULT_LIMITS.steps + STEPS_PER_MESSAGE * messages.length, ...conversation.limits },
    });
    const whole = isGemma4(template.source) ? withWholeTurns(template, text) : text;
    return continues ? cutAtSentinel(whole) : whole;
  };
  try {
    return rendered((messages) => messages);
  } catch (error) {
    const isRefused = error instanceof TemplateError && error.kind === "raised";
    if (!isRefused || !hasLaterSystem(conversation.messages, continues)) throw error;
    try {
      return rendered(systemFirst);
    } catch {
      // It was not for the place of the system's messages.
      throw error;
    }
  }
}

/** As the template's family has them. */
function arrangedFor(
  template: ChatTemplate,
  messages: TemplateMessage[],
  tools: readonly unknown[] | null,
  continues: boolean,
): TemplateMessage[] {
  if (isHarmony(template.source)) return harmonyMessages(messages);
  if (isGemma4(template.source)) return gemma4Messages(template, messages, continues);
  return withUntaughtTools(template, messages, tools);
}

function templateVariables(
  template: ChatTemplate,
  conversation: Conversation,
  messages: TemplateMessage[],
  tools: unknown[] | null,
  addGenerationPrompt: boolean,
): Record<string, TemplateInput> {
  const { documents, reasoningEffort } = conversation;
  const variables: Record<string, unknown> = { ...conversation.specialTokens, ...conversation.kwargs };
  // Templates ask whether these are none, so they are always there.
  variables.tools = tools ?? variables.tools ?? null;
  // SmolLM3 has two ways of calling tools, each with a name of its own for them.
  if (variables.python_tools === undefined && template.mentions("xml_tools")) variables.xml_tools ??= variables.tools;
  variables.documents = documents ?? variables.documents ?? null;
  variables.messages = messages;
  variables.add_generation_prompt = addGenerationPrompt;
  if (reasoningEffort !== undefined && reasoningEffort !== null) {
    variables.reasoning_effort = reasoningEffort;
    for (const name of THINKING_SWITCHES) {
      if (variables[name] === undefined && template.reads(name)) variables[name] = reasoningEffort !== "none";
    }
  }
  return variables as Record<string, TemplateInput>;
}

/** Tools with the fields that vLLM shows, in its order: what is absent is null but for `strict`, what it does not know is left out. */
function shownTools(template: ChatTemplate): (tool: unknown) => unknown {
  // The templates of gpt-oss and Gemma 4 take it for a text.
  const noDescription = isHarmony(template.source) || isGemma4(template.source) ? "" : null;
  return (tool) => {
    const { type, function: given } = (tool ?? {}) as { type?: unknown; function?: Record<string, unknown> | null };
    if (typeof given !== "object" || given === null) return tool;
    const { name, description, parameters = null, strict = null } = given;
    const shown = {
      name,
      description: description ?? noDescription,
      parameters,
      ...(strict === null ? {} : { strict }),
    };
    return { type: type ?? "function", function: shown };
  };
}

/** Appends the sentinel to the text of the last message, or to its last part. */
function markEnd(messages: TemplateMessage[], location: string): void {
  const last = messages.at(-1)!;
  if (Array.isArray(last.content)) {
    const parts: TemplatePart[] = [...last.content];
    const part = parts.pop() ?? { type: "text", text: "" };
    last.content = [...parts, withText(part, (text) => text + SENTINEL)];
  } else if (last.content !== null) {
    last.content += SENTINEL;
  } else {
    throw new ConversationError(location, "is null beside tool calls, so there is nothing to continue");
  }
}

function cutAtSentinel(text: string): string {
  const at = text.lastIndexOf(SENTINEL.trimEnd());
  if (at < 0) {
    throw new ConversationError(
      "continue_final_message",
      "the chat template does not show the last message, so it cannot be continued",
    );
  }
  const kept = text.slice(0, at);
  return text.startsWith(SENTINEL, at) ? kept : kept.trimEnd();
}

/** Messages and UTF-16 units that a template is through with in a few milliseconds. */
const MAX_SHORT_MESSAGES = 64;
const MAX_SHORT_LENGTH = 32_768;

/** Whether rendering it on the application's thread holds up nothing else. */
export function isShortConversation({ messages, tools, documents, kwargs }: Conversation): boolean {
  if (messages.length > MAX_SHORT_MESSAGES) return false;
  let left = MAX_SHORT_LENGTH;
  const open: unknown[] = [messages, tools, documents, kwargs];
  while (open.length > 0 && left >= 0) {
    const value = open.pop();
    left -= typeof value === "string" ? value.length : 8;
    if (typeof value === "object" && value !== null) for (const child of Object.values(value)) open.push(child);
  }
  return left >= 0;
}
