/**
 * How models write tool calls, by the names that options give them, in the order in which a template is asked which it teaches;
 * what each looks like: text/toolCalls/toolSyntax.ts.
 */
export const TOOL_FORMATS = [
  "harmony",
  "gemma4",
  "qwen3_coder",
  "hermes",
  "granite",
  "mistral",
  "phi4",
  "lfm2",
  "pythonic",
  "llama3",
] as const;

export type ToolFormat = (typeof TOOL_FORMATS)[number];
