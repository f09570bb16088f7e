// Messages as gpt-oss's template reads them.

import type { TemplateMessage } from "./templateMessages.js";

/**
 * The template takes thoughts as `thinking`; beside a call it refuses them together with a text, which it would show as thoughts.
 * It shows one call of a message, and takes what a tool answered for the answer to the call before it.
 */
export function harmonyMessages(messages: readonly TemplateMessage[]): TemplateMessage[] {
  return callsOneByOne(messages).map(withThinking);
}

/** What a message is that calls functions, or a tool's answer. */
interface CallingMessage {
  role: string;
  content?: unknown;
  tool_calls?: unknown[] | null;
  tool_call_id?: string | null;
  /** In training. */
  weight?: unknown;
}

/** Each call is a reply of its own: in a message of its own, with what its tool answered behind it. */
export function callsOneByOne<M extends CallingMessage>(messages: readonly M[]): M[] {
  const told: M[] = [];
  for (let at = 0; at < messages.length; at++) {
    const message = messages[at]!;
    const calls = message.tool_calls ?? [];
    if (message.role !== "assistant" || calls.length < 2) {
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

/** Answers to none of the calls stand last. */
function oneByOne<M extends CallingMessage>(message: M, calls: readonly unknown[], answers: readonly M[]): M[] {
  const left = new Set(answers);
  const { role, weight } = message;
  const bare = { role, content: "", ...(weight === undefined ? {} : { weight }) };
  const told = calls.flatMap((call, i): M[] => {
    const { id } = call as { id?: unknown };
    const own = answers.filter((answer) => left.has(answer) && answer.tool_call_id === id);
    // Answers may have no ids: then they stand in the order of the calls.
    if (own.length === 0 && answers[i] !== undefined && (answers[i].tool_call_id ?? undefined) === undefined) {
      own.push(answers[i]);
    }
    for (const answer of own) left.delete(answer);
    return [{ ...((i === 0 ? message : bare) as M), tool_calls: [call] }, ...own];
  });
  return [...told, ...left];
}
