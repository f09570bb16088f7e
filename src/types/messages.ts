// Messages of conversations: the same as those of the `openai` package, in both directions.

import type { ToolCall } from "./chat.js";

/** A text. */
export interface ChatTextPart {
  type: "text";
  /** The text itself. */
  text: string;
}

/**
 * Parts that text models refuse; they are here so that messages of the `openai` package fit: an `image_url` (its `url` and
 * `detail`), an `input_audio` (its `data` and `format`), a `file` (its `file_data`, `file_id` or `filename`).
 */
export type ChatMediaPart =
  | { type: "image_url"; image_url: { url: string; detail?: "auto" | "low" | "high" } }
  | { type: "input_audio"; input_audio: { data: string; format: "wav" | "mp3" } }
  | { type: "file"; file: { file_data?: string; file_id?: string; filename?: string } };

/** What the assistant said instead of an answer. */
export interface ChatRefusalPart {
  type: "refusal";
  /** The text itself. */
  refusal: string;
}

/** What the assistant is told beforehand. */
export interface ChatSystemMessage {
  role: "system";
  /** What is said. */
  content: string | ChatTextPart[];
  /** Of the one who says it. */
  name?: string;
}

/** The same by its newer name; templates that do not know it are shown a system message. */
export interface ChatDeveloperMessage {
  role: "developer";
  /** What is said. */
  content: string | ChatTextPart[];
  /** Of the one who says it. */
  name?: string;
}

/** What the assistant is asked. */
export interface ChatUserMessage {
  role: "user";
  /** What is said. */
  content: string | (ChatTextPart | ChatMediaPart)[];
  /** Of the one who says it. */
  name?: string;
}

/** What the assistant has answered. */
export interface ChatAssistantMessage {
  role: "assistant";
  /** With `tool_calls` it may be absent or null. */
  content?: string | (ChatTextPart | ChatRefusalPart)[] | null;
  /** Of the one who says it. */
  name?: string;
  /** The functions that it called. Calls of the type "custom" (`id`, `custom`, its `name` and `input`) are refused. */
  tool_calls?: (ToolCall | { id: string; type: "custom"; custom: { name: string; input: string } })[];
  /** What the assistant thought, where the template shows it. */
  reasoning?: string | null;
  /** What it said instead of an answer; not shown to the model. */
  refusal?: string | null;
  /** Without effect (its `id`). */
  audio?: { id: string } | null;
  /** Without effect: the older form of `tool_calls`, with `name` and `arguments`. */
  function_call?: { name: string; arguments: string } | null;
}

/** What a function has answered. */
export interface ChatToolMessage {
  role: "tool";
  /** What it answered. */
  content: string | ChatTextPart[];
  /** The call that it answers. */
  tool_call_id: string;
}

/** The same in the older form. */
export interface ChatFunctionMessage {
  role: "function";
  /** What it answered. */
  content: string | null;
  /** The function. */
  name: string;
}

/** A message of a conversation: the same as the `openai` package's, in both directions. */
export type ChatMessage =
  | ChatSystemMessage
  | ChatDeveloperMessage
  | ChatUserMessage
  | ChatAssistantMessage
  | ChatToolMessage
  | ChatFunctionMessage;
