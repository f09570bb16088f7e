// The answer in chunks, as tokens come.

import type { Generation, GenerationEvent, TokensEvent } from "../../inference/index.js";
import type { ChatCompletionChunk, ChatCompletionChunkChoice, ChatCompletionDelta } from "../../types/chat.js";
import { type ChoiceStep, ChoiceWriter, usage } from "./choiceWriter.js";
import type { PreparedChat } from "./preparedChat.js";

/** Chunks of a generation that is under way already. Leaving the iteration, even before its first chunk, aborts it. */
export class ChunkStream implements AsyncIterableIterator<ChatCompletionChunk> {
  private readonly events: AsyncIterator<GenerationEvent>;
  private readonly writers: ChoiceWriter[];
  private ready: ChatCompletionChunk[] = [];
  private unfinished: number;
  private cached = 0;
  private done = false;
  /** The last call of `next` that was made. */
  private latest: Promise<unknown> = Promise.resolve();

  constructor(
    private readonly chat: PreparedChat,
    generation: Generation,
  ) {
    this.events = generation[Symbol.asyncIterator]();
    this.writers = Array.from({ length: chat.n }, () => new ChoiceWriter(chat));
    this.unfinished = chat.n;
  }

  [Symbol.asyncIterator](): this {
    return this;
  }

  /** As with any async generator, calls need not wait for each other: every one gets a chunk of its own, in order. */
  next(): Promise<IteratorResult<ChatCompletionChunk>> {
    const result = this.latest.then(() => this.advance());
    this.latest = result.catch(() => undefined);
    return result;
  }

  private async advance(): Promise<IteratorResult<ChatCompletionChunk>> {
    for (;;) {
      const chunk = this.ready.shift();
      if (chunk !== undefined) return { done: false, value: chunk };
      if (this.done) return { done: true, value: undefined };
      const { done, value } = await this.nextEvent();
      if (this.done) return { done: true, value: undefined };
      if (done) {
        this.done = true;
        if (this.chat.includeUsage) this.ready.push(this.usageChunk());
      } else if (value.type === "prompt") {
        this.cached = value.cachedTokens;
        this.begin();
      } else {
        this.content(value);
      }
    }
  }

  async return(): Promise<IteratorResult<ChatCompletionChunk>> {
    this.done = true;
    this.ready = [];
    await this.events.return?.();
    return { done: true, value: undefined };
  }

  /** Nothing comes after an error. */
  private async nextEvent(): Promise<IteratorResult<GenerationEvent>> {
    try {
      return await this.events.next();
    } catch (error) {
      this.done = true;
      throw error;
    }
  }

  /** A chunk with the role for every choice, then those with echoed text. */
  private begin(): void {
    const { chat } = this;
    for (const index of this.writers.keys()) {
      const chunk = this.chunk(index, { role: chat.role, content: "" });
      chunk.prompt_token_ids = chat.returnTokenIds ? [...chat.generation.promptTokens] : null;
      this.ready.push(chunk);
    }
    if (chat.echo === null) return;
    for (const index of this.writers.keys()) this.ready.push(this.chunk(index, { content: chat.echo }));
  }

  private content(event: TokensEvent): void {
    const { chat } = this;
    const step = this.writers[event.index]!.write(event);
    const chunk = this.chunk(event.index, deltaOf(step, chat.readsReply));
    const choice = chunk.choices[0]!;
    choice.logprobs = step.logprobs;
    choice.token_ids = step.tokenIds;
    if (step.finishReason !== null) {
      choice.finish_reason = step.finishReason;
      choice.stop_reason = step.stopReason;
      if (chat.samplingRecord !== null) choice.sampling_settings = chat.samplingRecord;
      this.unfinished--;
      if (this.unfinished === 0 && !chat.includeUsage) chunk.system_fingerprint = chat.fingerprint;
    }
    this.ready.push(chunk);
  }

  private chunk(index: number, delta: ChatCompletionDelta): ChatCompletionChunk {
    const choice: ChatCompletionChunkChoice = { index, delta, logprobs: null, finish_reason: null };
    const chunk = this.envelope([choice]);
    if (this.chat.continuousUsage) {
      const prompt = this.chat.generation.promptTokens.length;
      chunk.usage = usage(prompt, this.writers[index]!.tokens, this.cached);
    }
    return chunk;
  }

  private usageChunk(): ChatCompletionChunk {
    const completion = this.writers.reduce((sum, writer) => sum + writer.tokens, 0);
    const chunk = this.envelope([]);
    chunk.usage = usage(this.chat.generation.promptTokens.length, completion, this.cached);
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
