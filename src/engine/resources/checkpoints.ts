import { ValidationError } from "../../errors.js";
import { shouldYield, yieldToEventLoop } from "../../eventLoop.js";
import { makePage, PagePromise } from "../../pages.js";
import { validate, validateAsync } from "../../schemas/validate.js";
import { describeCheckpoint } from "../../training/describeCheckpoint.js";
import type { CheckpointsResource, PageRequest, RequestOptions } from "../../types/client.js";
import type { Checkpoint, CheckpointsDeleted } from "../../types/models.js";
import type { Page } from "../../types/page.js";
import type { OrderedPageQuery } from "../../types/queries.js";
import { accessModel, type View } from "../core/access.js";
import type { EngineCore } from "../core/core.js";
import { RemoteStates } from "./remoteStates.js";

export class Checkpoints implements CheckpointsResource {
  readonly #core: EngineCore;
  readonly #view: View;

  /** @internal */
  constructor(core: EngineCore, view: View) {
    this.#core = core;
    this.#view = view;
  }

  list(modelId: string, query: OrderedPageQuery = {}, options?: RequestOptions): PageRequest<Checkpoint> {
    const page = async (after: string | null | undefined): Promise<Page<Checkpoint>> => {
      options?.signal?.throwIfAborted();
      const { orderedPageQuery } = await import("../../schemas/pages.js");
      const checked = validate(orderedPageQuery, { ...query, after }, { from: "query", strict: this.#view.strict });
      const model = accessModel(this.#core.store, this.#view.caller, modelId);
      const { store } = this.#core;
      const { caller } = this.#view;
      const { items, hasMore } = store.checkpoints.list(model.id, checked);
      const described = items.map((record) => describeCheckpoint(store.files, record, caller.owner));
      return makePage(await Promise.all(described), hasMore, page);
    };
    return new PagePromise(() => page(query.after));
  }

  async delete(modelId: string, params: { steps: number[] }, options?: RequestOptions): Promise<CheckpointsDeleted> {
    options?.signal?.throwIfAborted();
    const { store, adapters } = this.#core;
    const { checkpointsDelete } = await import("../../schemas/models.js");
    const { steps } = await validateAsync(checkpointsDelete, params, { strict: this.#view.strict });
    while (shouldYield()) await yieldToEventLoop();
    const remote = await RemoteStates.of(this.#core, accessModel(store, this.#view.caller, modelId), steps);
    const model = accessModel(store, this.#view.caller, modelId);
    const latest = store.checkpoints.latest(model.id)?.step;
    const at = latest === undefined ? -1 : steps.indexOf(latest);
    if (at >= 0) {
      throw ValidationError.at(`steps.${at}`, `step ${latest} is the model's latest and cannot be deleted`);
    }
    const folderOf = (step: number) => store.files.checkpointFolder(model.id, step);
    const deleted = store.deletion(() => {
      const deleted = store.checkpoints.delete(model.id, steps);
      for (const step of deleted) store.removedFolders.announce(folderOf(step));
      return deleted;
    });
    adapters.forget(model.id, deleted);
    await remote?.discard(store.checkpoints.steps(model.id));
    for (const step of deleted) store.removedFolders.remove(folderOf(step));
    const missing = [...new Set(steps)].filter((step) => !deleted.includes(step));
    return { deleted_count: deleted.length, not_found_steps: missing };
  }
}
