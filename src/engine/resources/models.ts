import { randomUUID } from "node:crypto";
import { ConflictError, NotFoundError, ValidationError } from "../../errors.js";
import { shouldYield, yieldToEventLoop } from "../../eventLoop.js";
import { makePage, PagePromise } from "../../pages.js";
import { validate, validateAsync } from "../../schemas/validate.js";
import { Semaphore } from "../../semaphore.js";
import type { ModelRecord, Slice } from "../../store/records.js";
import type { LoggedGroupRecord } from "../../store/trajectories.js";
import { writeInitialCheckpoint } from "../../training/checkpointFiles.js";
import { describeCheckpoint } from "../../training/describeCheckpoint.js";
import { type GroupSource, groupsInFile } from "../../training/groupSource.js";
import { optimizersOf } from "../../training/host.js";
import { checkMetricNames } from "../../training/logMetrics.js";
import type { OptimizerSettings } from "../../training/optimizer.js";
import { recordGroupsAsync } from "../../training/recordGroups.js";
import type { ModelsResource, PageRequest, RequestOptions } from "../../types/client.js";
import type { ModelInspection } from "../../types/inspection.js";
import type {
  AdapterTarget,
  Checkpoint,
  MetricRow,
  Model,
  ModelCreateParams,
  ModelDeleted,
  ModelEntry,
  ModelEntryList,
  ModelExported,
  ModelExportParams,
  ModelImportParams,
  ModelOptimizer,
} from "../../types/models.js";
import type { Page } from "../../types/page.js";
import type { ModelPublished, ModelPublishParams } from "../../types/publish.js";
import type { MetricQuery, TrajectoryQuery } from "../../types/queries.js";
import type { LoggedGroup, LogParams, LogResult, TrajectoryGroup } from "../../types/trajectories.js";
import { readAdapterSpec } from "../../weights/index.js";
import { withoutNull } from "../../withoutAbsent.js";
import { accessModel, checkEntity, stepNotFound, type View, whileThere } from "../core/access.js";
import type { BaseModel } from "../core/baseModel.js";
import type { EngineCore } from "../core/core.js";
import { diagnostics } from "../core/diagnostics.js";
import { servedName } from "../core/modelNames.js";
import { withGroupsBody } from "./groupsBody.js";
import { describeGroup, groupIdPrefix, groupsPageText, readGroup } from "./loggedGroups.js";
import { RemoteStates } from "./remoteStates.js";

/** Of new models, written at once: however many are asked for together, other work has its turn. */
const folders = new Semaphore(4);

const rowIdPrefix = "row-";

async function describeModel({ store, options }: EngineCore, record: ModelRecord): Promise<Model> {
  const { id, entity, project, name, baseModel, runId } = record;
  const step = store.checkpoints.latest(id)?.step ?? 0;
  const adapter = await readAdapterSpec(store.files.checkpointFolder(id, step)).catch(() => null);
  const shown = ({ weightDecay, maxGradNorm, ...others }: OptimizerSettings) => ({
    ...others,
    weight_decay: weightDecay,
    max_grad_norm: maxGradNorm,
  });
  const { rl, sft } = optimizersOf({ store, options }, id);
  return {
    id,
    entity,
    project,
    name,
    base_model: baseModel,
    run_id: runId,
    ...(adapter && {
      adapter: { rank: adapter.rank, alpha: adapter.alpha, targets: adapter.targets as AdapterTarget[] },
    }),
    optimizer: { rl: shown(rl), sft: shown(sft) },
  };
}

/** What a model's own row keeps of them; null: it has none. */
function optimizerSettings({ optimizer }: Pick<ModelCreateParams, "optimizer">): unknown {
  const own = Object.entries(withoutNull(optimizer)).map(([objective, settings]) => {
    const { weight_decay: weightDecay, max_grad_norm: maxGradNorm, ...others } = settings as ModelOptimizer;
    return [objective, withoutNull({ ...others, weightDecay, maxGradNorm })];
  });
  return own.length === 0 ? null : Object.fromEntries(own);
}

export class Models implements ModelsResource {
  readonly #core: EngineCore;
  readonly #view: View;

  /** @internal */
  constructor(core: EngineCore, view: View) {
    this.#core = core;
    this.#view = view;
  }

