import { once, type Release } from "../../semaphore.js";
import { type BaseModel, closeBaseModel } from "./baseModel.js";

/** The models in memory: those that names stand for, and others that are still at work. */
export class LoadedModels {
  /** By id, in the order in which they were first served. */
  readonly served = new Map<string, BaseModel>();
  /** Requests under way, by model. */
  readonly #users = new Map<BaseModel, number>();
  /** No name stands for them any more: closed when their last request ends. */
  readonly #replaced = new Set<BaseModel>();
  /** What others hold on the device, in bytes. */
  readonly #held = new Map<object, number>();

  /** Bytes of weights and pages, of adapters, and of what training all weights takes. */
  get bytes(): number {
    const models = [...this.served.values(), ...this.#replaced].reduce((sum, { device }) => sum + device.bytes, 0);
    return [...this.#held.values()].reduce((sum, bytes) => sum + bytes, models);
  }

  /** Counts memory that is no served model's. */
  hold(bytes: number): Release {
    const key = {};
    this.#held.set(key, bytes);
    return () => this.#held.delete(key);
  }

  /** Keeps a served model in memory for a request. */
  pin(base: BaseModel): Release {
    this.#users.set(base, (this.#users.get(base) ?? 0) + 1);
    return once(() => {
      const left = this.#users.get(base)! - 1;
      if (left > 0) {
        this.#users.set(base, left);
        return;
      }
      this.#users.delete(base);
      if (this.#replaced.delete(base)) void closeBaseModel(base);
    });
  }

  /** Its id stands for it from now on; requests that the one before has begun end with it. */
  serve(base: BaseModel): void {
    this.retire(base.id, () => this.served.set(base.id, base));
  }

  /** Its id stands for nothing from now on, or for what `replace` puts there. */
  retire(id: string, replace: () => void = () => this.served.delete(id)): void {
    const before = this.served.get(id);
    replace();
    if (!before) return;
    if (this.#users.has(before)) this.#replaced.add(before);
    else void closeBaseModel(before);
  }

  async close(): Promise<void> {
    await Promise.all([...this.served.values(), ...this.#replaced].map(closeBaseModel));
  }
}
