// A request's messages as a template is to see them.

import type { ChatTemplate } from "../jinja/chatTemplate.js";
import { parseJson } from "../jinja/input.js";
import { Dict, PythonError } from "../jinja/values.js";
import { ConversationError } from "./errors.js";
import { isGemma4 } from "./gemma4.js";
import { isHarmony } from "./harmony.js";
import { recogniseToolFormat } from "./toolCalls/toolCalls.js";

/** A message as a request writes it; fields that vLLM does not show to a template are accepted and not shown. */
export interface ConversationMessage {
  role: string;
  content?: string | readonly unknown[] | null;
  [field: string]: unknown;
}

/** A message as a template sees it. */
export interface TemplateMessage {
  role: string;
  content: string | TemplatePart[] | null;
  name?: string;
  /** Of a tool's answer. */
  tool_call_id?: string;
  /** Of an assistant, as are its thoughts. */
  tool_calls?: unknown[];
  reasoning?: string;
  reasoning_content?: string;
  /** Of gpt-oss and LFM2: a third name for them. */
  thinking?: string;
  /** Of the first template of Gemma 4: what the tools answered that this message calls. */
  tool_responses?: { name: string | undefined; response: TemplateMessage["content"] }[];
  /** Of a developer; of a system where templates want them there. */
  tools?: unknown;
}

/**
 * The messages for `template`: contents as texts or, when it takes contents apart, as parts; arguments of tool calls
 * parsed; reasoning under both of its names, and LFM2's; developer messages as part of the first system message when the template
 * knows no developer. Throws ConversationError naming the field.
 */
export function templateMessages(template: ChatTemplate, messages: readonly ConversationMessage[]): TemplateMessage[] {
  const form = contentForm(template);
  const harmony = isHarmony(template.source);
  const lfm2 = recogniseToolFormat(template.source) === "lfm2";
  // Ministral's asks how long it is, those of gpt-oss and LFM2 what it holds.
  const nothing = form === "parts with thoughts" || template.mentions("[ARGS]") || harmony || lfm2 ? "" : null;
  const given = harmony ? messages.map(withNamedThoughts) : messages;
  const result = given.map((message, index) => templateMessage(message, `messages.${index}`, form, nothing));
  if (lfm2) nameThoughts(result);
  if (SHORT_IDS.test(template.source)) shortenCallIds(result);
  // What the system says later is left out without a word.
  if (harmony && result.slice(1).some(isSystem)) return systemFirst(result);
  const hasDeveloper = result.some((message) => message.role === "developer");
  return hasDeveloper && !template.mentions("developer") ? systemFirst(result) : result;
}

/** Conversations made for gpt-oss have thoughts under the name that its template reads. */
function withNamedThoughts(message: ConversationMessage): ConversationMessage {
  const { reasoning, reasoning_content, thinking } = message;
  return typeof thinking === "string" ? { ...message, reasoning: reasoning ?? reasoning_content ?? thinking } : message;
}

/** LFM2's template shows those of what it is at, and asks no more than whether there are any. */
function nameThoughts(messages: TemplateMessage[]): void {
  for (const message of messages) if (message.reasoning) message.thinking = message.reasoning;
}

/** In templates of Mistral, which refuse other ids of calls than of nine letters and digits. */
const SHORT_IDS = /length\s*!=\s*9\b/;

/** A call and what its tool answered keep the same one. */
function shortenCallIds(messages: TemplateMessage[]): void {
  const short = (id: string) =>
    id.length === 9
      ? id
      : id
          .replace(/[^A-Za-z0-9]/g, "")
          .slice(-9)
          .padStart(9, "0");
  for (const message of messages) {
    if (message.tool_call_id !== undefined) message.tool_call_id = short(message.tool_call_id);
    if (message.tool_calls === undefined) continue;
    message.tool_calls = message.tool_calls.map((call) => {
      const { id } = call as { id?: unknown };
      return typeof id === "string" ? { ...(call as object), id: short(id) } : call;
    });
  }
}

/**
 * What a template takes as a message's content; thoughts may be parts of their own, as in Ministral's. Gemma 4's takes both, the
 * system's as a text in all its versions.
 */
type ContentForm = "text" | "parts" | "parts with thoughts" | "as it came";

