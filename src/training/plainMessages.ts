// A trajectory's history as the messages and tools that a chat completion would have been asked with.

import { ValidationError } from "../errors.js";
import { ConversationError, contentText as textOf } from "../text/index.js";
import type { MessageOrChoice, TrajectoryChoice, TrajectoryMessage, TrajectoryTool } from "../types/trajectories.js";

export function isChoice(item: MessageOrChoice): item is TrajectoryChoice {
  return typeof (item as Partial<TrajectoryChoice>).message === "object" && !("role" in item);
}

/**
 * A choice becomes an assistant message of content and tool calls (its reasoning and refusal are dropped); null content becomes ""
 * unless there are calls beside it: templates ask for that, and a completion's get it so.
 */
export function plainMessage(item: MessageOrChoice): TrajectoryMessage {
  if (!isChoice(item)) return item.content == null && !hasCalls(item) ? { ...item, content: "" } : item;
  const { content, tool_calls } = item.message;
  if (hasCalls(item.message)) return { role: "assistant", content: content ?? null, tool_calls };
  return { role: "assistant", content: content ?? "" };
}

const hasCalls = ({ tool_calls }: Pick<TrajectoryMessage, "tool_calls">) => tool_calls != null && tool_calls.length > 0;

/** Tool definitions as a request carries them: those given bare, without `type`, are wrapped. null: none. */
export function plainTools(tools: readonly TrajectoryTool[] | null | undefined): TrajectoryTool[] | null {
  if (!tools || tools.length === 0) return null;
  return tools.map((tool) => {
    if (tool.type) return tool;
    const { type: _, ...definition } = tool;
    const inner = definition.function ?? (definition as unknown as NonNullable<TrajectoryTool["function"]>);
    return { type: "function", function: inner };
  });
}

/** The text of a message's content, as templates get it. @throws ValidationError under `path` when it holds anything but text. */
export function contentText(content: TrajectoryMessage["content"], path: string): string {
  try {
    return textOf(content, path);
  } catch (error) {
    if (error instanceof ConversationError) throw ValidationError.at(error.location, error.reason);
    throw error;
  }
}
