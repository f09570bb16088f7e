import type { Runtime } from "../../runtime/runtime.js";
import type { ModelRecord } from "../../store/records.js";
import type { Store } from "../../store/store.js";
import type { TrainingHost } from "../../training/host.js";
import type { JobRunner } from "../../training/jobRunner.js";
import type { Caller, View } from "./access.js";
import type { AdapterCache } from "./adapterCache.js";
import type { BaseModel } from "./baseModel.js";
import type { GrammarCompiler } from "./grammarCache.js";
import type { LoadedModels } from "./loadedModels.js";
import type { InferenceMetrics } from "./metrics.js";
import type { ResolvedOptions } from "./options.js";
import type { SavedModels } from "./savedModels.js";
import type { ServedEncoder } from "./servedEncoder.js";

/** What an engine consists of; its resources are views of this for one caller. */
export interface EngineCore {
  readonly options: ResolvedOptions;
  readonly store: Store;
  readonly runtime: Runtime;
  /** By id, in the order in which they were named. */
  readonly bases: ReadonlyMap<string, BaseModel>;
  readonly defaultBase: BaseModel;
  /** By id: what makes vectors only. */
  readonly encoders: ReadonlyMap<string, ServedEncoder>;
  readonly loaded: LoadedModels;
  readonly savedModels: SavedModels;
  readonly adapters: AdapterCache;
  readonly runner: JobRunner;
  /** What training sees of the engine. */
  readonly trainingHost: TrainingHost;
  readonly owner: Caller;
  readonly ownerKey: string;
  readonly metrics: InferenceMetrics;
  readonly grammars: GrammarCompiler;
  /** Aborted when the engine closes. */
  readonly closing: AbortSignal;
  /** @throws UnavailableError when this engine does not serve the model's base. */
  baseOf(model: ModelRecord): BaseModel;
  /** An adapter's folder that a request names, if its caller may read it. @throws ValidationError at `field` */
  adapterFolder(view: View, field: string, path: string): string;
  /** Where a caller may have a folder made. @throws ValidationError at `field` */
  newFolder(view: View, field: string, path: string): string;
}
