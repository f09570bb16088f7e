// A session's own copy of a model, all of whose weights are trained, and saved as a base model.

import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { BadRequestError, ConflictError, ModelFileError } from "../errors.js";
import { throwingFileErrors } from "../fileErrors.js";
import type { StatePart, Trainer } from "../runtime/runtime.js";
import { type Checksums, folderChecksums, META_FILE, verifyChecksums, writeSummed } from "../store/checksums.js";
import type { SavedModelRecord } from "../store/savedModels.js";
import type { SavedWeights } from "../types/trainingSession.js";
import { targetsOf } from "../weights/adapterModules.js";
import { writeFloatFolder } from "../weights/floatFolder.js";
import { JsonFields } from "../weights/jsonFields.js";
import { writeMergedFolder } from "../weights/mergedFolder.js";
import { readSafetensors, safetensorsPieces, type TensorStream, tensorBytes } from "../weights/safetensors.js";
import { modelDeleted, whileModelIsThere } from "./adapterWeights.js";
import { DEFAULT_ADAPTER, readAdapter, shapesOf } from "./checkpointFiles.js";
import { folderBytes } from "./describeCheckpoint.js";
import { evaluateRows } from "./forwardBackward.js";
import type { TrainingHost } from "./host.js";
import type { Objective } from "./optimizer.js";
import { passLimits } from "./passLimits.js";
import { checkedSaving } from "./sessionInput.js";
import type { Complete, SessionWeights } from "./sessionWeights.js";
import type { TrainingBase } from "./trainingBase.js";

/** A base model with the folder that it was loaded from. */
export type FolderBase = TrainingBase & { readonly folder: string };

/** A model on the device that nobody else uses. */
export interface OwnCopy {
  readonly base: TrainingBase;
  readonly complete: Complete;
  close(): Promise<void>;
}

/** What the engine does for a session that trains all weights. */
export interface WeightsHost {
  baseOf(modelId: string): FolderBase;
  /**
   * Loads weights like those of `base` from a folder, to be trained or to be compared with.
   * @throws InsufficientMemoryError before memory is taken.
   */
  loadCopy(base: FolderBase, folder: string, use: "training" | "reference"): Promise<OwnCopy>;
  /** @throws ConflictError with code "model_exists" when `name` must not stand for other weights than now. */
  checkName(name: string): void;
  /** Serves saved weights by their name from now on. False: there is no memory for them now. */
  serve(saved: SavedModelRecord): Promise<boolean>;
}

const STATE_FOLDER = "training_state";
const PARTS: readonly StatePart[] = ["value", "moment1", "moment2"];
/** As sums name it, with slashes. */
const stateFile = (part: StatePart): string => `${STATE_FOLDER}/${part}.safetensors`;

/** `meta.json` of saved weights. */
interface SavedMeta {
  model_id: string;
  weight_type: string;
  kernel_set: string;
  kv_cache?: "int8";
  objective: Objective;
  /** Of the optimizer. */
  steps: number;
}

/**
 * Begins with the weights that were last saved of the model, and with their optimizer's state if it is of the same objective;
 * else with its base, the latest adapter added into it.
 * @throws InsufficientMemoryError before memory is taken; ModelFileError when files are damaged.
 */
export async function openFullWeights(
  host: TrainingHost,
  engine: WeightsHost,
  modelId: string,
  objective: Objective,
  signal?: AbortSignal,
): Promise<FullWeights> {
  const { files, savedModels } = host.store;
  const base = engine.baseOf(modelId);
  if (base.device.config.quantized) {
    throw new ConflictError(`the weights of ${base.id} are quantised: all of them cannot be trained, an adapter can`, {
      code: "weights_quantized",
      hint: "open the engine with the model as floats",
    });
  }
  if (base.device.config.layers.some(({ experts }) => experts)) {
    throw new BadRequestError(`${base.id} has experts: all of its weights cannot be trained, an adapter can`, {
      code: "experts_untrained",
      param: "weights",
    });
  }
  // Memory that is needed now.
  await host.trainers.drop();
  const saved = savedModels.latestOf(modelId);
  const start = saved
    ? { folder: files.savedModelFolder(saved.id), isTemporary: false }
    : await startFolder(host, base, modelId, signal);
  let copy: OwnCopy | null = null;
  try {
    copy = await engine.loadCopy(base, start.folder, "training");
    if (start.folder === base.folder && copy.base.hash !== base.hash) {
      throw new ModelFileError(base.folder, "its weights have changed since they were loaded", {
        code: "weights_changed",
        hint: "open the engine again",
      });
    }
    const trainer = await copy.base.device.trainWeights();
    const weights = new FullWeights(host, engine, { modelId, objective, base, copy, trainer, start });
    copy = null;
    try {
      if (saved) await restore(trainer, start.folder, objective);
      return weights;
    } catch (error) {
      await weights.close();
      throw error;
    }
  } catch (error) {
    await copy?.close();
    if (start.isTemporary) files.remove(start.folder);
    throw error;
  }
}

