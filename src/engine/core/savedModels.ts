// Base models that training has made: kept in the home, served like those that the engine was opened with.

import { BadRequestError, ConflictError, InsufficientMemoryError } from "../../errors.js";
import { openRuntime, type Runtime } from "../../runtime/runtime.js";
import type { SavedModelRecord } from "../../store/savedModels.js";
import type { Store } from "../../store/store.js";
import { type BaseModel, closeBaseModel, loadBaseModel } from "./baseModel.js";
import type { LoadedModels } from "./loadedModels.js";
import { pagesOfContext } from "./memoryPlan.js";
import type { ResolvedOptions } from "./options.js";

/** Full contexts for which a session's own copy has pages. */
const CONTEXTS_OF_COPY = 8;

export class SavedModels {
  readonly #store: Store;
  readonly #runtime: Runtime;
  readonly #loaded: LoadedModels;
  readonly #options: ResolvedOptions;
  /** Ids of the models that the engine was opened with. */
  readonly #named: ReadonlySet<string>;

  constructor(store: Store, runtime: Runtime, loaded: LoadedModels, options: ResolvedOptions) {
    this.#store = store;
    this.#runtime = runtime;
    this.#loaded = loaded;
    this.#options = options;
    this.#named = new Set(loaded.served.keys());
  }

  /** Serves all that the home has. What cannot be served now is told in the log, and is no reason not to open. */
  async serveAll(pages: number): Promise<void> {
    for (const record of this.#store.savedModels.list()) {
      if (this.#named.has(record.name)) {
        const message = "saved weights are not served: their name is that of a model the engine was opened with";
        this.#options.logger.warn(message, { model: record.name });
        continue;
      }
      try {
        await this.serve(record, pages);
      } catch (error) {
        this.#options.logger.error("saved weights cannot be served", { model: record.name, error });
      }
    }
  }

  /**
   * By its name from now on, with as many KV pages if there is room. False: there is no memory for it, or other weights were saved
   * under its name meanwhile.
   */
  async serve(record: SavedModelRecord, pages: number): Promise<boolean> {
    const { files, baseWeights, savedModels } = this.#store;
    const isReplaced = () => savedModels.find(record.name)?.id !== record.id;
    const source = { path: files.savedModelFolder(record.id), id: record.name };
    let base: BaseModel;
    try {
      base = await loadBaseModel(this.#runtime, source, this.#options, { total: this.#available(), maxPages: pages });
    } catch (error) {
      if (isReplaced()) return false;
      if (!(error instanceof InsufficientMemoryError)) throw error;
      this.#options.logger.warn("no memory to serve saved weights", { model: record.name, error });
      return false;
    }
    if (isReplaced()) {
      await closeBaseModel(base);
      return false;
    }
    try {
      if (baseWeights.recordOnce(base.id, base.hash) !== base.hash) {
        throw new ConflictError(`the weights saved as "${base.id}" are not what was written`, {
          code: "weights_changed",
        });
      }
      this.#loaded.serve(base);
    } catch (error) {
      await closeBaseModel(base);
      throw error;
    }
    return true;
  }

  /**
   * A model on the device for one session; one whose weights are trained is always the processor's.
   * @throws InsufficientMemoryError before memory is taken.
   */
  async loadCopy(
    of: BaseModel,
    folder: string,
    use: "training" | "reference",
  ): Promise<{ base: BaseModel; close(): Promise<void> }> {
    if (of.format === "remote") {
      throw new BadRequestError(
        `all weights of ${of.id} cannot be trained: a server computes it that trains adapters only`,
        {
          code: "remote_unsupported",
          param: "weights",
        },
      );
    }
    const { config, dtype } = of.device;
    // The processor trains all weights, with the bits that it samples with where it does that, too.
    const runtime = use === "training" && this.#runtime.device !== "cpu" ? openRuntime() : this.#runtime;
    const needs = runtime.memory(config, dtype);
    const perContext = pagesOfContext(needs, of.contextLength, this.#options.tokenBudget);
    // What is compared with only, generates nothing.
    const kvPages = use === "training" ? Math.min(of.device.pages, CONTEXTS_OF_COPY * perContext) : 1;
    const states = of.device.recurrentStates * needs.recurrentState;
    const needed = needs.weights + kvPages * needs.page + states + (use === "training" ? needs.weightTraining : 0);
    const available = this.#available(runtime);
    if (needed > available) {
      const what = use === "training" ? `training all weights of ${of.id}` : `the weights to compare ${of.id} with`;
      throw new InsufficientMemoryError(what, needed, available, "models");
    }
    const release = this.#isOwn(runtime) ? this.#loaded.hold(needed) : () => {};
    try {
      const source = { path: folder, id: of.id, dtype, kvCache: config.kvCache ?? "exact", kvPages };
      const base = await loadBaseModel(runtime, source, this.#options, { total: available });
      const close = () => closeBaseModel(base).finally(release);
      return { base, close };
    } catch (error) {
      release();
      throw error;
    }
  }

  /** @throws ConflictError when the name must not stand for other weights than now. */
  checkName(name: string): void {
    if (this.#named.has(name)) {
      const message = `"${name}" is a model that the engine was opened with`;
      throw new ConflictError(message, { code: "model_exists", param: "name", hint: "choose another name" });
    }
    this.checkUnused(name, "name");
  }

  /** @throws ConflictError when models were made on the weights that the name stands for. */
  checkUnused(name: string, param: string): void {
    const user = this.#store.models.list().find(({ baseModel }) => baseModel === name);
    if (!user) return;
    const model = `${user.entity}/${user.project}/${user.name}`;
    const message = `${model} was made on the weights saved as "${name}", which must stay as they are`;
    throw new ConflictError(message, {
      code: "model_in_use",
      param,
      hint: "save under another name, or delete that model",
    });
  }

  /** Whether its memory is what the engine's models lie in. */
  #isOwn(runtime: Runtime): boolean {
    return runtime.device === this.#runtime.device;
  }

  #available(runtime = this.#runtime): number {
    const taken = this.#isOwn(runtime) ? this.#loaded.bytes : 0;
    return Math.min((this.#options.memoryLimit ?? Number.POSITIVE_INFINITY) - taken, runtime.availableMemory());
  }
}
