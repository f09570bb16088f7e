import type { ChatCompletion, ChatCompletionCreateParamsNonStreaming, ChatMessageParam } from "./chat.js";
import type { Model } from "./models.js";
import type { ExperimentalConfig } from "./training.js";
import type { Trajectory, TrajectoryGroup } from "./trajectories.js";

/** A completion's settings; `model`, `seed` and what training needs of the answer are filled in. */
export type RolloutCompletionParams = Omit<ChatCompletionCreateParamsNonStreaming, "stream">;

/** What one attempt at a scenario works with. */
export interface RolloutContext<S> {
  readonly scenario: S;
  /** Name of the model, pinned to one step for the whole rollout. */
  readonly model: string;
  /** Adds a user message (or messages) to this rollout's conversation and answers with the model's reply, which is added too. */
  chat(
    content: string | readonly ChatMessageParam[],
    params?: Omit<RolloutCompletionParams, "messages" | "n">,
  ): Promise<string>;
  /** One completion with full control. */
  complete(params: RolloutCompletionParams): Promise<ChatCompletion>;
  /** For clients such as `openai` (any base URL that ends in `/v1`): completions made through it are recorded too. */
  readonly fetch: typeof fetch;
  /** Aborted when the run ends or the rollout's time is over. */
  readonly signal: AbortSignal;
  /** For whatever the rollout itself draws: follows from (run, step, group, member). */
  readonly seed: bigint;
}

export interface RolloutResult {
  /** true is 1, false is 0. */
  reward: number | boolean;
  metrics?: Record<string, number | boolean>;
  metadata?: Record<string, number | string | boolean | null>;
}

/** One attempt at a scenario; answers with its reward. */
export type Rollout<S> = (context: RolloutContext<S>) => Promise<number | boolean | RolloutResult>;

export interface GatherProgress {
  /** Rollouts that have ended, of all. */
  done: number;
  total: number;
  exceptions: number;
  completionTokens: number;
  /** Of the rollouts that have ended well; null before the first. */
  meanReward: number | null;
}

export interface GatherOptions<S> {
  /** A registered model: its latest step is pinned. Or any name that completions can be asked of. */
  model: Model | string;
  scenarios: readonly S[];
  rollout: Rollout<S>;
  /** Attempts at each scenario; their rewards are compared with each other, so training needs at least 2. */
  groupSize: number;
  /** Rollouts under way at once. Default 64. */
  concurrency?: number;
  /** Of one rollout. Default: no limit. */
  timeoutMs?: number;
  /**
   * Share of the rollouts, 0 to 1, that may fail; with one more the run ends with what the first threw. Those that failed are
   * counted, kept as `exceptions` of their groups, and left out of the training. Default 0.5, or 1 with `maxExceptions`.
   */
  maxExceptionShare?: number;
  /** Likewise, a number of rollouts. */
  maxExceptions?: number;
  /** Names the run: the same seed gives the same rollouts. Default 0. */
  seed?: number | bigint;
  /** Scores a group's trajectories together: their rewards, in order. When it throws, they all count as failed. */
  scoreGroup?: (
    trajectories: readonly Trajectory[],
    context: { scenario: S; signal: AbortSignal },
  ) => Promise<readonly (number | boolean)[]>;
  onProgress?: (progress: GatherProgress) => void;
  signal?: AbortSignal;
}

export interface TrainProgress extends GatherProgress {
  /** "waiting": for jobs of the model that others made, or an earlier process left. */
  phase: "waiting" | "rollout" | "validation" | "training";
  /** Step of the policy at work; 0 while none is. */
  step: number;
}

export interface TrainOptions<S> extends Omit<GatherOptions<S>, "model" | "onProgress"> {
  model: Model;
  /** Training jobs of the whole run, one checkpoint each. */
  steps: number;
  /** Of this run among those of the model: under it the run is taken up again after it was cut off. */
  name?: string;
  /**
   * Whether to go on with the model's latest run of this name (or without one, if none is given), with its seed, rather than
   * begin another; a run that has made all its steps yields nothing. Default: true with a name, else false.
   */
  resume?: boolean;
  /** Scenarios of one step, drawn without repetition until all have been used. Default: all, at most 16. */
  groupsPerStep?: number;
  /** Scenarios that are never trained on: attempted once at the first step and after every job, and logged as split "val". */
  validation?: readonly S[];
  /** Settings of the training jobs. */
  config?: ExperimentalConfig;
  onProgress?: (progress: TrainProgress) => void;
}

export interface RewardReport {
  /** Mean over trajectories; null when every rollout failed. */
  reward: number | null;
  /** Mean over groups of more than one trajectory of the population deviation of their rewards. */
  deviation: number;
  /** Rollouts that failed and are left out. */
  exceptions: number;
}

export interface PhaseReport<T> {
  rollout: T;
  training: T;
  validation: T;
}

export interface StepReport {
  /** Of the checkpoint that this step made. `train` was gathered with the one before, `validation` with this one. */
  step: number;
  jobId: string;
  train: RewardReport;
  validation: RewardReport | null;
  /** Validation before any training of this run: in its first report only. */
  baseline: RewardReport | null;
  /** Means of the rollouts' own metrics, and of the job's under `loss/` and the names of its events. */
  metrics: Record<string, number>;
  /** Sampled tokens of the rollouts and validation; trained tokens of the job. */
  tokens: PhaseReport<number>;
  seconds: PhaseReport<number>;
  /** null when every rollout failed. */
  best: Trajectory | null;
  median: Trajectory | null;
  worst: Trajectory | null;
  /** Why less is learned than could be. */
  warnings: string[];
  groups: TrajectoryGroup[];
}
