// Gemma 4's turns, as its template writes them.
//
//   <|turn>model
//   <|channel>thought
//   thoughts<channel|>answer<turn|>
//   <|tool_call>call:name{key:<|"|>text<|"|>}<tool_call|><|tool_response>response:name{value:<|"|>text<|"|>}<tool_response|>answer<turn|>

import { GEMMA4_QUOTE } from "../gemma4Quote.js";

/** What a reply ends with; the second one behind calls, as what begins their answers. */
export const GEMMA4_ENDS = ["<turn|>", "<|tool_response>"] as const;

/** Each is a token. */
export const GEMMA4_MARKS: readonly string[] = [
  "<|channel>",
  "<channel|>",
  "<|tool_call>",
  "<tool_call|>",
  GEMMA4_QUOTE,
];

/** Thoughts may be opened again, behind what was said. */
export const GEMMA4_THOUGHTS = { open: "<|channel>thought", close: "<channel|>" } as const;

export const isGemma4 = (templateSource: string): boolean => templateSource.includes("<|turn>");
