// Events between the loop and one reader: what the reader has not fetched yet gathers in one event per choice.

import type { GenerationEvent, TokensEvent } from "./request.js";

/** For one reader: a call of `next` must have resolved before the following one. */
export class EventQueue implements AsyncIterator<GenerationEvent> {
  private readonly events: GenerationEvent[] = [];
  /** Of each choice the event that waits to be read. */
  private readonly unread = new Map<number, TokensEvent>();
  private waiting: { resolve(result: IteratorResult<GenerationEvent>): void; reject(error: unknown): void } | null =
    null;
  private ended: { error: unknown } | "done" | null = null;

  /** `onReturn` is called when the reader leaves before the end. */
  constructor(private readonly onReturn: () => void) {}

  push(event: GenerationEvent): void {
    if (this.waiting !== null) {
      const { resolve } = this.waiting;
      this.waiting = null;
      resolve({ done: false, value: event });
      return;
    }
    if (event.type === "tokens") {
      if (this.merge(event)) return;
      this.unread.set(event.index, event);
    }
    this.events.push(event);
  }

  end(): void {
    this.ended ??= "done";
    if (this.waiting === null) return;
    const { resolve } = this.waiting;
    this.waiting = null;
    resolve({ done: true, value: undefined });
  }

  /** Unread events are dropped. */
  fail(error: unknown): void {
    if (this.ended !== null) return;
    this.ended = { error };
    this.drop();
    if (this.waiting === null) return;
    const { reject } = this.waiting;
    this.waiting = null;
    reject(error);
  }

  next(): Promise<IteratorResult<GenerationEvent>> {
    const event = this.events.shift();
    if (event?.type === "tokens") this.unread.delete(event.index);
    if (event !== undefined) return Promise.resolve({ done: false, value: event });
    if (this.ended === "done") return Promise.resolve({ done: true, value: undefined });
    if (this.ended !== null) {
      const { error } = this.ended;
      this.ended = "done";
      return Promise.reject(error);
    }
    return new Promise((resolve, reject) => {
      this.waiting = { resolve, reject };
    });
  }

  return(): Promise<IteratorResult<GenerationEvent>> {
    this.drop();
    const isEarly = this.ended === null;
    this.ended = "done";
    this.end();
    if (isEarly) this.onReturn();
    return Promise.resolve({ done: true, value: undefined });
  }

  /** Appends to an unread event of the same choice. */
  private merge(event: TokensEvent): boolean {
    const unread = this.unread.get(event.index);
    if (unread === undefined) return false;
    unread.text += event.text;
    for (const id of event.tokenIds) unread.tokenIds.push(id);
    for (const logprob of event.logprobs ?? []) unread.logprobs!.push(logprob);
    for (const logprob of event.temperatureLogprobs ?? []) unread.temperatureLogprobs!.push(logprob);
    for (const top of event.top ?? []) unread.top!.push(top);
    unread.finish = event.finish;
    return true;
  }

  private drop(): void {
    this.events.length = 0;
    this.unread.clear();
  }
}
