// What `tool_choice` says: which tools there are to call, and whether one of them has to be called.

import type { ChatRequest } from "../../schemas/chat.js";

export type Tool = NonNullable<ChatRequest["tools"]>[number];

type Choosing = Pick<ChatRequest, "tools" | "tool_choice">;

/** `name`: the one function to call. */
export type CallMode = "none" | "auto" | "required" | { name: string };

/** undefined: the request leaves it open. */
export function callMode({ tool_choice: choice }: Choosing): CallMode | undefined {
  if (typeof choice !== "object") return choice;
  return choice.type === "function" ? { name: choice.function.name } : choice.allowed_tools.mode;
}

/** The tools that the model is shown and may call: those of the request, or those that are allowed of them. */
export function offeredTools({ tools = [], tool_choice: choice }: Choosing): readonly Tool[] {
  if (typeof choice !== "object" || choice.type !== "allowed_tools") return tools;
  const names = new Set(choice.allowed_tools.tools.map((tool) => tool.function.name));
  return tools.filter((tool) => names.has(tool.function.name));
}
