// A chat completion as a message: in one piece, and as the events of a stream.

import { isObject, parseJsonText } from "../json.js";
import type { MessageBlock, MessageEvent, MessageReply } from "../schemas/messages.js";
import type {
  ChatCompletion,
  ChatCompletionChunk,
  CompletionUsage,
  FinishReason,
  ToolCallDelta,
} from "../types/chat.js";

export function messageOf({ id, model, choices, usage }: ChatCompletion): MessageReply {
  const { message, finish_reason, stop_reason } = choices[0]!;
  const content: MessageBlock[] = [];
  if (message.reasoning) content.push({ type: "thinking", thinking: message.reasoning, signature: "" });
  if (message.content) content.push({ type: "text", text: message.content });
  for (const { id, function: called } of message.tool_calls ?? []) {
    content.push({ type: "tool_use", id, name: called.name, input: inputOf(called.arguments) });
  }
  if (content.length === 0) content.push({ type: "text", text: "" });
  const common = { id, type: "message", role: "assistant", model } as const;
  return { ...common, content, ...endOf(finish_reason, stop_reason), usage: usageOf(usage) };
}

/** Its numbers as they are spelled. A call that a stop has cut, or whose arguments are no object, is told without arguments. */
function inputOf(text: string): Record<string, unknown> {
  try {
    const value = parseJsonText(text, "spellings");
    return isObject(value) ? value : {};
  } catch {
    return {};
  }
}

function endOf(
  finish: FinishReason,
  stop: number | string | null | undefined,
): Pick<MessageReply, "stop_reason" | "stop_sequence"> {
  if (finish === "length") return { stop_reason: "max_tokens", stop_sequence: null };
  if (finish === "tool_calls") return { stop_reason: "tool_use", stop_sequence: null };
  if (finish !== "stop") return { stop_reason: null, stop_sequence: null };
  if (typeof stop === "string") return { stop_reason: "stop_sequence", stop_sequence: stop };
  return { stop_reason: "end_turn", stop_sequence: null };
}

function usageOf(usage: CompletionUsage): MessageReply["usage"] {
  const cached = usage.prompt_tokens_details.cached_tokens;
  return {
    input_tokens: usage.prompt_tokens - cached,
    cache_read_input_tokens: cached,
    output_tokens: usage.completion_tokens,
  };
}

/** The chunks must carry their usage. Leaving the iteration leaves theirs. */
export async function* messageEvents(chunks: AsyncIterable<ChatCompletionChunk>): AsyncGenerator<MessageEvent> {
  const blocks = new BlockEvents();
  let end = endOf("abort", null);
  let hasBegun = false;
  for await (const { id, model, choices, usage } of chunks) {
    const [choice] = choices;
    if (choice === undefined) {
      yield* blocks.end();
      yield { type: "message_delta", delta: end, usage: usageOf(usage!) };
      continue;
    }
    if (!hasBegun) {
      hasBegun = true;
      const common = { id, type: "message", role: "assistant", model, content: [] } as const;
      const message = { ...common, content: [], stop_reason: null, stop_sequence: null, usage: usageOf(usage!) };
      yield { type: "message_start", message };
    }
    const { reasoning, content, tool_calls = [] } = choice.delta;
    if (reasoning) yield* blocks.think(reasoning);
    if (content) yield* blocks.say(content);
    for (const call of tool_calls) yield* blocks.call(call);
    if (choice.finish_reason !== null) end = endOf(choice.finish_reason, choice.stop_reason);
  }
  yield { type: "message_stop" };
}

/** One block after the other: what is of another kind than the open one ends it. */
class BlockEvents {
  private index = -1;
  /** The kind of the open block; of calls which one. */
  private open: string | null = null;

  *think(thinking: string): Generator<MessageEvent> {
    yield* this.begin("thinking", { type: "thinking", thinking: "", signature: "" });
    yield { type: "content_block_delta", index: this.index, delta: { type: "thinking_delta", thinking } };
  }

  *say(text: string): Generator<MessageEvent> {
    yield* this.begin("text", { type: "text", text: "" });
    yield { type: "content_block_delta", index: this.index, delta: { type: "text_delta", text } };
  }

  *call({ index: which, id, function: called }: ToolCallDelta): Generator<MessageEvent> {
    yield* this.begin(`call ${which}`, { type: "tool_use", id: id ?? "", name: called.name ?? "", input: {} });
    const partial_json = called.arguments ?? "";
    if (partial_json === "") return;
    yield { type: "content_block_delta", index: this.index, delta: { type: "input_json_delta", partial_json } };
  }

  *end(): Generator<MessageEvent> {
    if (this.open !== null) yield { type: "content_block_stop", index: this.index };
    this.open = null;
  }

  private *begin(kind: string, content_block: MessageBlock): Generator<MessageEvent> {
    if (this.open === kind) return;
    yield* this.end();
    this.open = kind;
    this.index++;
    yield { type: "content_block_start", index: this.index, content_block };
  }
}
