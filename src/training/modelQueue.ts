// Who may train a model: one at a time, in the order of asking; models do not wait for each other.

/** To be called once, when the place is given up. */
export type Release = () => void;

interface Waiting {
  admit(): void;
}

export class ModelQueue {
  /** First entry: whoever holds the place. */
  readonly #lines = new Map<string, Waiting[]>();

  /** Waits for the model's place. Rejects with the signal's reason, and then holds nothing. */
  acquire(modelId: string, signal?: AbortSignal): Promise<Release> {
    if (signal?.aborted) return Promise.reject(signal.reason);
    return new Promise((resolve, reject) => {
      const line = this.#lines.get(modelId) ?? [];
      this.#lines.set(modelId, line);
      const leave = () => {
        const wasFirst = line[0] === entry;
        line.splice(line.indexOf(entry), 1);
        if (line.length === 0) this.#lines.delete(modelId);
        else if (wasFirst) line[0]!.admit();
      };
      const giveUp = () => {
        leave();
        reject(signal!.reason);
      };
      let released = false;
      const release = () => {
        if (released) return;
        released = true;
        leave();
      };
      const entry: Waiting = {
        admit() {
          signal?.removeEventListener("abort", giveUp);
          resolve(release);
        },
      };
      line.push(entry);
      if (line.length === 1) entry.admit();
      else signal?.addEventListener("abort", giveUp, { once: true });
    });
  }
}
