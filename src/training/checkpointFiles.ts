// What a checkpoint is on disk: a PEFT adapter, the optimizer's moments beside it, and what they belong to.

import { existsSync } from "node:fs";
import { writeFile } from "node:fs/promises";
import { join } from "node:path";
import { PLAIN_MODULES } from "../adapterModules.js";
import { BadRequestError, ModelFileError } from "../errors.js";
import { throwingFileErrors } from "../fileErrors.js";
import type { AdapterSpec, KeptState, NamedTensors, StatePart, Trainer } from "../runtime/runtime.js";
import { type Checksums, META_FILE, verifyChecksums, writeSummed } from "../store/checksums.js";
import { adapterFiles, readAdapterFolder, withLeftOutLayers } from "../weights/adapterFolder.js";
import { targetsOf } from "../weights/adapterModules.js";
import { JsonFields } from "../weights/jsonFields.js";
import { readSafetensors, safetensorsPieces, streamed, streamOf, type TensorStream } from "../weights/safetensors.js";
import type { Objective } from "./optimizer.js";
import type { TrainingBase } from "./trainingBase.js";

/** Everything that training goes on from. */
export interface AdapterState<Tensors = NamedTensors> {
  spec: AdapterSpec;
  values: Tensors;
  /** null: no step has been made with this objective. */
  optimizer: OptimizerState<Tensors> | null;
  /** Where a device elsewhere keeps the same, moments included; `values` may then be empty. */
  kept?: KeptState | null;
}

export interface OptimizerState<Tensors = NamedTensors> {
  objective: Objective;
  steps: number;
  /** Empty where a device elsewhere keeps them. */
  moment1: Tensors;
  moment2: Tensors;
}

/** The same as it is written. */
export type WrittenState = AdapterState<TensorStream>;

export function toWrite({ values, optimizer, ...state }: AdapterState): WrittenState {
  const moments = optimizer && { moment1: streamOf(optimizer.moment1), moment2: streamOf(optimizer.moment2) };
  return { ...state, values: streamOf(values), optimizer: moments && { ...optimizer, ...moments } };
}

/** `meta.json` of a checkpoint. */
export interface CheckpointMeta {
  base_model: string;
  base_hash: string;
  weight_type: string;
  kernel_set: string;
  /** What rollouts and training read keys and values from, where that was not exact. It loads on any base all the same. */
  kv_cache?: "int8";
  /** null for step 0 and imports. */
  parent_step: number | null;
  job_id: string | null;
  /** Where a device elsewhere keeps it, and the objective of its moments (null: it has none). */
  kept?: KeptState & { objective: Objective | null };
  /** Of its other files; checkpoints of earlier versions have none. */
  sha256?: Checksums;
}

/** Projections of every layer that adapters of new models train, and their rank. */
export const DEFAULT_ADAPTER: AdapterSpec = {
  rank: 8,
  alpha: 16,
  rslora: false,
  targets: [...PLAIN_MODULES],
};

/** Any number would do; always the same, so that new models of one base begin alike. */
export const ADAPTER_SEED = 3407n;
const OPTIMIZER_FILE = "optimizer.safetensors";

/** What is read of an adapter's folder. */
export const ADAPTER_FILES: readonly string[] = ["adapter_config.json", "adapter_model.safetensors", META_FILE];

/** A copy of what the trainer holds, to be written before the next one is made. `forResuming` as of `captureState`. */
export async function stateOf(
  trainer: Trainer,
  spec: AdapterSpec,
  objective: Objective,
  { forResuming = false } = {},
): Promise<WrittenState> {
  const { here, steps } = trainer;
  if (!here) return toWrite(await captureState(trainer, spec, objective, { forResuming }));
  await here.hold();
  const shapes = shapesOf(trainer);
  const part = (name: StatePart) => ({ shapes, pieces: () => here.pieces(name) });
  const moments = { moment1: part("moment1"), moment2: part("moment2") };
  return { spec, values: part("value"), optimizer: steps === 0 ? null : { objective, steps, ...moments } };
}

/** Of what it trains, in its order. */
export const shapesOf = (trainer: Trainer): TensorStream["shapes"] =>
  new Map(trainer.tensors().map(({ name, shape }) => [name, shape]));

/** The same in memory. `forResuming`: where a device elsewhere keeps the state, its values are not wanted here. */
export async function captureState(
  trainer: Trainer,
  spec: AdapterSpec,
  objective: Objective,
  { forResuming = false } = {},
): Promise<AdapterState> {
  if (trainer.elsewhere) {
    const kept = await trainer.elsewhere.keep();
    const values: NamedTensors = forResuming ? new Map() : await trainer.read("value");
    const { steps } = trainer;
    const nothing: NamedTensors = new Map();
    const optimizer = steps === 0 ? null : { objective, steps, moment1: nothing, moment2: nothing };
    return { spec, values, optimizer, kept };
  }
  const values = await trainer.read("value");
  if (trainer.steps === 0) return { spec, values, optimizer: null };
  const [moment1, moment2] = [await trainer.read("moment1"), await trainer.read("moment2")];
  return { spec, values, optimizer: { objective, steps: trainer.steps, moment1, moment2 } };
}

