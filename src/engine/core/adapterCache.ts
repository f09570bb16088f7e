import { once, type Release } from "../../semaphore.js";
import type { BaseModel } from "./baseModel.js";
import { diagnostics } from "./diagnostics.js";

class Entry {
  /** Id of the version on the device, once it has been loaded. */
  readonly version: Promise<number>;
  bytes = 0;
  /** Requests that pin it. */
  users = 0;
  /** Set once it may no longer be handed out; its version goes with its last user. */
  dropped = false;
  #unload: () => void = () => {};

  constructor(
    base: BaseModel,
    readonly modelId: string,
    version: number | Promise<number>,
    count: (bytes: number) => Release,
  ) {
    const loaded = (id: number) => {
      this.bytes = base.device.adapterBytes(id);
      const uncount = count(this.bytes);
      this.#unload = () => {
        uncount();
        base.device.releaseAdapter(id);
      };
      return id;
    };
    this.version = typeof version === "number" ? Promise.resolve(loaded(version)) : version.then(loaded);
  }

  drop(): void {
    this.dropped = true;
    if (this.users === 0) this.#unload();
  }

  leave(): void {
    this.users--;
    if (this.dropped && this.users === 0) this.#unload();
  }
}

export interface PinnedAdapter {
  /** Version id on the device. */
  version: number;
  /** To be called once, when the request has ended. */
  release(): void;
}

export interface AdapterLimits {
  /** Versions that are kept while nobody uses them. */
  maxIdle: number;
  /** Bytes that these may take; the one that was used last is kept all the same. */
  maxIdleBytes: number;
}

/**
 * Adapter versions on their devices, by model and step. A version that requests use stays, which lru-cache has no notion of;
 * of the others the most recently used are kept.
 */
export class AdapterCache {
  /** In order of last use. */
  readonly #entries = new Map<string, Entry>();
  readonly #limits: AdapterLimits;
  readonly #count: (bytes: number) => Release;
  readonly #load: (base: BaseModel, modelId: string, step: number) => Promise<number>;

  /** `load` puts a checkpoint's adapter on the device and returns its version; `count` counts the memory of one until it is released. */
  constructor(
    limits: AdapterLimits,
    count: (bytes: number) => Release,
    load: (base: BaseModel, modelId: string, step: number) => Promise<number>,
  ) {
    this.#limits = limits;
    this.#count = count;
    this.#load = load;
  }

  /** Pins a checkpoint's adapter, loading it if need be. Simultaneous calls share one load. */
  async acquire(base: BaseModel, modelId: string, step: number): Promise<PinnedAdapter> {
    const key = `${modelId}:${step}`;
    let entry = this.#entries.get(key);
    if (!entry) {
      entry = new Entry(base, modelId, this.#load(base, modelId, step), this.#count);
      diagnostics.adapterLoad.publish({ modelId, step });
    }
    this.#touch(key, entry);
    entry.users++;
    try {
      const version = await entry.version;
      const release = once(() => {
        entry.leave();
        this.#trim();
      });
      return { version, release };
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
    replaced?.drop();
    this.#touch(key, new Entry(base, modelId, version, this.#count));
    this.#trim();
  }

  /** Forgets a model's versions, of all steps or of some: requests under way keep theirs to their end. */
  forget(modelId: string, steps?: readonly number[]): void {
    for (const [key, entry] of [...this.#entries]) {
      if (entry.modelId !== modelId) continue;
      if (steps && !steps.some((step) => key === `${modelId}:${step}`)) continue;
      this.#entries.delete(key);
      entry.drop();
    }
  }

  get size(): number {
    return this.#entries.size;
  }

  #touch(key: string, entry: Entry): void {
    this.#entries.delete(key);
    this.#entries.set(key, entry);
  }

  #trim(): void {
    const idle = [...this.#entries].filter(([, { users }]) => users === 0);
    let bytes = idle.reduce((sum, [, entry]) => sum + entry.bytes, 0);
    for (const [place, [key, entry]] of idle.entries()) {
      const left = idle.length - place;
      if (left <= this.#limits.maxIdle && (left === 1 || bytes <= this.#limits.maxIdleBytes)) return;
      this.#entries.delete(key);
      entry.drop();
      bytes -= entry.bytes;
    }
  }
}
