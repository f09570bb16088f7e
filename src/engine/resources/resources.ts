import type { Caller, View } from "../core/access.js";
import type { EngineCore } from "../core/core.js";
import type { MetricFamily } from "../core/metricFamilies.js";
import { Artifacts } from "./artifacts.js";
import { BaseModels } from "./baseModels.js";
import { Chat } from "./chat.js";
import { Checkpoints } from "./checkpoints.js";
import { Embeddings } from "./embeddings.js";
import { inferenceMetrics, trainingMetrics } from "./health.js";
import { Keys } from "./keys.js";
import { LoraAdapters } from "./loraAdapters.js";
import { Models } from "./models.js";
import { Responses } from "./responses.js";
import { SftTrainingJobs } from "./sftTrainingJobs.js";
import { TextCompletions } from "./textCompletions.js";
import { Tokens } from "./tokens.js";
import { Training } from "./training.js";
import { TrainingJobs } from "./trainingJobs.js";
import { TrainingSessions } from "./trainingSessions.js";

/** The resources of an engine as one caller may use them. */
export class Resources {
  readonly chat: Chat;
  readonly responses: Responses;
  readonly completions: TextCompletions;
  readonly embeddings: Embeddings;
  readonly models: Models;
  readonly loraAdapters: LoraAdapters;
  readonly checkpoints: Checkpoints;
  readonly trainingJobs: TrainingJobs;
  readonly sftTrainingJobs: SftTrainingJobs;
  readonly trainingSessions: TrainingSessions;
  readonly artifacts: Artifacts;
  readonly baseModels: BaseModels;
  readonly keys: Keys;
  readonly training: Training;
  readonly tokens: Tokens;
  /** @internal */
  readonly caller: Caller;
  readonly #core: EngineCore;

  /** @internal */
  constructor(core: EngineCore, view: View) {
    this.chat = new Chat(core, view);
    this.responses = new Responses(core, view);
    this.completions = new TextCompletions(core, view);
    this.embeddings = new Embeddings(core, view);
    this.models = new Models(core, view);
    this.loraAdapters = new LoraAdapters(core, view);
    this.checkpoints = new Checkpoints(core, view);
    this.trainingJobs = new TrainingJobs(core, view);
    this.sftTrainingJobs = new SftTrainingJobs(core, view);
    this.trainingSessions = new TrainingSessions(core, view);
    this.artifacts = new Artifacts(core, view);
    this.baseModels = new BaseModels(core, view);
    this.keys = new Keys(core, view);
    this.training = new Training(core, view);
    this.tokens = new Tokens(core, view);
    this.caller = view.caller;
    this.#core = core;
  }

  /** What is counted about inference, as far as the caller may see it. @internal */
  metrics(): MetricFamily[] {
    return inferenceMetrics(this.#core, this.caller);
  }

  /** What is counted about training jobs. @internal */
  trainingMetrics(): MetricFamily[] {
    return trainingMetrics(this.#core);
  }
}
