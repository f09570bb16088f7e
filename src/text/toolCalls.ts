// The tool calls in a model's answer, in the formats that templates teach.

import { HermesToolParser } from "./hermesToolParser.js";
import { LlamaToolParser } from "./llamaToolParser.js";
import type { ToolParser } from "./toolCallCollector.js";

/**
 * - `hermes`: `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`, any number, with text around them;
 * - `llama3`: the answer is `{"name": ..., "parameters": {...}}`, perhaps after `<|python_tag|>`, several with `;`.
 */
export type ToolFormat = "hermes" | "llama3";

export const TOOL_FORMATS: readonly ToolFormat[] = ["hermes", "llama3"];

export interface ParsedToolCall {
  name: string;
  /** JSON text, as the model wrote it. */
  arguments: string;
}

/** The format that a template teaches its model, or null when it is none of these. */
export function recogniseToolFormat(templateSource: string): ToolFormat | null {
  const has = (text: string) => templateSource.includes(text);
  // Some families put other notations into the same tag.
  const otherNotation = has("<function=") || has("<arg_key>") || has("<invoke");
  if (has("<tool_call>") && has("arguments")) return otherNotation ? null : "hermes";
  const isLlama = has("<|start_header_id|>") || has("<|python_tag|>");
  return isLlama && has("tool_calls") && has("parameters") ? "llama3" : null;
}

/**
 * `asTheyCome`: calls are handed out while they are written, so that one that is cut off keeps the arguments it has. Otherwise
 * a call comes in one piece, once it is whole and valid JSON; what never gets there is content as it stands, and so is what
 * names a function beside those `offered` (null: any may be called).
 */
export function createToolParser(
  format: ToolFormat,
  asTheyCome: boolean,
  offered: ReadonlySet<string> | null = null,
): ToolParser {
  return format === "hermes" ? new HermesToolParser(asTheyCome, offered) : new LlamaToolParser(asTheyCome, offered);
}

/** Content and calls of a whole answer. */
export function parseToolCalls(format: ToolFormat, text: string): { content: string; toolCalls: ParsedToolCall[] } {
  const parser = createToolParser(format, false);
  const deltas = [parser.push(text), parser.flush()];
  const toolCalls = deltas
    .flatMap((delta) => delta.toolCalls)
    .map(({ name, arguments: given }) => ({ name: name!, arguments: given }));
  return { content: deltas.map((delta) => delta.content).join(""), toolCalls };
}