interface Start {
  folder: string;
  /** Whether it is the session's to remove. */
  isTemporary: boolean;
}

/** What the model answers as now, in a folder. */
async function startFolder(
  { store }: TrainingHost,
  base: FolderBase,
  modelId: string,
  signal: AbortSignal | undefined,
): Promise<Start> {
  const latest = store.checkpoints.latest(modelId);
  if (latest === null) throw modelDeleted(modelId);
  const reading = readAdapter(store.files.checkpointFolder(modelId, latest.step), base, "checkpoint");
  const adapter = await whileModelIsThere(store, modelId, reading);
  const isUntrained = [...adapter.tensors].every(
    ([name, { data }]) => !name.endsWith(".lora_B.weight") || data.every((value) => value === 0),
  );
  if (isUntrained) return { folder: base.folder, isTemporary: false };
  const folder = store.files.temporary();
  try {
    const dtype = base.device.dtype === "float32" ? ({ dtype: "float32" } as const) : {};
    await writeMergedFolder(folder, base.folder, adapter, { ...dtype, signal });
    return { folder, isTemporary: true };
  } catch (error) {
    store.files.remove(folder);
    throw error;
  }
}

/** Master weights and moments as they were saved; moments of another objective are left behind. */
async function restore(trainer: Trainer, folder: string, objective: Objective): Promise<void> {
  await verifyChecksums(folder, { named: PARTS.map(stateFile), known: true });
  const tensorsOf = async (part: StatePart) => (await readSafetensors(join(folder, stateFile(part)))).tensors;
  await trainer.write("value", await tensorsOf("value"));
  const meta = await JsonFields.read(join(folder, META_FILE));
  const steps = meta.number("steps", 0, Number.MAX_SAFE_INTEGER);
  if (meta.string("objective") !== objective || steps === 0) return;
  await trainer.write("moment1", await tensorsOf("moment1"));
  await trainer.write("moment2", await tensorsOf("moment2"), steps);
}

interface Opened {
  modelId: string;
  objective: Objective;
  /** That the model was made on. */
  base: FolderBase;
  copy: OwnCopy;
  trainer: Trainer;
  start: Start;
}

export class FullWeights implements SessionWeights<SavedWeights> {
  readonly base: TrainingBase;
  readonly trainer: Trainer;
  readonly #host: TrainingHost;
  readonly #engine: WeightsHost;
  readonly #opened: Opened;
  /** Each resolves when the sample that was promised has been made. */
  readonly #samples = new Set<Promise<void>>();
  #reference: { copy: OwnCopy; trainer: Trainer } | null = null;
  /** Saved weights that were replaced while the session may still need them. */
  #replaced: SavedModelRecord | null = null;

  constructor(host: TrainingHost, engine: WeightsHost, opened: Opened) {
    this.#host = host;
    this.#engine = engine;
    this.#opened = opened;
    this.base = opened.copy.base;
    this.trainer = opened.trainer;
  }

  async snapshot(): Promise<Complete> {
    // What is cached of earlier weights must not be taken for theirs.
    const { steps } = this.trainer;
    let end = () => {};
    const ended = new Promise<void>((resolve) => {
      end = resolve;
    });
    this.#samples.add(ended);
    return (params, signal) => {
      const salted = { ...params, cache_salt: `step ${steps} ${params.cache_salt ?? ""}` };
      const sample = this.#opened.copy.complete(salted, signal);
      return sample.finally(() => {
        this.#samples.delete(ended);
        end();
      });
    };
  }

