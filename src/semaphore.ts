// A semaphore, first come first served. Its own because those of async-mutex and p-limit take no AbortSignal: who gives up
// waiting would stay in their queue.

/** Gives the permit back; further calls do nothing. */
export type Release = () => void;

export function once(release: Release): Release {
  let released = false;
  return () => {
    if (released) return;
    released = true;
    release();
  };
}

export class Semaphore {
  #free: number;
  /** Each admits the one who waits. */
  readonly #waiting: (() => void)[] = [];

  constructor(permits: number) {
    this.#free = permits;
  }

  get isWaitedFor(): boolean {
    return this.#waiting.length > 0;
  }

  /** Waits for a permit. Rejects with the signal's reason, and then holds nothing. */
  acquire(signal?: AbortSignal): Promise<Release> {
    if (signal?.aborted) return Promise.reject(signal.reason);
    return new Promise((resolve, reject) => {
      const release = once(() => {
        const next = this.#waiting.shift();
        if (next) next();
        else this.#free += 1;
      });
      if (this.#free > 0) {
        this.#free -= 1;
        resolve(release);
        return;
      }
      const giveUp = () => {
        this.#waiting.splice(this.#waiting.indexOf(admit), 1);
        reject(signal!.reason);
      };
      const admit = () => {
        signal?.removeEventListener("abort", giveUp);
        resolve(release);
      };
      this.#waiting.push(admit);
      signal?.addEventListener("abort", giveUp, { once: true });
    });
  }
}
