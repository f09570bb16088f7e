import { realpathSync } from "node:fs";
import { relative, sep } from "node:path";
import { setTimeout } from "node:timers/promises";
import {
  ClosedError,
  InsufficientMemoryError,
  NotFoundError,
  UnavailableError,
  ValidationError,
} from "../../errors.js";
import { openRuntime, pipelinesOf, restorePipelines } from "../../runtime/runtime.js";
import { once } from "../../semaphore.js";
import { isKept } from "../../store/homeFolder.js";
import { readPipelines, writePipelines } from "../../store/pipelineCache.js";
import type { ModelRecord } from "../../store/records.js";
import { openStore } from "../../store/store.js";
import { loadAdapter } from "../../training/checkpointFiles.js";
import { resolveAdapterFolder, resolveNewFolder } from "../../training/dataLocation.js";
import type { TrainingHost } from "../../training/host.js";
import { JobRunner } from "../../training/jobRunner.js";
import { Trainers } from "../../training/trainers.js";
import type { ModelOptions } from "../../types/options.js";
import { fileRights, readerOf } from "./access.js";
import { AdapterCache } from "./adapterCache.js";
import { type BaseModel, closeBaseModel, loadBaseModel, TRAINING_MEMORY_KEPT_MS } from "./baseModel.js";
import { checkWeights, rereadWeights } from "./checkWeights.js";
import { chooseDevice, MEMORY_SHARE } from "./chooseDevice.js";
import type { EngineCore } from "./core.js";
import { diagnostics } from "./diagnostics.js";
import { GrammarCache } from "./grammarCache.js";
import { LoadedModels } from "./loadedModels.js";
import { InferenceMetrics } from "./metrics.js";
import { embeddedModel, type ResolvedOptions } from "./options.js";
import type { RemoteEngine } from "./remoteBase.js";
import { SavedModels } from "./savedModels.js";
import { loadEncoder, type ServedEncoder } from "./servedEncoder.js";

/** Of the memory available when a job's steps begin, what the activations of all jobs may take. */
const activationShare = 0.5;
/** Of the memory that the models leave, what adapters that nobody uses may take. */
const IDLE_ADAPTER_SHARE = 1 / 8;
/** How long an engine that closes waits for what is being written into its home, such as a body that comes slowly. */
const MOST_WRITING_MS = 5000;

