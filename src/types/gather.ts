import type { ChatCompletion, ChatCompletionCreateParamsNonStreaming, ChatMessageParam } from "./chat.js";
import type { Model } from "./models.js";
import type { ModelPublished, ModelPublishParams } from "./publish.js";
import type { ExperimentalConfig } from "./training.js";
import type { Trajectory, TrajectoryGroup } from "./trajectories.js";

/** A completion's settings; `model`, `seed` and what training needs of the answer are filled in. */
export type RolloutCompletionParams = Omit<ChatCompletionCreateParamsNonStreaming, "stream">;

/** What one attempt at a scenario works with. */
export interface RolloutContext<S> {
  /** What is attempted. */
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

/** A reward, and what else is to be kept of an attempt. */
export interface RolloutResult {
  /** true is 1, false is 0. Needed, unless the run has a `reward`. */
  reward?: number | boolean;
  /** Name to value; true and false are 1 and 0. Their means are metrics of the step. */
  metrics?: Record<string, number | boolean>;
  /** Kept with the trajectory, without a meaning for training. */
  metadata?: Record<string, number | string | boolean | null>;
}

/** One attempt at a scenario; answers with its reward, or with nothing where the run has a `reward`. */
export type Rollout<S> = (context: RolloutContext<S>) => Promise<number | boolean | RolloutResult | undefined>;

/** Scores a conversation that ends with the model's reply: a finite number. `signal` aborts when the rollout ends. */
export type RewardModel = (
  messages: readonly ChatMessageParam[],
  context: { signal: AbortSignal },
) => Promise<number | boolean>;

/** How far rollouts are. */
export interface GatherProgress {
  /** Rollouts that have ended, of all. */
  done: number;
  /** All rollouts. */
  total: number;
  /** Rollouts that have failed. */
  exceptions: number;
  /** Sampled so far. */
  completionTokens: number;
  /** Of the rollouts that have ended well; null before the first. */
  meanReward: number | null;
}

/**
 * A server of another engine that completions of rollouts are drawn from: any with vLLM's adapter routes that answers with
 * token ids and logprobs. The model's checkpoint is published there first, as `models.publish` does; `train`
 * unloads those of earlier steps again, but for the best one and those that others had there.
 */
export interface RemoteRollouts extends Omit<ModelPublishParams, "step" | "latest"> {
  /** In `train`: steps between two publications, so that rollouts are stale by up to this less one. Default 1, never stale. */
  publishEvery?: number;
  /**
   * In `train`: by how much, on average over the trained tokens of a step's first group and in nats, the server's logprobs may
   * differ from those of the weights that are trained. Beyond it the step's job fails before it has changed anything, and the
   * run ends. Default 0.1 while rollouts are not stale; with `publishEvery` above 1, none.
   */
  maxLogprobDifference?: number;
}

/** When `train` has a server of another engine serve what it made. */
export interface TrainPublish extends Omit<ModelPublishParams, "step"> {
  /** "step": after every step. "best": whenever a validation was the best so far. Default "step". */
  when?: "step" | "best";
}

/** What is gathered, and how. */
export interface GatherOptions<S> {
  /** A registered model: its latest step is pinned. Or any name that completions can be asked of. */
  model: Model | string;
  /** What is attempted: anything that the rollout understands. */
  scenarios: readonly S[];
  /** One attempt. */
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
  /** Where completions are drawn from, instead of this engine; `model` must then be a model, not a name. Default: this engine. */
  rollouts?: RemoteRollouts;
  /** Names the run: the same seed gives the same rollouts. Default 0. */
  seed?: number | bigint;
  /**
   * Scores the conversation of each attempt (of several the first), whatever its rollout answers with. When it throws, the
   * attempt counts as failed.
   */
  reward?: RewardModel;
  /**
   * Scores the trajectories of a `scenario` together: their rewards, in order. `signal` aborts when the run ends. When it
   * throws, they all count as failed.
   */
  scoreGroup?: (
    trajectories: readonly Trajectory[],
    context: { scenario: S; signal: AbortSignal },
  ) => Promise<readonly (number | boolean)[]>;
  /** Called whenever a rollout ends, and waited for. What it throws or rejects with ends the run. */
  onProgress?: (progress: GatherProgress) => void;
  /** Ends the run, which rejects with its reason. */
  signal?: AbortSignal;
}

/** How far a run is. */
export interface TrainProgress extends GatherProgress {
  /** "waiting": for jobs of the model that others made, or an earlier process left, or for a training session. */
  phase: "waiting" | "rollout" | "validation" | "training";
  /** Step of the policy at work; 0 while none is. */
  step: number;
  /** What is waited for; a session may be closed with `trainingSessions.close(id)`. Absent while nothing is. */
  holder?: {
    /** A job ends by itself; a session holds its model until it is closed. */
    kind: "job" | "session";
    /** Of the job or session. */
    id: string;
    /** ISO 8601: when it was made or opened. */
    since: string;
  };
}

/** What is trained, and how. */
export interface TrainOptions<S> extends Omit<GatherOptions<S>, "model" | "onProgress"> {
  /** The model; every step makes its next checkpoint. */
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
  /**
   * Ends the run after `patience` validations in a row, 1 or more, whose reward was not more than `threshold` (default 0) above the
   * best one's. The validation before the first step counts. Needs `validation`.
   */
  earlyStopping?: { patience: number; threshold?: number };
  /**
   * Whether the run ends by making the step with the best validation reward, which may be the one that it began with, the latest
   * again, as a new checkpoint. Needs `validation`. Default false.
   */
  keepBest?: boolean;
  /** A server that shall serve what is made. What it refuses ends the run, which may be taken up again by its name. */
  publish?: TrainPublish;
  /** Settings of the training jobs. */
  config?: ExperimentalConfig;
  /** Called whenever a rollout ends or the phase changes, and waited for. What it throws or rejects with ends the run. */
  onProgress?: (progress: TrainProgress) => void;
}

/** Rewards of a number of rollouts. */
export interface RewardReport {
  /** Mean over trajectories; null when every rollout failed. */
  reward: number | null;
  /** Mean over groups of more than one trajectory of the population deviation of their rewards. */
  deviation: number;
  /** Rollouts that failed and are left out. */
  exceptions: number;
}

/** A number for each phase of a step. */
export interface PhaseReport<T> {
  /** Of gathering what is trained on. */
  rollout: T;
  /** Of the training job. */
  training: T;
  /** Of the validation. */
  validation: T;
}

/** What a step of a run has done. */
export interface StepReport {
  /** Of the checkpoint that this step made. `train` was gathered with the one before, `validation` with this one. */
  step: number;
  /** The training job. */
  jobId: string;
  /** What was trained on. */
  train: RewardReport;
  /** The scenarios that are never trained on; null: there are none. */
  validation: RewardReport | null;
  /** Validation before any training of this run: in its first report only. */
  baseline: RewardReport | null;
  /** The best step of the run by its validation reward, this one or an earlier one; null: there is no validation reward. */
  bestStep: number | null;
  /** True: the run ends with this step, before all of them were made, for want of a better one. */
  endedEarly: boolean;
  /** The checkpoint that the best step was made again at the end of the run; null: none was, or need be. */
  keptAs: number | null;
  /** Means of the rollouts' own metrics, and of the job's under `loss/` and the names of its events. */
  metrics: Record<string, number>;
  /** Sampled tokens of the rollouts and validation; trained tokens of the job. */
  tokens: PhaseReport<number>;
  /** How long each phase took. */
  seconds: PhaseReport<number>;
  /** Of rollouts that another server made; null: this engine made them. */
  remote: {
    /** By how many steps the weights that made them were older than those that were trained. */
    staleness: number;
    /** Between its logprobs and those of the weights that were trained, over the first group, in nats; null: nothing was. */
    logprobDifference: {
      /** Over trained tokens. */
      mean: number;
      /** The largest of a trained token. */
      max: number;
    } | null;
  } | null;
  /** What another server serves since this step; null: nothing was published. */
  published: ModelPublished | null;
  /** null when every rollout failed. */
  best: Trajectory | null;
  /** That of the middle one. */
  median: Trajectory | null;
  /** That of the lowest. */
  worst: Trajectory | null;
  /** Why less is learned than could be. */
  warnings: string[];
  /** Everything that was trained on. */
  groups: TrajectoryGroup[];
}
