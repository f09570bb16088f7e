// A request's messages as a template is to see them.

import { ConversationError } from "./errors.js";
import { contentParts, contentText, type TextPart } from "./messageContent.js";
import type { ChatTemplate } from "./template/chatTemplate.js";
import { parseJson } from "./template/jsonValue.js";
import { PythonError } from "./template/values.js";

/** A message as a request writes it; fields that are not named below reach the template as they are. */
export interface ConversationMessage {
  role: string;
  content?: string | readonly unknown[] | null;
  [field: string]: unknown;
}

/** A message as a template sees it. */
export interface TemplateMessage {
  role: string;
  content: string | TextPart[] | null;
  [field: string]: unknown;
}

/**
 * The messages for `template`: contents as texts or, when it takes contents apart, as parts; arguments of tool calls
 * parsed; reasoning under both of its names; developer messages as system messages when the template knows no
 * developer. Throws ConversationError naming the field.
 */
export function templateMessages(template: ChatTemplate, messages: readonly ConversationMessage[]): TemplateMessage[] {
  const result = messages.map((message, index) => {
    return templateMessage(message, `messages.${index}`, template.usesContentParts);
  });
  const hasDeveloper = result.some((message) => message.role === "developer");
  return hasDeveloper && !template.mentions("developer") ? withoutDeveloper(result) : result;
}

function templateMessage(message: ConversationMessage, location: string, wantsParts: boolean): TemplateMessage {
  const { role, content, name, tool_call_id, tool_calls, reasoning, reasoning_content, ...extra } = message;
  if (typeof role !== "string" || role === "") {
    throw new ConversationError(`${location}.role`, "is required and must be a text");
  }
  const isAssistant = role === "assistant";
  const toolCalls = isAssistant ? parsedToolCalls(tool_calls, `${location}.tool_calls`) : [];
  const result: TemplateMessage = { role, content: null };
  // A message that only calls tools has no content, and templates ask for that.
  const hasNone = (content === undefined || content === null) && toolCalls.length > 0;
  if (!hasNone) result.content = templateContent(message, `${location}.content`, wantsParts);
  if (typeof name === "string") result.name = name;
  if (typeof tool_call_id === "string") result.tool_call_id = tool_call_id;
  if (toolCalls.length > 0) result.tool_calls = toolCalls;
  const thoughts = isAssistant ? (reasoning ?? reasoning_content) : undefined;
  if (thoughts !== undefined && thoughts !== null) {
    if (typeof thoughts !== "string") throw new ConversationError(`${location}.reasoning`, "must be a text or null");
    result.reasoning = thoughts;
    result.reasoning_content = thoughts;
  }
  // Templates take null for something that is there.
  for (const [field, value] of Object.entries(extra)) if (value !== null) result[field] = value;
  return result;
}

/** What a tool answered is one text in either form. */
function templateContent(message: ConversationMessage, location: string, wantsParts: boolean): string | TextPart[] {
  const isEmpty = message.content === undefined || message.content === null;
  if (!wantsParts || isEmpty || message.role === "tool") return contentText(message.content, location);
  return contentParts(message.content, location);
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
  const parsed = parsedArguments(given, `${location}.function.arguments`);
  return { ...call, type, function: { ...definition, arguments: parsed } };
}

/**
 * JSON text is read as Python reads it, so that a template prints 1.0 and long ints as they came. Text that is no JSON
 * is what a model wrote in its place: the template gets it as it stands, so that the model sees its mistake.
 */
function parsedArguments(given: unknown, location: string): unknown {
  if (given === undefined || given === null) return {};
  if (typeof given === "object" && !Array.isArray(given)) return given;
  if (typeof given !== "string") throw new ConversationError(location, "must be a JSON object, or one as text");
  if (given.trim() === "") return {};
  try {
    return parseJson(given) ?? {};
  } catch (error) {
    if (error instanceof PythonError) return given;
    throw error;
  }
}

/** Developer messages speak as the system; all that the system says first becomes one message. */
function withoutDeveloper(messages: TemplateMessage[]): TemplateMessage[] {
  const renamed = messages.map((message) => {
    return message.role === "developer" ? { ...message, role: "system" } : message;
  });
  const firstOther = renamed.findIndex((message) => message.role !== "system");
  const leading = renamed.slice(0, firstOther < 0 ? renamed.length : firstOther);
  if (leading.length < 2) return renamed;
  const text = leading.map(({ content }) => contentText(content, "messages")).join("\n\n");
  const inParts = leading.some(({ content }) => Array.isArray(content));
  const merged = Object.assign({}, ...leading, { content: inParts ? [{ type: "text", text }] : text });
  return [merged as TemplateMessage, ...renamed.slice(leading.length)];
}