/** Builds everything an engine consists of; on failure nothing is left open. `options.home` is canonical. */
export async function openCore(
  options: ResolvedOptions,
  remote: RemoteEngine | null = null,
): Promise<{ core: EngineCore; shutDown: () => Promise<void> }> {
  const store = openStore(options.home);
  const loaded = new LoadedModels();
  const bases = loaded.served;
  const encoders = new Map<string, ServedEncoder>();
  const closing = new AbortController();
  try {
    const twice = (id: string, index: number) => {
      const msg = `two models have the id "${id}"; give one of them an id of its own`;
      return new ValidationError([{ loc: ["options", "models", String(index)], msg, type: "value_error" }]);
    };
    const others: [index: number, model: ModelOptions][] = [];
    let encoderBytes = 0;
    for (const [index, model] of options.models.entries()) {
      const served = remote ? null : await loadEncoder(model, options);
      if (served === null) {
        others.push([index, model]);
        continue;
      }
      if (encoders.has(served.id)) {
        served.encoder.close();
        throw twice(served.id, index);
      }
      encoders.set(served.id, served);
      encoderBytes += served.encoder.folder.bytes;
    }
    // Something must chat where nothing is said of a model.
    if (others.length === 0) others.push([options.models.length, embeddedModel]);
    const models = others.map(([, model]) => model);
    const device = remote ? "cpu" : await chooseDevice(options, models);
    const hasPipelines = device !== "cpu" && options.home !== null;
    const known = hasPipelines ? readPipelines(store.home, device) : null;
    if (known) restorePipelines(device, known);
    const runtime = openRuntime({
      threads: options.threads,
      device,
      gpuLayers: options.gpuLayers,
      precision: options.precision,
    });
    const total = (options.memoryLimit ?? runtime.availableMemory() * MEMORY_SHARE) - encoderBytes;
    let budget = total;
    for (const [place, [index, model]] of others.entries()) {
      // What is left is shared by the models still to come, so that the first does not take every page.
      const share = budget / (others.length - place);
      const base = remote
        ? await (await import("./remoteBase.js")).loadRemoteBase(remote, model, options)
        : await loadBaseModel(
            runtime,
            model,
            options,
            { total: budget, share },
            options.verify ? undefined : store.baseWeights.lastRead,
          );
      if (bases.has(base.id) || encoders.has(base.id)) {
        await closeBaseModel(base);
        throw twice(base.id, index);
      }
      bases.set(base.id, base);
      checkWeights(store, base, options);
      budget -= base.device.bytes;
    }

    const savedModels = new SavedModels(store, runtime, loaded, options);
    const defaultBase = [...bases.values()][0]!;
    if (!remote) await savedModels.serveAll(defaultBase.device.pages);
    const adapters = new AdapterCache(
      { maxIdle: options.maxIdleAdapters, maxIdleBytes: (total - loaded.bytes) * IDLE_ADAPTER_SHARE },
      (bytes) => loaded.hold(bytes),
      (base, modelId, step) => loadAdapter(base, store.files.checkpointFolder(modelId, step), "checkpoint"),
    );
    const baseOf = (model: ModelRecord): BaseModel => {
      const base = bases.get(model.baseModel);
      if (base) return base;
      throw new UnavailableError(`the base model "${model.baseModel}" of ${model.name} is not served now`, {
        code: "base_model_missing",
        param: "model",
        hint: "open the engine with that model among `models`",
      });
    };
    /** Bytes of adapters in training. */
    let inTraining = 0;
    const holdAdapter = (bytes: number) => {
      // Jobs beside each other do not refuse one another.
      const available = (options.memoryLimit ?? Number.POSITIVE_INFINITY) - (loaded.bytes - inTraining);
      if (bytes > available) throw new InsufficientMemoryError("training the adapter", bytes, available, "adapter");
      const release = loaded.hold(bytes);
      inTraining += bytes;
      return once(() => {
        release();
        inTraining -= bytes;
      });
    };
    const trainers = new Trainers(holdAdapter, TRAINING_MEMORY_KEPT_MS);
    const trainingHost: TrainingHost = {
      store,
      options: {
        optimizerStep: options.optimizerStep,
        optimizer: options.optimizer,
        maxTrainingJobs: options.maxTrainingJobs,
        allowedHosts: options.allowedHosts,
      },
      logger: options.logger,
      fileRights: (reader) => fileRights(reader, store.home, options.dataRoots),
      async base(modelId) {
        const model = store.models.get(modelId);
        if (!model) throw new NotFoundError(`model ${modelId} has been deleted`, { code: "model_not_found" });
        return baseOf(model);
      },
      trainers,
      activationMemory() {
        const allowed = (options.memoryLimit ?? Number.POSITIVE_INFINITY) - loaded.bytes;
        return Math.min(allowed, runtime.availableMemory() * activationShare) / options.maxTrainingJobs;
      },
      publishCheckpoint(modelId, step, version) {
        const model = store.models.get(modelId);
        if (model) adapters.put(baseOf(model), modelId, step, version);
        diagnostics.checkpoint.publish({ modelId, step });
      },
    };
    const metrics = new InferenceMetrics();
    let isShut = false;
    const core: EngineCore = {
      options,
      get store() {
        if (isShut) throw new ClosedError("the engine has been closed");
        return store;
      },
      runtime,
      bases,
      defaultBase,
      encoders,
      loaded,
      savedModels,
      adapters,
      runner: new JobRunner(trainingHost),
      trainingHost,
      owner: { entity: options.entity, owner: true },
      ownerKey: options.apiKey ?? store.ownerKey(),
      metrics,
      grammars: new GrammarCache(),
      closing: closing.signal,
      baseOf,
      newFolder(view, field, path) {
        const rights = trainingHost.fileRights(readerOf(view));
        const refuse = (message: string) => ValidationError.at(field, message);
        const folder = resolveNewFolder(path, rights, refuse);
        if (isKept(relative(realpathSync(store.home), folder).split(sep)[0]!))
          throw refuse("lies in what the engine keeps");
        return folder;
      },
      adapterFolder(view, field, path) {
        const rights = trainingHost.fileRights(readerOf(view));
        return resolveAdapterFolder(path, rights, (message) => ValidationError.at(field, message));
      },
    };
    const { quarantined, restored } = store.swept;
    if (quarantined.length > 0) {
      options.logger.warn("folders that the home's database does not know were moved to its quarantine", {
        home: options.home,
        folders: quarantined,
      });
    }
    if (restored.length > 0) {
      options.logger.warn("folders came back from quarantine", { home: options.home, folders: restored });
    }
    core.runner.start();
    for (const base of bases.values()) rereadWeights(store, base, options.logger, closing.signal);
    diagnostics.engineOpen.publish({ home: options.home });
    options.logger.info("engine opened", { home: options.home, models: [...bases.keys()] });

    const shutDown = async () => {
      if (closing.signal.aborted) return;
      closing.abort(new ClosedError("the engine has been closed"));
      try {
        await core.runner.close();
        trainers.close();
        if (hasPipelines) keepPipelines(store.home, device, options);
        await loaded.close();
        for (const { encoder } of encoders.values()) encoder.close();
        // What is being written would else be swept away, or take the place of something, under whoever opens the home next.
        await Promise.race([store.files.close(), setTimeout(MOST_WRITING_MS, undefined, { ref: false })]);
      } finally {
        isShut = true;
        store.close();
      }
      diagnostics.engineClose.publish({ home: options.home });
      options.logger.info("engine closed", { home: options.home });
    };
    return { core, shutDown };
  } catch (error) {
    for (const { encoder } of encoders.values()) encoder.close();
    await loaded.close();
    remote?.server.close();
    store.close();
    throw error;
  }
}

/** Only saves time later, so that no failure of it is one of the engine. */
function keepPipelines(home: string, device: string, { logger }: ResolvedOptions): void {
  try {
    writePipelines(home, device, pipelinesOf(device));
  } catch (error) {
    logger.warn("what the GPU's driver made of shaders was not kept", { home, device, error });
  }
}
