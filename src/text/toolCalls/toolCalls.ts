// The tool calls in a model's answer, in the formats that templates teach.

import { TOOL_FORMATS, type ToolFormat } from "../../toolFormats.js";
import { CallsOrText } from "./callsOrText.js";
import type { OfferedTools, ToolParser } from "./toolCallCollector.js";
import { TOOL_SYNTAX } from "./toolSyntax.js";

export interface ParsedToolCall {
  name: string;
  /** JSON text, as the model wrote it. */
  arguments: string;
}

/** The format that a template teaches its model, or null when it is none of these. */
export function recogniseToolFormat(templateSource: string): ToolFormat | null {
  return TOOL_FORMATS.find((format) => TOOL_SYNTAX[format].isTaughtBy(templateSource)) ?? null;
}

/**
 * `asTheyCome`: calls are handed out while they are written, so that one that is cut off keeps the arguments it has. Otherwise
 * a call comes in one piece, once it is whole and valid JSON; what never gets there is content as it stands, and so is what
 * names a function beside those `offered` (null: any may be called). `sign`: the first half of a character, without its second
 * one, stands before each special token of the text, and what looks like a mark without it is text; only of Gemma 4's calls.
 */
export function createToolParser(
  format: ToolFormat,
  asTheyCome: boolean,
  offered: OfferedTools | null = null,
  sign = "",
): ToolParser {
  return TOOL_SYNTAX[format].parser(asTheyCome, offered, sign);
}

/**
 * The same of an answer that is calls from its first word on, which is one of `beginnings`, or text to its end, whatever that
 * holds.
 */
export function createCallsOrTextParser(
  format: ToolFormat,
  asTheyCome: boolean,
  offered: OfferedTools,
  beginnings: readonly string[],
  sign = "",
): ToolParser {
  const ofItsOwn = TOOL_SYNTAX[format].callsOrTextParser?.(asTheyCome, offered);
  if (ofItsOwn !== undefined) return ofItsOwn;
  // What begins as JSON does may go on as another JSON text than a call.
  const isCertain = beginnings.every((beginning) => !beginning.startsWith("{"));
  const calls = createToolParser(format, asTheyCome && isCertain, offered, sign);
  return new CallsOrText(
    calls,
    beginnings.map((beginning) => sign + beginning),
  );
}
