// Who may train a model: one at a time, in the order of asking; models do not wait for each other.

import { Line, once, type Release } from "./line.js";

export class ModelQueue {
  /** Of the models whose place is held. */
  readonly #lines = new Map<string, Line>();

  /** Waits for the model's place. Rejects with the signal's reason, and then holds nothing. */
  async acquire(modelId: string, signal?: AbortSignal): Promise<Release> {
    signal?.throwIfAborted();
    const line = this.#lines.get(modelId) ?? new Line(1);
    this.#lines.set(modelId, line);
    const release = await line.acquire(signal);
    return once(() => {
      if (!line.isWaitedFor) this.#lines.delete(modelId);
      release();
    });
  }
}