  /** A step changes the weights in place: samples are let end first. */
  async readyToChange(): Promise<void> {
    await Promise.all(this.#samples);
  }

  async reference(
    _learner: unknown,
    rows: Parameters<SessionWeights<SavedWeights>["reference"]>[1],
    signal: AbortSignal,
  ) {
    this.#reference ??= await this.#openReference();
    const limits = { ...passLimits(this.base, this.#host.activationMemory()), signal };
    return (await evaluateRows(this.#reference.trainer, rows, limits, 0)).logprobs;
  }

  async #openReference(): Promise<{ copy: OwnCopy; trainer: Trainer }> {
    const { base, start } = this.#opened;
    const copy = await this.#engine.loadCopy(base, start.folder, "reference");
    try {
      const spec = { ...DEFAULT_ADAPTER, rank: 1, targets: targetsOf(copy.base.device.config, ["o_proj"]) };
      return { copy, trainer: await copy.base.device.trainAdapter(spec, { seed: 0n }) };
    } catch (error) {
      await copy.close();
      throw error;
    }
  }

  saving(params: object): (signal: AbortSignal) => Promise<SavedWeights> {
    const { name: given } = checkedSaving(params);
    if (given !== undefined) this.#engine.checkName(given);
    return (signal) => this.#save(given, signal);
  }

  async #save(given: string | undefined, signal: AbortSignal): Promise<SavedWeights> {
    const { store } = this.#host;
    const { modelId } = this.#opened;
    const { files, savedModels } = store;
    const model = store.models.get(modelId);
    if (!model) throw modelDeleted(modelId);
    const name = given ?? savedModels.latestOf(modelId)?.name ?? `${model.project}/${model.name}-full`;
    this.#engine.checkName(name);
    const saved = savedModels.announce(name, modelId);
    const temporary = files.temporary();
    const folder = files.savedModelFolder(saved.id);
    let replaced: SavedModelRecord | null;
    try {
      await this.#write(temporary, signal);
      await files.commitFolder(temporary, folder);
      replaced = store.transaction(() => {
        if (!store.models.get(modelId)) throw modelDeleted(modelId);
        this.#engine.checkName(name);
        store.baseWeights.forget(name);
        return savedModels.keep(saved.id);
      });
    } catch (error) {
      savedModels.remove(saved.id);
      throw error;
    } finally {
      files.remove(temporary);
    }
    const served = await this.#engine.serve(saved);
    // The weights that the session began with are compared with until it is closed.
    if (replaced && files.savedModelFolder(replaced.id) === this.#opened.start.folder) this.#replaced = replaced;
    else if (replaced) savedModels.remove(replaced.id);
    return {
      base_model: name,
      path: folder,
      steps: this.trainer.steps,
      created_at: new Date(saved.createdAt).toISOString(),
      bytes: await folderBytes(folder),
      served,
    };
  }

  /** A whole model folder, and beside the weights what training goes on from. */
  readonly #write = throwingFileErrors(
    ([folder]) => folder,
    async (folder: string, signal: AbortSignal): Promise<void> => {
      const { trainer, base } = this;
      const { start, modelId, objective } = this.#opened;
      const valuesOf = async (name: string) => (await trainer.read("value", name)).get(name)!.data;
      await writeFloatFolder(folder, start.folder, valuesOf, base.device.dtype, { signal });
      this.#host.store.files.makeFolder(join(folder, STATE_FOLDER));
      const known: Checksums = {};
      for (const part of trainer.steps > 0 ? PARTS : PARTS.slice(0, 1)) {
        signal.throwIfAborted();
        const file = stateFile(part);
        known[file] = await writeSummed(join(folder, file), safetensorsPieces(partOf(trainer, part)));
      }
      const meta: SavedMeta = {
        model_id: modelId,
        weight_type: base.device.dtype,
        kernel_set: base.device.kernelSet,
        ...(base.device.config.kvCache === "int8" && { kv_cache: "int8" }),
        objective,
        steps: trainer.steps,
      };
      const sums = { ...meta, sha256: await folderChecksums(folder, known) };
      await writeFile(join(folder, META_FILE), `${JSON.stringify(sums, null, 2)}\n`);
    },
  );

  async close(): Promise<void> {
    const { files, savedModels } = this.#host.store;
    const { copy, start } = this.#opened;
    for (const own of [this.#reference, { copy, trainer: this.trainer }]) {
      own?.trainer.close();
      await own?.copy.close();
    }
    if (start.isTemporary) files.remove(start.folder);
    if (this.#replaced) savedModels.remove(this.#replaced.id);
  }
}

/** A tensor at a time: together they take as much memory as the model in float32. */
const partOf = (trainer: Trainer, part: StatePart): TensorStream => ({
  shapes: shapesOf(trainer),
  async *pieces() {
    for (const { name } of trainer.tensors()) yield* tensorBytes(await trainer.read(part, name));
  },
});
