import type { ChatCompletionChunk, ToolCall } from "../../src/types/chat.js";

/** Names and arguments. */
export const plainCalls = (made: ToolCall[] | undefined): [string, string][] =>
  (made ?? []).map(({ function: f }) => [f.name, f.arguments]);

/** The same of a choice that has streamed. */
export function streamedCalls(chunks: ChatCompletionChunk[], index = 0): [string, string][] {
  const all: [string, string][] = [];
  for (const choice of chunks.flatMap((chunk) => chunk.choices)) {
    if (choice.index !== index) continue;
    for (const call of choice.delta.tool_calls ?? []) {
      if (call.id !== undefined) all[call.index] = [call.function.name!, ""];
      all[call.index]![1] += call.function.arguments ?? "";
    }
  }
  return all;
}
