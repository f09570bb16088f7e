// What training needs of the engine around it.

import type { Store } from "../store/store.js";
import type { Logger } from "../types/logger.js";
import type { Objective, OptimizerSettings } from "./optimizer.js";
import type { Trainers } from "./trainers.js";
import type { TrainingBase } from "./trainingBase.js";

/** On whose behalf a file is read: of the application in this process, or of a request with the owner's or another key. */
export type Reader = "application" | "owner" | "other";

/** What a reader may read of this machine's files. */
export interface FileRights {
  readonly reader: Reader;
  /** Real paths of the folders in which it must lie; null: anywhere. Then it may also be named by a relative path. */
  readonly roots: readonly string[] | null;
  /** Whether files of a folder may be links, if they lead to where their reader may read. */
  readonly followLinks: boolean;
  /** Of a real path under a root: whether it is kept from the reader all the same. */
  isHidden(path: string): boolean;
}

export interface TrainingOptions {
  /** What one optimizer step of an RL job sees. */
  optimizerStep: "group" | "completion" | "job";
  optimizer: Record<Objective, OptimizerSettings>;
  /** Of different models. */
  maxTrainingJobs: number;
  /** Hosts from which `http(s):` training data may be read. */
  allowedHosts: readonly string[];
}

/** The optimizers of a model: its own settings, then the engine's. */
export function optimizersOf(
  { store, options }: Pick<TrainingHost, "store" | "options">,
  modelId: string,
): TrainingOptions["optimizer"] {
  const own = store.models.get(modelId)?.optimizer as Partial<Record<Objective, Partial<OptimizerSettings>>> | null;
  return { rl: { ...options.optimizer.rl, ...own?.rl }, sft: { ...options.optimizer.sft, ...own?.sft } };
}

export interface TrainingHost {
  readonly store: Store;
  readonly options: TrainingOptions;
  readonly logger: Logger;
  fileRights(reader: Reader): FileRights;
  /** The base model of a model. */
  base(modelId: string): Promise<TrainingBase>;
  readonly trainers: Trainers;
  /** Bytes that a pass of training may take now, beside everything that is loaded. */
  activationMemory(): number;
  /** Takes over a version on the device, to be served as the checkpoint at `step`; called right after the checkpoint exists. */
  publishCheckpoint(modelId: string, step: number, version: number): void;
}
