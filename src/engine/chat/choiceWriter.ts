// One choice of an answer, event by event: its text taken apart, its logprobs written, its end named.

import type { GenerationRecord, TokensEvent } from "../../inference/index.js";
import type { ChoiceLogprobs, CompletionUsage, FinishReason } from "../../types/chat.js";
import { LogprobWriter } from "./logprobs.js";
import type { PreparedChat } from "./preparedChat.js";
import type { ReplyDelta, ReplyReader } from "./replyReader.js";
import type { ThoughtTokens } from "./thoughtTokens.js";

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
  private readonly thoughts: ThoughtTokens | null;
  private readonly logprobs: LogprobWriter;

  constructor(private readonly chat: PreparedChat) {
    this.reader = chat.newReader();
    this.thoughts = chat.newThoughtTokens?.() ?? null;
    this.logprobs = new LogprobWriter(chat.tokenizer, chat.tokensAsIds, chat.samplingRecord !== null);
  }

  /** Of these, those of thoughts; null: the model does not think. */
  get reasoningTokens(): number | null {
    return this.thoughts?.count ?? null;
  }

  write(event: TokensEvent): ChoiceStep {
    const { chat } = this;
    this.tokens += event.tokenIds.length;
    const delta = this.reader.push(event.text);
    if (event.finish !== null) append(delta, this.reader.end());
    this.thoughts?.push(event.tokenIds, delta.reasoning, this.reader.isAnswering);
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
    return this.reader.hasCalled && reason === "stop" ? "tool_calls" : reason;
  }
}

function append(delta: ReplyDelta, rest: ReplyDelta): void {
  delta.reasoning += rest.reasoning;
  delta.content += rest.content;
  delta.toolCalls.push(...rest.toolCalls);
}

/** The writers of the choices under way: of thousands of choices only some are at any time. */
export class ChoiceWriters {
  /** Tokens of thoughts in the choices that have ended; null: the model does not think. */
  reasoningTokens: number | null;
  private readonly writers = new Map<number, ChoiceWriter>();

  constructor(private readonly chat: PreparedChat) {
    this.reasoningTokens = chat.newThoughtTokens === null ? null : 0;
  }

  of(index: number): ChoiceWriter {
    let writer = this.writers.get(index);
    if (writer === undefined) {
      writer = new ChoiceWriter(this.chat);
      this.writers.set(index, writer);
    }
    return writer;
  }

  ended(index: number): void {
    if (this.reasoningTokens !== null) this.reasoningTokens += this.writers.get(index)?.reasoningTokens ?? 0;
    this.writers.delete(index);
  }
}

/**
 * The prompt counts once, whatever the number of choices. `reasoning`: null where the model does not think; `prediction`: where
 * none was given.
 */
export function usage(
  prompt: number,
  completion: number,
  cached: number,
  reasoning: number | null = null,
  prediction: GenerationRecord["prediction"] = null,
): CompletionUsage {
  const details = {
    ...(reasoning !== null && { reasoning_tokens: reasoning }),
    ...(prediction !== null && {
      accepted_prediction_tokens: prediction.accepted,
      rejected_prediction_tokens: prediction.rejected,
    }),
  };
  return {
    prompt_tokens: prompt,
    total_tokens: prompt + completion,
    completion_tokens: completion,
    prompt_tokens_details: { cached_tokens: cached },
    ...(Object.keys(details).length > 0 && { completion_tokens_details: details }),
  };
}
