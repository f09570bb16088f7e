// Events between the loop and one reader: what the reader has not fetched yet gathers in one event per choice.

import type { GenerationEvent } from "./request.js";

export class EventQueue implements AsyncIterator<GenerationEvent> {
  private readonly events: GenerationEvent[] = [];
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
    if (event.type === "tokens" && this.merge(event)) return;
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
    this.events.length = 0;
    if (this.waiting === null) return;
    const { reject } = this.waiting;
    this.waiting = null;
    reject(error);
  }

  next(): Promise<IteratorResult<GenerationEvent>> {
    const event = this.events.shift();
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
    this.events.length = 0;
    if (this.ended === null) {
      this.ended = "done";
      this.onReturn();
    }
    this.ended = "done";
    return Promise.resolve({ done: true, value: undefined });
  }

  /** Appends to an unread event of the same choice. */
  private merge(event: Extract<GenerationEvent, { type: "tokens" }>): boolean {
    const unread = this.events.find((other) => other.type === "tokens" && other.index === event.index);
    if (unread === undefined || unread.type !== "tokens") return false;
    unread.text += event.text;
    unread.tokenIds.push(...event.tokenIds);
    if (event.logprobs !== null) unread.logprobs!.push(...event.logprobs);
    if (event.top !== null) unread.top!.push(...event.top);
    unread.finish = event.finish;
    return true;
  }
}