  async create(params: ModelCreateParams, options?: RequestOptions): Promise<Model> {
    const { modelCreate } = await import("../../schemas/models.js");
    const checked = validate(modelCreate, params, { strict: this.#view.strict });
    const adapter = { ...this.#core.options.adapter, ...withoutNull(checked.adapter) };
    return this.#register(checked, options, (base, folder) => writeInitialCheckpoint(base, folder, adapter));
  }

  async import(params: ModelImportParams, options?: RequestOptions): Promise<Model> {
    const { modelImport } = await import("../../schemas/models.js");
    const { path, ...checked } = validate(modelImport, params, { strict: this.#view.strict });
    const source = this.#core.adapterFolder(this.#view, "path", path);
    const { importAdapter } = await import("./modelFolders.js");
    return this.#register(checked, options, (base, folder) => importAdapter(base, source, folder));
  }

  /** The folder of step 0 is there before the model is: whoever sees the model can use it. */
  async #register(
    params: Omit<ModelCreateParams, "adapter">,
    options: RequestOptions | undefined,
    writeStepZero: (base: BaseModel, folder: string) => Promise<void>,
  ): Promise<Model> {
    options?.signal?.throwIfAborted();
    const { store, bases, loaded } = this.#core;
    const { project, name, base_model } = params;
    const entity = params.entity ?? this.#view.caller.entity;
    checkEntity(this.#view.caller, entity);
    const taken = (): ModelRecord | null => {
      const existing = store.models.find(entity, project, name);
      if (!existing) return null;
      const full = `${entity}/${project}/${name}`;
      if (!params.return_existing) {
        throw new ConflictError(`the model ${full} exists already`, {
          code: "model_exists",
          param: "name",
          hint: "choose another name, or ask for it with return_existing",
        });
      }
      if (existing.baseModel !== base_model) {
        throw new ConflictError(`the model ${full} exists already, with base model "${existing.baseModel}"`, {
          code: "model_exists",
          param: "base_model",
        });
      }
      return existing;
    };
    // A name that is taken is a conflict whatever base model is named with it.
    const early = taken();
    const base = bases.get(base_model);
    if (!base) {
      const served = [...bases.keys()].map((id) => `"${id}"`).join(", ");
      throw ValidationError.at("base_model", `there is no base model "${base_model}" here; there is ${served}`);
    }
    if (early) return describeModel(this.#core, early);
    if (base.format === "onnx") {
      throw ValidationError.at("base_model", `"${base_model}" is an ONNX model, which is not trained`, "value_error", {
        code: "not_trainable",
        hint: "serve the Hugging Face folder that the ONNX folder was made from, and train that",
      });
    }

    const id = randomUUID();
    const unpin = loaded.pin(base);
    const release = await folders.acquire(options?.signal).catch((error: unknown) => {
      unpin();
      throw error;
    });
    let folder: string | null = null;
    let registered = false;
    try {
      folder = store.files.temporary();
      await writeStepZero(base, folder);
      await store.files.commitFolder(folder, store.files.checkpointFolder(id, 0));
      while (shouldYield()) await yieldToEventLoop();
      options?.signal?.throwIfAborted();
      // Somebody may have taken the name while the adapter was written.
      const late = taken();
      if (late) return await describeModel(this.#core, late);
      if (bases.get(base_model) !== base) {
        throw new ConflictError(
          `"${base_model}" does not stand any more for the weights that the model was to be made on`,
          {
            code: "base_model_changed",
            param: "base_model",
            hint: "try again",
          },
        );
      }
      const model = store.transaction(() => {
        const optimizer = optimizerSettings(params);
        const record = store.models.create({ id, entity, project, name, baseModel: base_model, optimizer });
        store.checkpoints.create({ modelId: id, step: 0 });
        return record;
      });
      registered = true;
      diagnostics.checkpoint.publish({ modelId: id, step: 0 });
      return await describeModel(this.#core, model);
    } finally {
      release();
      unpin();
      if (folder !== null) store.files.remove(folder);
      if (!registered) store.files.remove(store.files.modelFolder(id));
    }
  }

  async list(options?: RequestOptions): Promise<ModelEntryList> {
    options?.signal?.throwIfAborted();
    const { store, bases } = this.#core;
    const { caller } = this.#view;
    const entries: ModelEntry[] = [...bases.values()].map((base) => ({
      id: base.id,
      object: "model",
      created: base.created,
      owned_by: "anneal",
      root: base.id,
      parent: null,
      model_id: null,
      max_model_len: base.contextLength,
    }));
    for (const { id, created, encoder } of this.#core.encoders.values()) {
      const { maxTokens } = encoder.folder;
      entries.push({
        id,
        object: "model",
        created,
        owned_by: "anneal",
        root: id,
        parent: null,
        model_id: null,
        max_model_len: maxTokens,
      });
    }
    for (const model of store.models.list(caller.owner ? {} : { entity: caller.entity })) {
      const base = bases.get(model.baseModel);
      const latest = store.checkpoints.latest(model.id);
      if (!base || !latest) continue;
      entries.push({
        id: servedName(model),
        object: "model",
        created: Math.floor(model.createdAt / 1000),
        owned_by: model.entity,
        root: `${model.entity}/${model.project}/${model.name}:step${latest.step}`,
        parent: base.id,
        model_id: model.id,
        max_model_len: base.contextLength,
      });
    }
    return { object: "list", data: entries };
  }

  /** The entry of `list` with this id. */
  async entry(id: string): Promise<ModelEntry> {
    const entry = (await this.list()).data.find((candidate) => candidate.id === id);
    if (entry) return entry;
    throw new NotFoundError(`there is no model "${id}"`, { code: "model_not_found", param: "model" });
  }

  async retrieve(modelId: string, options?: RequestOptions): Promise<Model> {
    options?.signal?.throwIfAborted();
    return describeModel(this.#core, accessModel(this.#core.store, this.#view.caller, modelId));
  }

  /**
   * What a base model is and needs, and where its chat template rewrites earlier turns: of one that is served, by its id, or of
   * a folder or a model that was pulled from the hub.
   * @throws ModelFileError naming what is wrong with a folder.
   */
  async inspect(model: string, options?: RequestOptions): Promise<ModelInspection> {
    options?.signal?.throwIfAborted();
    const { inspectModel } = await import("../core/inspectModel.js");
    const served = this.#core.bases.get(model);
    const kvCache = served?.device.config.kvCache;
    const found = await inspectModel(served?.folder ?? model, { ...(kvCache && { kvCache }) });
    return served ? { ...found, id: served.id } : found;
  }

  async delete(modelId: string, options?: RequestOptions): Promise<ModelDeleted> {
    options?.signal?.throwIfAborted();
    const { store, runner, adapters } = this.#core;
    const known = accessModel(store, this.#view.caller, modelId);
    const remote = await RemoteStates.of(this.#core, known, store.checkpoints.steps(known.id));
    const model = accessModel(store, this.#view.caller, modelId);
    const folder = store.files.modelFolder(model.id);
    const remaining = store.deletion(() => {
      const steps = store.checkpoints.steps(model.id);
      // The model goes first, so that no job can be queued for it any more; its jobs' rows stay.
      store.models.delete(model.id);
      store.removedFolders.announce(folder);
      return steps;
    });
    await runner.cancelModel(model.id);
    adapters.forget(model.id);
    await remote?.discard([]);
    store.removedFolders.remove(folder);
    return { model_id: model.id, deleted_checkpoints: remaining.length, deleted_run: true };
  }

  async export(modelId: string, params: ModelExportParams, options?: RequestOptions): Promise<ModelExported> {
    options?.signal?.throwIfAborted();
    const core = this.#core;
    const { modelExport } = await import("../../schemas/models.js");
    const { path, step: given, ...asked } = validate(modelExport, params, { strict: this.#view.strict });
    const model = accessModel(core.store, this.#view.caller, modelId);
    const target = core.newFolder(this.#view, "path", path);
    const step = given ?? core.store.checkpoints.latest(model.id)!.step;
    if (!core.store.checkpoints.get(model.id, step)) throw stepNotFound(model, step);
    const checkpoint = core.store.files.checkpointFolder(model.id, step);
    const { exportCheckpoint } = await import("./modelFolders.js");
    const base = core.baseOf(model);
    // The name of saved weights means nothing to other programs, whatever it looks like.
    const base_model = asked.base_model ?? (core.store.savedModels.find(base.id) ? base.folder : null);
    const exporting = exportCheckpoint(checkpoint, target, base, { ...asked, base_model }, options?.signal);
    return { step, ...(await whileThere(core.store, model, step, exporting)) };
  }

  async publish(modelId: string, params: ModelPublishParams, options?: RequestOptions): Promise<ModelPublished> {
    const { publishCheckpoint } = await import("../../remote/publish.js");
    const [{ Chat }, { Checkpoints }] = await Promise.all([import("./chat.js"), import("./checkpoints.js")]);
    const chat = new Chat(this.#core, this.#view);
    const checkpoints = new Checkpoints(this.#core, this.#view);
    return publishCheckpoint({ models: this, checkpoints, chat }, modelId, params, options);
  }

  async rollback(modelId: string, step: number, options?: RequestOptions): Promise<Checkpoint> {
    options?.signal?.throwIfAborted();
    const { caller } = this.#view;
    const { modelRollback } = await import("../../schemas/models.js");
    const asked = validate(modelRollback, { step }, { strict: this.#view.strict });
    const model = accessModel(this.#core.store, caller, modelId);
    if (!this.#core.store.checkpoints.get(model.id, asked.step)) throw stepNotFound(model, asked.step);
    const { rollBack } = await import("./rollback.js");
    const made = await rollBack(this.#core, model, asked.step, options?.signal);
    return describeCheckpoint(this.#core.store.files, made, caller.owner);
  }

  async log(modelId: string, params: LogParams, options?: RequestOptions): Promise<LogResult> {
    options?.signal?.throwIfAborted();
    // Clients repeat the model's id in the body.
    const { trajectoryLog } = await import("../../schemas/trajectories.js");
    const request = await validateAsync(trajectoryLog, params, { strict: this.#view.strict });
    checkMetricNames(request.trajectory_groups);
    return this.#record(modelId, request, request.trajectory_groups);
  }

  /** @internal As `log`, for a JSON body of any size. */
  async logFromBody(modelId: string, body: AsyncIterable<Uint8Array>, options?: RequestOptions): Promise<LogResult> {
    const { trajectoryLog } = await import("../../schemas/trajectories.js");
    return withGroupsBody(this.#core.store.files, body, trajectoryLog, options?.signal, (request, file) =>
      this.#record(modelId, request, groupsInFile(file)),
    );
  }

  async #record(
    modelId: string,
    { split, step: given }: Omit<LogParams, "trajectory_groups">,
    groups: readonly TrajectoryGroup[] | GroupSource,
  ): Promise<LogResult> {
    const { store } = this.#core;
    const model = accessModel(store, this.#view.caller, modelId);
    const step = given ?? store.checkpoints.latest(model.id)?.step ?? 0;
    if (given != null && !store.checkpoints.get(model.id, given)) {
      throw stepNotFound(model, given);
    }
    return { step, metrics: await recordGroupsAsync(store, model.id, step, split, groups) };
  }

  trajectories(modelId: string, query: TrajectoryQuery = {}, options?: RequestOptions): PageRequest<LoggedGroup> {
    const page = async (after: string | null | undefined): Promise<Page<LoggedGroup>> => {
      options?.signal?.throwIfAborted();
      const { items, hasMore } = await this.#logged(modelId, { ...query, after });
      const groups: LoggedGroup[] = [];
      for (const item of items) {
        const { recorded_at, ...described } = describeGroup(item);
        const group = await readGroup(this.#core.store.trajectories.rows(item.position));
        groups.push({ ...described, group, recorded_at });
        options?.signal?.throwIfAborted();
      }
      return makePage(groups, hasMore, page);
    };
    return new PagePromise(() => page(query.after));
  }

  /** @internal The same page as JSON, in pieces, for groups of any size. */
  async trajectoriesText(modelId: string, query: TrajectoryQuery): Promise<Iterator<string>> {
    const { items, hasMore } = await this.#logged(modelId, query);
    return groupsPageText(items, hasMore, this.#core.store.trajectories.rows);
  }

  async #logged(modelId: string, query: TrajectoryQuery): Promise<Slice<LoggedGroupRecord>> {
    const { trajectoryQuery } = await import("../../schemas/pages.js");
    const asked = validate(trajectoryQuery, query, { from: "query", strict: this.#view.strict });
    const model = accessModel(this.#core.store, this.#view.caller, modelId);
    const after = asked.after == null ? null : Number(asked.after.slice(groupIdPrefix.length));
    return this.#core.store.trajectories.list(model.id, { ...asked, after });
  }

  metrics(modelId: string, query: MetricQuery = {}, options?: RequestOptions): PageRequest<MetricRow> {
    const page = async (after: string | null | undefined): Promise<Page<MetricRow>> => {
      options?.signal?.throwIfAborted();
      const { metricQuery } = await import("../../schemas/pages.js");
      const asked = validate(metricQuery, { ...query, after }, { from: "query", strict: this.#view.strict });
      const model = accessModel(this.#core.store, this.#view.caller, modelId);
      const position = asked.after == null ? null : Number(asked.after.slice(rowIdPrefix.length));
      const { items, hasMore } = this.#core.store.metrics.list(model.id, { ...asked, after: position });
      const rows = items.map(({ position, step, metrics, recordedAt }) => ({
        id: `${rowIdPrefix}${position}`,
        step,
        metrics,
        recorded_at: new Date(recordedAt).toISOString(),
      }));
      return makePage(rows, hasMore, page);
    };
    return new PagePromise(() => page(query.after));
  }
}