function contentForm(template: ChatTemplate): ContentForm {
  if (!template.usesContentParts) return "text";
  if (template.mentions("[THINK]")) return "parts with thoughts";
  return isGemma4(template.source) ? "as it came" : "parts";
}

/** `nothing`: the content of a message that only calls tools. */
function templateMessage(
  message: ConversationMessage,
  location: string,
  form: ContentForm,
  nothing: "" | null,
): TemplateMessage {
  const { role, content, name, tool_call_id, tool_calls, tools, reasoning, reasoning_content } = message;
  if (typeof role !== "string" || role === "") {
    throw new ConversationError(`${location}.role`, "is required and must be a text");
  }
  const isAssistant = role === "assistant";
  const toolCalls = isAssistant ? parsedToolCalls(tool_calls, `${location}.tool_calls`) : [];
  const result: TemplateMessage = { role, content: nothing };
  // A message that only calls tools has no content, and templates ask for that.
  const hasNone = (content === undefined || content === null) && toolCalls.length > 0;
  if (!hasNone) result.content = templateContent(message, `${location}.content`, form);
  if (typeof name === "string") result.name = name;
  if (role === "tool" && typeof tool_call_id === "string") result.tool_call_id = tool_call_id;
  if (toolCalls.length > 0) result.tool_calls = toolCalls;
  const thoughts = isAssistant ? (reasoning ?? reasoning_content) : undefined;
  if (thoughts !== undefined && thoughts !== null) {
    if (typeof thoughts !== "string") {
      const field = thoughts === reasoning ? "reasoning" : "reasoning_content";
      throw new ConversationError(`${location}.${field}`, "must be a text or null");
    }
    result.reasoning = thoughts;
    result.reasoning_content = thoughts;
    const hasThought = Array.isArray(result.content) && result.content.some(({ type }) => type === "thinking");
    if (form === "parts with thoughts" && thoughts !== "" && !hasThought) {
      result.content = [{ type: "thinking", thinking: thoughts }, ...contentParts(result.content, location)];
    }
  }
  // Templates take null for something that is there.
  if (role === "developer" && tools !== undefined && tools !== null) result.tools = tools;
  return result;
}

/** What a tool answered is one text in either form. */
function templateContent(message: ConversationMessage, location: string, form: ContentForm): string | TemplatePart[] {
  const { role, content } = message;
  const isEmpty = content === undefined || content === null;
  const isText = form === "text" || (form === "as it came" && (typeof content === "string" || isSystem(message)));
  if (isText || isEmpty || role === "tool") return contentText(content, location);
  const parts = contentParts(content, location);
  if (form !== "parts with thoughts") return parts;
  const given = content as readonly unknown[];
  return parts.map((part, index) => {
    const isThought = typeof content !== "string" && (given[index] as { type?: unknown } | null)?.type === "thinking";
    return isThought ? { type: "thinking", thinking: part.text } : part;
  });
}

function parsedToolCalls(calls: unknown, location: string): unknown[] {
  if (calls === undefined || calls === null) return [];
  if (!Array.isArray(calls)) throw new ConversationError(location, "must be a list or null");
  return calls.map((call, index) => parsedToolCall(call, `${location}.${index}`));
}

function parsedToolCall(call: unknown, location: string): unknown {
  if (typeof call !== "object" || call === null) throw new ConversationError(location, "must be an object");
  const { type = "function", function: definition } = call as Record<string, unknown>;
  if (type !== "function") throw new ConversationError(`${location}.type`, 'must be "function"');
  if (typeof definition !== "object" || definition === null) {
    throw new ConversationError(`${location}.function`, "is required and must be an object");
  }
  const { name, arguments: given } = definition as Record<string, unknown>;
  if (typeof name !== "string") throw new ConversationError(`${location}.function.name`, "must be a text");
  const parsed = parsedArguments(given);
  return { ...call, type, function: { ...definition, arguments: parsed } };
}

/**
 * JSON text is read as Python reads it, so that a template prints 1.0 and long ints as they came. What is no object, or
 * no JSON at all, is what a model once wrote: refusing it would refuse every later turn of the conversation, and
 * templates need an object, so it is an empty one.
 */
function parsedArguments(given: unknown): unknown {
  if (typeof given === "string") return parsedObject(given) ?? {};
  const isObject = typeof given === "object" && given !== null && !Array.isArray(given);
  return isObject && !(given instanceof Number) ? given : {};
}

