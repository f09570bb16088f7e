// Who may train a model: one at a time, in the order of asking; models do not wait for each other.

import { once, type Release, Semaphore } from "../semaphore.js";

interface Place {
  semaphore: Semaphore;
  /** The session that holds it, if one does: unlike a job it may do so for ever. */
  session: string | null;
  /** How those who wait are told of a session that holds it. */
  waiting: Set<(session: string) => void>;
}

export interface AcquireOptions {
  /** Id of the session that asks; null: it is none. */
  session?: string | null;
  /** Called with every session that is waited for. */
  onWait?: (session: string) => void;
}

export class ModelQueue {
  /** Of the models whose place is held. */
  readonly #places = new Map<string, Place>();

  /** Waits for the model's place. Rejects with the signal's reason, and then holds nothing. */
  async acquire(
    modelId: string,
    signal?: AbortSignal,
    { session = null, onWait }: AcquireOptions = {},
  ): Promise<Release> {
    signal?.throwIfAborted();
    const place = this.#places.get(modelId) ?? { semaphore: new Semaphore(1), session: null, waiting: new Set() };
    this.#places.set(modelId, place);
    const tell = (holder: string) => onWait?.(holder);
    if (place.session !== null) tell(place.session);
    place.waiting.add(tell);
    const release = await place.semaphore.acquire(signal).finally(() => place.waiting.delete(tell));
    place.session = session;
    if (session !== null) for (const others of place.waiting) others(session);
    return once(() => {
      place.session = null;
      if (!place.semaphore.isWaitedFor) this.#places.delete(modelId);
      release();
    });
  }
}
