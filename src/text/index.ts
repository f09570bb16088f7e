export { DEFAULT_LIMITS, type TemplateLimits } from "../jinja/budget.js";
export { ChatTemplate, compileChatTemplate, type RenderOptions } from "../jinja/chatTemplate.js";
export * from "../jinja/errors.js";
export type { TemplateInput } from "../jinja/input.js";
export { TOOL_FORMATS, type ToolFormat } from "../toolFormats.js";
export { type Conversation, renderConversation } from "./conversation.js";
export * from "./errors.js";
export { GEMMA4_ENDS, GEMMA4_MARKS, isGemma4 } from "./gemma4.js";
export {
  begunMessage,
  HARMONY_ENDS,
  HARMONY_HEADER,
  HARMONY_MARKS,
  HARMONY_MESSAGE_END,
  isHarmony,
  placeInMessage,
} from "./harmony.js";
export { callsOneByOne } from "./harmonyMessages.js";
export type { DecodeOptions, IncrementalDecoder } from "./incrementalDecoder.js";
export {
  GEMMA4_REASONING,
  HARMONY_REASONING,
  isInsideReasoning,
  openThoughtIn,
  promptOpensReasoning,
  REASONING_TOKENS,
  type ReasoningFormat,
  recogniseReasoning,
  USUAL_REASONING,
} from "./reasoning.js";
export {
  createReplyParser,
  parseReply,
  type ReplyParser,
  type ReplyPieces,
  type ReplyStart,
  type ReplySyntax,
} from "./replyParser.js";
export type { ConversationMessage } from "./templateMessages.js";
export { contentParts, contentText, type TextPart } from "./templateMessages.js";
export { type KeptTokens, keptTokens } from "./textThread.js";
export { openBytes } from "./tokenBytes.js";
export { type EncodeOptions, loadTokenizer, Tokenizer } from "./tokenizer.js";
export { readTokenizerFolder, type TemplateSource } from "./tokenizerFolder.js";
export type { OfferedTools, ToolCallPiece, ToolDelta, ToolParser } from "./toolCalls/toolCallCollector.js";
export {
  createCallsOrTextParser,
  createToolParser,
  type ParsedToolCall,
  recogniseToolFormat,
} from "./toolCalls/toolCalls.js";
export { type CallTexts, TOOL_SYNTAX } from "./toolCalls/toolSyntax.js";
export { probeTurns } from "./turnProbe.js";
