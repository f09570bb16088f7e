// One choice of an answer, event by event: its text taken apart, its logprobs written, its end named.

import type { TokensEvent } from "../../inference/index.js";
import type { ChoiceLogprobs, CompletionUsage, FinishReason } from "../../types/chat.js";
import { LogprobWriter } from "./logprobs.js";
import type { PreparedChat } from "./preparedChat.js";
import type { ReplyDelta, ReplyReader } from "./replyReader.js";

export interface ChoiceStep {
  delta: ReplyDelta;
  logprobs: ChoiceLogprobs | null;
  tokenIds: number[] | null;
  finishReason: FinishReason | null;
  stopReason: number | string | null;
}

export class ChoiceWriter {
  /** Output tokens so far. */
  tokens = 0;
  private readonly reader: ReplyReader;
  private readonly logprobs: LogprobWriter;
  private called = false;

  constructor(private readonly chat: PreparedChat) {
    this.reader = chat.newReader();
    this.logprobs = new LogprobWriter(chat.tokenizer, chat.tokensAsIds, chat.samplingRecord !== null);
  }

  write(event: TokensEvent): ChoiceStep {
    const { chat } = this;
    this.tokens += event.tokenIds.length;
    const delta = this.reader.push(event.text);
    if (event.finish !== null) append(delta, this.reader.end());
    if (delta.toolCalls.length > 0) this.called = true;
    if (chat.hideReasoning) delta.reasoning = "";
    return {
      delta,
      logprobs: chat.hideReasoning ? null : this.logprobs.write(event),
      tokenIds: chat.returnTokenIds && !chat.hideReasoning ? event.tokenIds : null,
      finishReason: event.finish === null ? null : this.finishReason(event.finish.reason),
      stopReason: event.finish?.stopReason ?? null,
    };
  }

  private finishReason(reason: FinishReason): FinishReason {
    return this.called && reason === "stop" ? "tool_calls" : reason;
  }
}

function append(delta: ReplyDelta, rest: ReplyDelta): void {
  delta.reasoning += rest.reasoning;
  delta.content += rest.content;
  delta.toolCalls.push(...rest.toolCalls);
}

/** The writers of the choices under way: of thousands of choices only some are at any time. */
export class ChoiceWriters {
  private readonly writers = new Map<number, ChoiceWriter>();

  constructor(private readonly chat: PreparedChat) {}

  of(index: number): ChoiceWriter {
    let writer = this.writers.get(index);
    if (writer === undefined) {
      writer = new ChoiceWriter(this.chat);
      this.writers.set(index, writer);
    }
    return writer;
  }

  ended(index: number): void {
    this.writers.delete(index);
  }
}

/** The prompt counts once, whatever the number of choices. */
export function usage(prompt: number, completion: number, cached: number): CompletionUsage {
  return {
    prompt_tokens: prompt,
    total_tokens: prompt + completion,
    completion_tokens: completion,
    prompt_tokens_details: { cached_tokens: cached },
  };
}
