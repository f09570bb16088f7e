import type { BaseModelsResource, RequestOptions } from "../../types/client.js";
import type { EngineCore } from "../core/core.js";

export class BaseModels implements BaseModelsResource {
  readonly #core: EngineCore;

  /** @internal */
  constructor(core: EngineCore) {
    this.#core = core;
  }

  async list(options?: RequestOptions): Promise<string[]> {
    options?.signal?.throwIfAborted();
    return [...this.#core.bases.keys()];
  }
}