function parsedObject(text: string): Dict | null {
  try {
    const value = parseJson(text);
    return value instanceof Dict ? value : null;
  } catch (error) {
    if (error instanceof PythonError) return null;
    throw error;
  }
}

const isSystem = ({ role }: { role: string }): boolean => role === "system" || role === "developer";

/** Whether the system speaks again behind the beginning; what is to be continued is left where it is. */
export function hasLaterSystem(messages: readonly ConversationMessage[], continues: boolean): boolean {
  const last = messages.at(-1);
  if (continues && last !== undefined && isSystem(last)) return false;
  return messages.slice(1).some(isSystem);
}

/**
 * Developer messages speak as the system, whose messages, wherever they stand, become one at the beginning: many
 * templates refuse or leave out a later one.
 */
export function systemFirst(messages: TemplateMessage[]): TemplateMessage[] {
  const systems = messages.filter(isSystem);
  const { tools: _, ...first } = systems[0]!;
  const merged: TemplateMessage = { ...first, role: "system" };
  if (systems.length > 1) {
    const text = systems.map(({ content }) => contentText(content, "messages")).join("\n\n");
    const inParts = systems.some(({ content }) => Array.isArray(content));
    merged.content = inParts ? [{ type: "text", text }] : text;
  }
  return [merged, ...messages.filter((message) => !isSystem(message))];
}

// A message's content, as a request writes it, in the form a template wants.

/** A part of a content in the form templates know, with the extra keys it came with. */
export interface TextPart {
  type: "text";
  text: string;
  [key: string]: unknown;
}

/** A thought among the parts. */
export interface ThoughtPart {
  type: "thinking";
  thinking: string;
}

export type TemplatePart = TextPart | ThoughtPart;

/** The part with another text. */
export function withText<P extends TemplatePart>(part: P, change: (text: string) => string): P {
  return part.type === "thinking" ? { ...part, thinking: change(part.thinking) } : { ...part, text: change(part.text) };
}

/** Which field of a part holds its text. */
const TEXT_FIELDS: Readonly<Record<string, string>> = {
  text: "text",
  input_text: "text",
  output_text: "text",
  refusal: "refusal",
  thinking: "thinking",
};

/**
 * The parts of a content, all of them text. A bare string is a part; null and absent have none. Throws
 * ConversationError at `location` for anything else: these models read text only.
 */
export function contentParts(content: unknown, location: string): TextPart[] {
  if (content === undefined || content === null) return [];
  if (typeof content === "string") return [{ type: "text", text: content }];
  if (!Array.isArray(content)) throw new ConversationError(location, "must be a text, a list of parts or null");
  return content.map((part, index) => textPart(part, `${location}.${index}`));
}

/** Types of parts that are no text; any other is not quoted, for it may be content. */
const OTHER_PARTS = new Set(
  "image image_url input_image image_pil image_embeds audio audio_url input_audio audio_embeds video video_url file input_file tool_use tool_result".split(
    " ",
  ),
);

function textPart(part: unknown, location: string): TextPart {
  if (typeof part === "string") return { type: "text", text: part };
  if (typeof part !== "object" || part === null || Array.isArray(part)) {
    throw new ConversationError(location, "must be a text or an object with a type");
  }
  const { type, ...rest } = part as Record<string, unknown>;
  if (typeof type !== "string") throw new ConversationError(`${location}.type`, "is required and must be a text");
  const field = Object.hasOwn(TEXT_FIELDS, type) ? TEXT_FIELDS[type]! : undefined;
  if (field === undefined) {
    const known = Object.keys(TEXT_FIELDS).join(", ");
    const named = OTHER_PARTS.has(type) ? `"${type}" ` : "";
    throw new ConversationError(`${location}.type`, `${named}is not supported; parts may be ${known}`);
  }
  const text = rest[field];
  if (typeof text !== "string") throw new ConversationError(`${location}.${field}`, "is required and must be a text");
  const { [field]: _, ...extra } = rest;
  return { ...extra, type: "text", text };
}

/** The text of a content: its parts with a newline between them. Throws ConversationError as contentParts does. */
export function contentText(content: unknown, location: string): string {
  return contentParts(content, location)
    .map((part) => part.text)
    .join("\n");
}
