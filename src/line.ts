// A line in front of a few places: whoever came first is admitted first.

/** To be called when the place is given up; further calls do nothing. */
export type Release = () => void;

export function once(release: Release): Release {
  let released = false;
  return () => {
    if (released) return;
    released = true;
    release();
  };
}

export class Line {
  #free: number;
  /** Each admits the one who waits. */
  readonly #waiting: (() => void)[] = [];

  constructor(places: number) {
    this.#free = places;
  }

  get isWaitedFor(): boolean {
    return this.#waiting.length > 0;
  }

  /** Waits for a place. Rejects with the signal's reason, and then holds nothing. */
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
