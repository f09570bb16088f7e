// Who may train a model: one at a time, in the order of asking; models do not wait for each other.

import { Line, once, type Release } from "../line.js";

interface Place {
  line: Line;
  /** The session that holds it, if one does: unlike a job it may do so for ever. */
  session: string | null;
  /** How those who wait are told of a session that holds it. */
  waiting: Set<(session: string) => void>;
}

export interface Asking {
  /** Id of the session that asks; null: it is none. */
  session?: string | null;
  /** Called with every session that is waited for. */
  onWait?: (session: string) => void;
}

export class ModelQueue {
  /** Of the models whose place is held. */
  readonly #places = new Map<string, Place>();

  /** Waits for the model's place. Rejects with the signal's reason, and then holds nothing. */
  async acquire(modelId: string, signal?: AbortSignal, { session = null, onWait }: Asking = {}): Promise<Release> {
    signal?.throwIfAborted();
    const place = this.#places.get(modelId) ?? { line: new Line(1), session: null, waiting: new Set() };
    this.#places.set(modelId, place);
    const tell = (holder: string) => onWait?.(holder);
    if (place.session !== null) tell(place.session);
    place.waiting.add(tell);
    const release = await place.line.acquire(signal).finally(() => place.waiting.delete(tell));
    place.session = session;
    if (session !== null) for (const others of place.waiting) others(session);
    return once(() => {
      place.session = null;
      if (!place.line.isWaitedFor) this.#places.delete(modelId);
      release();
    });
  }
}
