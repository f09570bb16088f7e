// The answer in chunks, as tokens come.

import type { Generation, GenerationEvent, TokensEvent } from "../../inference/index.js";
import type { ChatCompletionChunk, ChatCompletionChunkChoice, ChatCompletionDelta } from "../../types/chat.js";
import { type ChoiceStep, ChoiceWriters, usage } from "./choiceWriter.js";
import { OrderedStream } from "./orderedStream.js";
import type { PreparedChat } from "./preparedChat.js";

/** Chunks of a generation that is under way already. Leaving the iteration, even before its first chunk, aborts it. */
export class ChunkStream extends OrderedStream<ChatCompletionChunk> {
  private readonly events: AsyncIterator<GenerationEvent>;
  private readonly writers: ChoiceWriters;
  private unfinished: number;
  private completionTokens = 0;
  private cached = 0;

  constructor(
    private readonly chat: PreparedChat,
    private readonly generation: Generation,
  ) {
    super();
    this.events = generation[Symbol.asyncIterator]();
    this.writers = new ChoiceWriters(chat);
    this.unfinished = chat.n;
  }

  protected async fill(): Promise<void> {
    const { done, value } = await this.events.next();
    if (this.done) return;
    if (done) {
      this.done = true;
      if (this.chat.includeUsage) this.ready = [this.usageChunk()].values();
    } else if (value.type === "prompt") {
      this.cached = value.cachedTokens;
      this.ready = this.begin();
    } else {
      this.ready = [this.content(value)].values();
    }
  }

  protected async leave(): Promise<void> {
    await this.events.return?.();
  }

  /** A chunk with the role for every choice, then those with echoed text. */
  private *begin(): Generator<ChatCompletionChunk> {
    const { chat } = this;
    for (let index = 0; index < chat.n; index++) {
      const chunk = this.chunk(index, { role: chat.role, content: "" });
      chunk.prompt_token_ids = chat.returnTokenIds ? [...chat.generation.promptTokens] : null;
      yield chunk;
    }
    if (chat.echo === null) return;
    for (let index = 0; index < chat.n; index++) yield this.chunk(index, { content: chat.echo });
  }

  private content(event: TokensEvent): ChatCompletionChunk {
    const { chat } = this;
    const writer = this.writers.of(event.index);
    const step = writer.write(event);
    this.completionTokens += event.tokenIds.length;
    const chunk = this.chunk(event.index, deltaOf(step, chat.readsReply));
    const choice = chunk.choices[0]!;
    choice.logprobs = step.logprobs;
    choice.token_ids = step.tokenIds;
    if (step.finishReason !== null) {
      choice.finish_reason = step.finishReason;
      choice.stop_reason = step.stopReason;
      if (chat.samplingRecord !== null) choice.sampling_settings = chat.samplingRecord;
      this.writers.ended(event.index);
      this.unfinished--;
      if (this.unfinished === 0 && !chat.includeUsage) chunk.system_fingerprint = chat.fingerprint;
    }
    return chunk;
  }

  private chunk(index: number, delta: ChatCompletionDelta): ChatCompletionChunk {
    const choice: ChatCompletionChunkChoice = { index, delta, logprobs: null, finish_reason: null };
    const chunk = this.envelope([choice]);
    if (this.chat.continuousUsage) {
      const { tokens, reasoningTokens } = this.writers.of(index);
      chunk.usage = usage(this.chat.generation.promptTokens.length, tokens, this.cached, reasoningTokens);
    }
    return chunk;
  }

  private usageChunk(): ChatCompletionChunk {
    const chunk = this.envelope([]);
    const prompt = this.chat.generation.promptTokens.length;
    const { prediction } = this.generation.record;
    chunk.usage = usage(prompt, this.completionTokens, this.cached, this.writers.reasoningTokens, prediction);
    chunk.system_fingerprint = this.chat.fingerprint;
    return chunk;
  }

  private envelope(choices: ChatCompletionChunkChoice[]): ChatCompletionChunk {
    const { id, created, model } = this.chat;
    return { id, object: "chat.completion.chunk", created, model, choices };
  }
}

/**
 * Content of "" says that text is held back, or that there is none. A reply that is taken apart ends without: who reads
 * calls or thoughts would take it for an answer that begins.
 */
function deltaOf({ delta, finishReason }: ChoiceStep, readsReply: boolean): ChatCompletionDelta {
  const shown: ChatCompletionDelta = {};
  if (delta.reasoning !== "") shown.reasoning = delta.reasoning;
  if (delta.content !== "") shown.content = delta.content;
  if (delta.toolCalls.length > 0) shown.tool_calls = delta.toolCalls;
  const isEmptyEnd = readsReply && finishReason !== null;
  return Object.keys(shown).length > 0 || isEmptyEnd ? shown : { content: "" };
}
