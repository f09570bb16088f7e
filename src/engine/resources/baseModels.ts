import * as z from "zod";
import { ConflictError, NotFoundError, PermissionDeniedError } from "../../errors.js";
import { validate } from "../../schemas/validate.js";
import type { BaseModelsResource, RequestOptions } from "../../types/client.js";
import type { View } from "../core/access.js";
import type { EngineCore } from "../core/core.js";

const basePath = z.object({ base_model: z.string() });

export class BaseModels implements BaseModelsResource {
  readonly #core: EngineCore;
  readonly #view: View;

  /** @internal */
  constructor(core: EngineCore, view: View) {
    this.#core = core;
    this.#view = view;
  }

  async list(options?: RequestOptions): Promise<string[]> {
    options?.signal?.throwIfAborted();
    this.#core.closing.throwIfAborted();
    return [...this.#core.bases.keys()];
  }

  async delete(id: string, options?: RequestOptions): Promise<void> {
    options?.signal?.throwIfAborted();
    const { store, savedModels, loaded, runner } = this.#core;
    const param = "base_model";
    if (!this.#view.caller.owner) {
      throw new PermissionDeniedError("only the owner deletes base models", { param });
    }
    validate(basePath, { base_model: id }, { from: "path" });
    const saved = store.savedModels.find(id);
    if (!saved) throw new NotFoundError(`no weights are saved as "${id}"`, { code: "model_not_found", param });
    savedModels.checkUnused(id, param);
    if (runner.sessions().some(({ modelId }) => modelId === saved.modelId)) {
      const message = `a training session that may go on from "${id}" is open`;
      throw new ConflictError(message, { code: "model_in_use", param, hint: "close it first" });
    }
    if (loaded.served.get(id)?.folder === store.files.savedModelFolder(saved.id)) loaded.retire(id);
    store.baseWeights.forget(id);
    store.savedModels.remove(saved.id);
  }
}