/** Fills an empty folder. Not flushed: the caller commits the folder. Rejects with DiskFullError when there is no room. */
export const writeCheckpoint = throwingFileErrors(
  ([folder]) => folder,
  async (
    folder: string,
    state: WrittenState,
    base: TrainingBase,
    origin: Pick<CheckpointMeta, "parent_step" | "job_id">,
  ): Promise<void> => {
    const { optimizer, kept } = state;
    const files = adapterFiles(state.spec, state.values, base.id);
    if (optimizer && !kept) files.push([OPTIMIZER_FILE, optimizerFile(optimizer)]);
    const sums: Checksums = {};
    for (const [name, pieces] of files) sums[name] = await writeSummed(join(folder, name), pieces);
    const meta: CheckpointMeta = {
      base_model: base.id,
      base_hash: base.hash,
      weight_type: base.device.dtype,
      kernel_set: base.device.kernelSet,
      ...(base.device.config.kvCache === "int8" && { kv_cache: "int8" as const }),
      ...origin,
      ...(kept ? { kept: { ...kept, objective: optimizer?.objective ?? null } } : {}),
      sha256: sums,
    };
    await writeFile(join(folder, META_FILE), `${JSON.stringify(meta, null, 2)}\n`);
  },
);

/** Step 0 of a model: A as initialised by the seed, B zero, so that it answers as the base model does. */
export async function writeInitialCheckpoint(
  base: TrainingBase,
  folder: string,
  adapter: { rank?: number; alpha?: number; targets?: readonly string[] } = {},
): Promise<void> {
  const spec: AdapterSpec = {
    ...DEFAULT_ADAPTER,
    ...(adapter.rank === undefined ? {} : { rank: adapter.rank }),
    ...(adapter.alpha === undefined ? {} : { alpha: adapter.alpha }),
    targets: targetsOf(base.device.config, adapter.targets ?? DEFAULT_ADAPTER.targets),
  };
  const trainer = await base.device.trainAdapter(spec, { seed: ADAPTER_SEED });
  try {
    const state = await captureState(trainer, spec, "rl");
    await writeCheckpoint(folder, toWrite(state), base, { parent_step: null, job_id: null });
  } finally {
    trainer.close();
  }
}

/** Where a folder of adapter files comes from: a checkpoint says what weights it was trained from, others need not. */
export type AdapterOrigin = "checkpoint" | "elsewhere";

/** A base model that an adapter is read for. */
export interface AdapterBase extends Pick<TrainingBase, "id" | "hash" | "device"> {
  /** Whether weights of another hash are as good, since they are those of the base's folder. */
  readonly hasAlso?: (hash: string) => Promise<boolean>;
}

/**
 * An adapter for `base`; of a checkpoint, if its files are what was written.
 * @throws ModelFileError when a file is damaged, or missing, or the adapter was made from other weights.
 */
export async function readAdapter(
  folder: string,
  base: AdapterBase,
  from: AdapterOrigin,
): Promise<{ spec: AdapterSpec; tensors: NamedTensors; kept: (KeptState & { objective: Objective | null }) | null }> {
  const file = join(folder, META_FILE);
  const meta = existsSync(file) ? await JsonFields.read(file) : null;
  // Others may keep notes of their own under that name.
  if (meta?.has("base_hash")) {
    const origin = meta.string("base_model");
    const hash = meta.string("base_hash");
    if (hash !== base.hash && !(await base.hasAlso?.(hash))) {
      const other = origin === base.id ? `"${base.id}" with other weights than it has now` : `"${origin}"`;
      throw new ModelFileError(file, `the checkpoint was trained from ${other}; it does not fit "${base.id}"`, {
        code: "base_model_changed",
        hint: "serve the base model it was made from, quantised while it is loaded (quantize) as it was then",
      });
    }
  } else if (from === "checkpoint") {
    const lacks = meta ? "does not say what weights the checkpoint was trained from" : "is missing";
    throw new ModelFileError(file, `${lacks}: the checkpoint is damaged`, {
      hint: "import the folder as a model of its own if its adapter is known to fit",
    });
  }
  if (from === "checkpoint") await verifyChecksums(folder, { named: ADAPTER_FILES, known: true });
  // What others say of states elsewhere is nothing to go on from.
  const kept = from === "checkpoint" ? readKept(meta?.object("kept") ?? null) : null;
  const adapter = await readAdapterFolder(folder, base.device.config);
  return { spec: adapter.spec, tensors: withLeftOutLayers(base.device.config, adapter), kept };
}

/** Names of what a device elsewhere keeps of checkpoints in these folders; damaged ones are passed over. */
export async function keptStates(folders: readonly string[]): Promise<Map<string, KeptState>> {
  const found = new Map<string, KeptState>();
  for (const folder of folders) {
    const meta = await JsonFields.read(join(folder, META_FILE)).catch(() => null);
    const kept = readKept(meta?.object("kept") ?? null);
    if (kept) found.set(kept.name, kept);
  }
  return found;
}

