export { DEFAULT_LIMITS, type TemplateLimits } from "../jinja/budget.js";
export { ChatTemplate, compileChatTemplate, type RenderOptions } from "../jinja/chatTemplate.js";
export * from "../jinja/errors.js";
export type { TemplateInput } from "../jinja/input.js";
export { type Conversation, renderConversation } from "./conversation.js";
export * from "./errors.js";
export type { DecodeOptions, IncrementalDecoder } from "./incrementalDecoder.js";
export {
  isInsideReasoning,
  promptOpensReasoning,
  REASONING_TAGS,
  type ReasoningDelta,
  type ReasoningOptions,
  ReasoningParser,
  recogniseReasoning,
  splitReasoning,
} from "./reasoning.js";
export type { ConversationMessage } from "./templateMessages.js";
export { contentParts, contentText, type TextPart } from "./templateMessages.js";
export type { KeptTokens } from "./textThread.js";
export { openBytes } from "./tokenBytes.js";
export { type EncodeOptions, loadTokenizer, Tokenizer } from "./tokenizer.js";
export type { TemplateSource } from "./tokenizerFolder.js";
export type { ToolCallPiece, ToolDelta, ToolParser } from "./toolCallCollector.js";
export {
  createToolParser,
  type ParsedToolCall,
  parseToolCalls,
  recogniseToolFormat,
  TOOL_FORMATS,
  type ToolFormat,
} from "./toolCalls.js";
