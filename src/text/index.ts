export { DEFAULT_LIMITS, type TemplateLimits } from "../jinja/budget.js";
export { ChatTemplate, compileChatTemplate, type RenderOptions } from "../jinja/chatTemplate.js";
export * from "../jinja/errors.js";
export type { TemplateInput } from "../jinja/input.js";
export { type Conversation, renderConversation } from "./conversation.js";
export * from "./errors.js";
export type { DecodeOptions, IncrementalDecoder } from "./incrementalDecoder.js";
export { contentParts, contentText, type TextPart } from "./messageContent.js";
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
export { type EncodeOptions, type KeptTokens, loadTokenizer, Tokenizer } from "./tokenizer.js";
export type { TemplateSource } from "./tokenizerFolder.js";
export {
  createToolParser,
  type ParsedToolCall,
  parseToolCalls,
  recogniseToolFormat,
  TOOL_FORMATS,
  type ToolCallPiece,
  type ToolDelta,
  type ToolFormat,
  type ToolParser,
} from "./toolCalls.js";
export { openBytes } from "./utf8.js";
