// Messages of conversations: the same as those of the `openai` package, in both directions.

import type { ToolCall } from "./chat.js";

export interface ChatTextPart {
  type: "text";
  text: string;
}

/** Parts that text models refuse; they are here so that messages of the `openai` package fit. */
export type ChatMediaPart =
  | { type: "image_url"; image_url: { url: string; detail?: "auto" | "low" | "high" } }
  | { type: "input_audio"; input_audio: { data: string; format: "wav" | "mp3" } }
  | { type: "file"; file: { file_data?: string; file_id?: string; filename?: string } };

export interface ChatRefusalPart {
  type: "refusal";
  refusal: string;
}

export interface ChatSystemMessage {
  role: "system";
  content: string | ChatTextPart[];
  name?: string;
}

export interface ChatDeveloperMessage {
  role: "developer";
  content: string | ChatTextPart[];
  name?: string;
}

export interface ChatUserMessage {
  role: "user";
  content: string | (ChatTextPart | ChatMediaPart)[];
  name?: string;
}

export interface ChatAssistantMessage {
  role: "assistant";
  /** With `tool_calls` it may be absent or null. */
  content?: string | (ChatTextPart | ChatRefusalPart)[] | null;
  name?: string;
  /** Calls of the type "custom" are refused. */
  tool_calls?: (ToolCall | { id: string; type: "custom"; custom: { name: string; input: string } })[];
  /** What the assistant thought, where the template shows it. */
  reasoning?: string | null;
  refusal?: string | null;
  audio?: { id: string } | null;
  function_call?: { name: string; arguments: string } | null;
}

export interface ChatToolMessage {
  role: "tool";
  content: string | ChatTextPart[];
  tool_call_id: string;
}

export interface ChatFunctionMessage {
  role: "function";
  content: string | null;
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
