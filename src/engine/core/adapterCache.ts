import type { BaseModel } from "./baseModel.js";
import { diagnostics } from "./diagnostics.js";

interface Entry {
  base: BaseModel;
  modelId: string;
  version: Promise<number>;
  /** Requests that pin it. */
  users: number;
  /** Set once it may no longer be handed out; its version goes with its last user. */
  dropped: boolean;
}

export interface PinnedAdapter {
  /** Version id on the device. */
  version: number;
  /** To be called once, when the request has ended. */
  release(): void;
}

/**
 * Adapter versions on their devices, by model and step. A version that requests use stays, which lru-cache has no notion of;
 * of the others the most recently used are kept.
 */
export class AdapterCache {
  /** In order of last use. */
  readonly #entries = new Map<string, Entry>();
  readonly #maxIdle: number;
  readonly #load: (base: BaseModel, modelId: string, step: number) => Promise<number>;

  /** `load` puts a checkpoint's adapter on the device and returns its version. */
  constructor(maxIdle: number, load: (base: BaseModel, modelId: string, step: number) => Promise<number>) {
    this.#maxIdle = maxIdle;
    this.#load = load;
  }

  /** Pins a checkpoint's adapter, loading it if need be. Simultaneous calls share one load. */
  async acquire(base: BaseModel, modelId: string, step: number): Promise<PinnedAdapter> {
    const key = `${modelId}:${step}`;
    let entry = this.#entries.get(key);
    if (!entry) {
      entry = { base, modelId, version: this.#load(base, modelId, step), users: 0, dropped: false };
      diagnostics.adapterLoad.publish({ modelId, step });
    }
    this.#touch(key, entry);
    entry.users++;
    try {
      const version = await entry.version;
      let released = false;
      return {
        version,
        release: () => {
          if (released) return;
          released = true;
          this.#release(entry);
        },
      };
    } catch (error) {
      if (this.#entries.get(key) === entry) this.#entries.delete(key);
      throw error;
    }
  }

  /** Takes over a version that a trainer has published for a checkpoint. */
  put(base: BaseModel, modelId: string, step: number, version: number): void {
    const key = `${modelId}:${step}`;
    const replaced = this.#entries.get(key);
    this.#entries.delete(key);
    if (replaced) this.#drop(replaced);
    this.#touch(key, { base, modelId, version: Promise.resolve(version), users: 0, dropped: false });
    this.#trim();
  }

  /** Forgets a model's versions, of all steps or of some: requests under way keep theirs to their end. */
  forget(modelId: string, steps?: readonly number[]): void {
    for (const [key, entry] of [...this.#entries]) {
      if (entry.modelId !== modelId) continue;
      if (steps && !steps.some((step) => key === `${modelId}:${step}`)) continue;
      this.#entries.delete(key);
      this.#drop(entry);
    }
  }

  get size(): number {
    return this.#entries.size;
  }

  #touch(key: string, entry: Entry): void {
    this.#entries.delete(key);
    this.#entries.set(key, entry);
  }

  #release(entry: Entry): void {
    entry.users--;
    if (entry.dropped && entry.users === 0) this.#unload(entry);
    else this.#trim();
  }

  #drop(entry: Entry): void {
    entry.dropped = true;
    if (entry.users === 0) this.#unload(entry);
  }

  #unload(entry: Entry): void {
    entry.version.then(
      (version) => entry.base.device.releaseAdapter(version),
      () => undefined,
    );
  }

  #trim(): void {
    let idle = [...this.#entries.values()].filter((entry) => entry.users === 0).length;
    for (const [key, entry] of [...this.#entries]) {
      if (idle <= this.#maxIdle) return;
      if (entry.users > 0) continue;
      this.#entries.delete(key);
      this.#drop(entry);
      idle--;
    }
  }
}
