// Messages as gpt-oss's template reads them.

import type { TemplateMessage } from "./templateMessages.js";

/**
 * The template takes thoughts as `thinking`; beside a call it refuses them together with a text, which it would show as thoughts.
 * It shows one call of a message, and takes what a tool answered for the answer to the call before it.
 */
export function harmonyMessages(messages: readonly TemplateMessage[]): TemplateMessage[] {
  const told: TemplateMessage[] = [];
  for (let at = 0; at < messages.length; at++) {
    const message = withThinking(messages[at]!);
    const calls = message.tool_calls ?? [];
    if (calls.length < 2) {
      told.push(message);
      continue;
    }
    const from = at;
    while (messages[at + 1]?.role === "tool") at++;
    told.push(...oneByOne(message, calls, messages.slice(from + 1, at + 1)));
  }
  return told;
}

function withThinking(message: TemplateMessage): TemplateMessage {
  const { content, tool_calls, reasoning = "" } = message;
  if (tool_calls === undefined || typeof content !== "string" || content === "" || reasoning === "") {
    return reasoning === "" ? message : { ...message, thinking: reasoning };
  }
  return { ...message, content: "", thinking: `${reasoning}\n\n${content}` };
}

/** Each call in a message of its own, with what its tool answered behind it; answers to none of them stand last. */
function oneByOne(
  message: TemplateMessage,
  calls: readonly unknown[],
  answers: readonly TemplateMessage[],
): TemplateMessage[] {
  const left = new Set(answers);
  const told = calls.flatMap((call, i): TemplateMessage[] => {
    const { id } = call as { id?: unknown };
    const own = answers.filter((answer) => left.has(answer) && answer.tool_call_id === id);
    // Answers may have no ids: then they stand in the order of the calls.
    if (own.length === 0 && answers[i]?.tool_call_id === undefined && answers[i] !== undefined) own.push(answers[i]);
    for (const answer of own) left.delete(answer);
    const said: TemplateMessage =
      i === 0 ? { ...message, tool_calls: [call] } : { role: message.role, content: "", tool_calls: [call] };
    return [said, ...own];
  });
  return [...told, ...left];
}