function readKept(fields: JsonFields | null): (KeptState & { objective: Objective | null }) | null {
  if (fields === null) return null;
  const objective = fields.get("objective");
  return {
    name: fields.string("name"),
    steps: fields.integer("steps", 0, Number.MAX_SAFE_INTEGER),
    objective: objective === "rl" || objective === "sft" ? objective : null,
  };
}

/** @throws ModelFileError when a file is damaged or the checkpoint was made from other weights. */
export async function readCheckpoint(folder: string, base: TrainingBase): Promise<AdapterState> {
  const { spec, tensors: values, kept: keptState } = await readAdapter(folder, base, "checkpoint");
  if (keptState) {
    const { objective, ...kept } = keptState;
    const { steps } = kept;
    const optimizer = objective && { objective, steps, moment1: new Map(), moment2: new Map() };
    return { spec, values, optimizer, kept };
  }
  await verifyChecksums(folder, { named: [OPTIMIZER_FILE], known: true });
  const file = join(folder, OPTIMIZER_FILE);
  return { spec, values, optimizer: existsSync(file) ? await readOptimizer(file) : null };
}

/** Puts an adapter on its base's device. @returns its version. @throws as `readAdapter` does. */
export async function loadAdapter(
  base: Pick<TrainingBase, "id" | "hash" | "device">,
  folder: string,
  from: AdapterOrigin,
): Promise<number> {
  const { spec, tensors, kept } = await readAdapter(folder, base, from);
  return putOnDevice(base, folder, spec, tensors, kept);
}

/** What was read of a folder as a version on the device. @throws ModelFileError naming the tensor that does not fit. */
export async function putOnDevice(
  base: Pick<TrainingBase, "device">,
  folder: string,
  spec: AdapterSpec,
  tensors: NamedTensors,
  kept: KeptState | null = null,
): Promise<number> {
  try {
    return await base.device.loadAdapter(spec, tensors, kept);
  } catch (error) {
    if (!(error instanceof BadRequestError)) throw error;
    // The native core knows tensors, not the file that they came from.
    const { message, param } = error;
    throw new ModelFileError(join(folder, "adapter_model.safetensors"), message, { param, cause: error });
  }
}

/** A state between two checkpoints as one file's content. */
export function stateFile({ values, optimizer, kept }: WrittenState): AsyncIterable<Uint8Array> {
  const of = optimizer ? optimizerParts(optimizer) : { parts: [], metadata: {} };
  const metadata = { ...of.metadata, ...(kept && { kept: JSON.stringify(kept) }) };
  return safetensorsPieces(streamed([[values, inPart("value")], ...of.parts]), metadata);
}

export async function readStateFile(file: string, spec: AdapterSpec): Promise<AdapterState> {
  const { tensors, metadata } = await readSafetensors(file);
  const kept = metadata.kept === undefined ? null : (JSON.parse(metadata.kept) as KeptState);
  return { spec, values: part("value", tensors), optimizer: toOptimizer(tensors, metadata), kept };
}

/** What a device elsewhere keeps of the step in a state's file; null: nothing, or the file is damaged. */
export async function keptOfState(file: string): Promise<KeptState | null> {
  const kept = await readSafetensors(file).then(
    ({ metadata }) => metadata.kept,
    () => undefined,
  );
  return kept === undefined ? null : (JSON.parse(kept) as KeptState);
}

function optimizerFile(optimizer: OptimizerState<TensorStream>): AsyncIterable<Uint8Array> {
  const { parts, metadata } = optimizerParts(optimizer);
  return safetensorsPieces(streamed(parts), metadata);
}

async function readOptimizer(file: string): Promise<OptimizerState | null> {
  const { tensors, metadata } = await readSafetensors(file);
  return toOptimizer(tensors, metadata);
}

function optimizerParts({ objective, steps, moment1, moment2 }: OptimizerState<TensorStream>): {
  parts: Parameters<typeof streamed>[0];
  metadata: Record<string, string>;
} {
  return {
    parts: [
      [moment1, inPart("moment1")],
      [moment2, inPart("moment2")],
    ],
    metadata: { objective, steps: String(steps) },
  };
}

function toOptimizer(tensors: NamedTensors, metadata: Record<string, string>): OptimizerState | null {
  const { objective, steps } = metadata;
  if (objective !== "rl" && objective !== "sft") return null;
  return { objective, steps: Number(steps), moment1: part("moment1", tensors), moment2: part("moment2", tensors) };
}

const inPart = (prefix: string) => (name: string) => `${prefix}.${name}`;

function part(prefix: string, tensors: NamedTensors): NamedTensors {
  const names = [...tensors].filter(([name]) => name.startsWith(`${prefix}.`));
  return new Map(names.map(([name, tensor]) => [name.slice(prefix.length + 1), tensor]));
}
