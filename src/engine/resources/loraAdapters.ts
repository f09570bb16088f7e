import { BadRequestError, NotFoundError, ValidationError } from "../../errors.js";
import { validate } from "../../schemas/validate.js";
import type { ModelRecord } from "../../store/records.js";
import type { LoraAdaptersResource, RequestOptions } from "../../types/client.js";
import type { LoraAdapterLoadParams, LoraAdapterUnloadParams } from "../../types/loraAdapters.js";
import type { View } from "../core/access.js";
import type { EngineCore } from "../core/core.js";
import { diagnostics } from "../core/diagnostics.js";
import { Models } from "./models.js";

/** The project of models that are made so: their names alone are what requests ask for. */
const PROJECT = "lora";

/** Adapters by name, as vLLM has them: each is a model of the project "lora", kept in the home. */
export class LoraAdapters implements LoraAdaptersResource {
  readonly #core: EngineCore;
  readonly #view: View;

  /** @internal */
  constructor(core: EngineCore, view: View) {
    this.#core = core;
    this.#view = view;
  }

  async load(params: LoraAdapterLoadParams, options?: RequestOptions): Promise<void> {
    const { loraAdapterLoad } = await import("../../schemas/loraAdapters.js");
    const { lora_name, lora_path, load_inplace, base_model_name } = validate(loraAdapterLoad, params, {
      strict: this.#view.strict,
    });
    const loaded = this.#find(lora_name);
    if (loaded !== null && !load_inplace) {
      throw new BadRequestError(`the adapter "${lora_name}" is loaded already`, {
        code: "model_exists",
        param: "lora_name",
        hint: "set load_inplace to replace it",
      });
    }
    const path = this.#folder(lora_path);
    if (loaded !== null) return this.#replace(loaded, path, options?.signal);
    const base_model = base_model_name ?? this.#core.defaultBase.id;
    if (!this.#core.bases.has(base_model)) {
      throw ValidationError.at("base_model_name", `there is no base model "${base_model}" here`);
    }
    const entity = this.#view.caller.entity;
    // Looked at as the application does: the path has been judged as the caller's.
    const models = new Models(this.#core, { caller: this.#view.caller, strict: true });
    await models.import({ entity, project: PROJECT, name: lora_name, base_model, path }, options);
  }

  async unload(params: LoraAdapterUnloadParams, options?: RequestOptions): Promise<void> {
    const { loraAdapterUnload } = await import("../../schemas/loraAdapters.js");
    const { lora_name } = validate(loraAdapterUnload, params, { strict: this.#view.strict });
    const model = this.#find(lora_name);
    if (model === null) throw adapterNotFound(lora_name);
    await new Models(this.#core, this.#view).delete(model.id, options);
  }

  #find(name: string): ModelRecord | null {
    return this.#core.store.models.find(this.#view.caller.entity, PROJECT, name);
  }

  /** Nothing is told of folders that the caller may not read, not even that they are there. */
  #folder(path: string): string {
    try {
      return this.#core.adapterFolder(this.#view, "lora_path", path);
    } catch (error) {
      if (!(error instanceof ValidationError)) throw error;
      throw new NotFoundError(`no adapter can be loaded from there: ${error.issues[0]!.msg}`, {
        code: "lora_path_not_found",
        param: "lora_path",
      });
    }
  }

  /** The folder's adapter as the model's next step. Waits for the model's jobs. */
  async #replace(model: ModelRecord, path: string, signal: AbortSignal | undefined): Promise<void> {
    const { store, runner } = this.#core;
    const { importAdapter } = await import("./modelFolders.js");
    const release = await runner.lease(model.id, signal);
    let temporary: string | null = null;
    try {
      temporary = store.files.temporary();
      const latest = store.checkpoints.latest(model.id);
      if (latest === null) throw adapterNotFound(model.name);
      const step = latest.step + 1;
      await importAdapter(this.#core.baseOf(model), path, temporary);
      await store.files.commitFolder(temporary, store.files.checkpointFolder(model.id, step));
      try {
        store.checkpoints.create({ modelId: model.id, step });
      } catch (error) {
        store.files.removeCheckpoint(model.id, step);
        throw error;
      }
      diagnostics.checkpoint.publish({ modelId: model.id, step });
    } finally {
      if (temporary !== null) store.files.remove(temporary);
      release();
    }
  }
}

function adapterNotFound(name: string): NotFoundError {
  return new NotFoundError(`no adapter "${name}" is loaded`, { code: "model_not_found", param: "lora_name" });
}
