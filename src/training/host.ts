// What training needs of the engine around it.

import type { DeviceModel } from "../runtime/runtime.js";
import type { Release } from "../semaphore.js";
import type { Store } from "../store/store.js";
import type { ChatTemplate, Tokenizer } from "../text/index.js";
import type { Logger } from "../types/logger.js";
import type { Objective, OptimizerSettings } from "./optimizer.js";

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

/** A loaded base model. */
export interface TrainingBase {
  readonly id: string;
  /** Of the weights: a checkpoint can only go on from the base it was made from. */
  readonly hash: string;
  /** In tokens. */
  readonly contextLength: number;
  readonly device: DeviceModel;
  readonly tokenizer: Tokenizer;
  readonly template: ChatTemplate | null;
  readonly generationConfig: { readonly eos_token_id: readonly number[] };
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
  /** Counts what an adapter in training takes besides passes, until it is released. @throws InsufficientMemoryError */
  holdAdapter(bytes: number): Release;
  /** Bytes that a pass of training may take now, beside everything that is loaded. */
  activationMemory(): number;
  /** Takes over a version on the device, to be served as the checkpoint at `step`; called right after the checkpoint exists. */
  publishCheckpoint(modelId: string, step: number, version: number): void;
}
