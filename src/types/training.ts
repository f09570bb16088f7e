// Made of src/schemas/jobs.ts by `npm run generate`: change those.

import type { TrajectoryContentPart, TrajectoryGroup, TrajectoryTool, TrajectoryToolCall } from "./trajectories.js";

/**
 * Settings of a reinforcement learning job. Absent and null both mean the default. The loss of held-out groups is minus
 * the mean, over their trained tokens, of the ratio (clipped as ppo does, between the loss's own bounds) times the
 * advantage.
 */
export interface ExperimentalConfig {
  /** Of AdamW; at most 1000. Default: 0.000005. */
  learning_rate?: number | null;
  /**
   * What becomes of it over the job's optimizer steps (in `train`, over the run's jobs): kept, or falling to 0.
   * Default: "constant".
   */
  learning_rate_schedule?: "constant" | "linear" | "cosine" | null;
  /** Share of the steps over which it rises from 0 first. Default: 0. */
  warmup_ratio?: number | null;
  /**
   * Subtracts this times the mean entropy of the trained tokens (in nats, over the whole vocabulary) from the loss.
   * Default: 0.
   */
  entropy_coef?: number | null;
  /** Share of the conversations, or of the groups that teach, that is held out; 0: none. Default: 0. */
  validation_ratio?: number | null;
  /**
   * Optimizer steps between two validations; there is one before the first and one after the last too. Default: an
   * epoch.
   */
  validation_interval?: number | null;
  /** Validations in a row without improvement after which training ends. Default: it does not. */
  early_stopping_patience?: number | null;
  /** By how much the loss must fall to count as an improvement. Default: 0. */
  early_stopping_threshold?: number | null;
  /**
   * Make the checkpoint of the weights with the lowest loss (at worst those the job began with), not of the last.
   * Default: true where data is held out.
   */
  keep_best?: boolean | null;
  /**
   * "cispo": the clipped ratio, held constant, weights the logprob. "ppo": the smaller of ratio and clipped ratio,
   * times the advantage. Default: "cispo", or what `ppo` says.
   */
  loss_fn?: "cispo" | "ppo" | null;
  /** true: the ppo loss, unless `loss_fn` says otherwise. Default: false. */
  ppo?: boolean | null;
  /** Lower clip: the ratio is kept above 1 - epsilon. Default: 1.0 (cispo), 0.2 (ppo). */
  epsilon?: number | null;
  /** Upper clip: the ratio is kept below 1 + epsilon_high. Default: 4.0 (cispo), `epsilon` (ppo). */
  epsilon_high?: number | null;
  /** Above 0 weakens negative advantages, below 0 positive ones; at 1 and -1 they are gone. Default: 0. */
  advantage_balance?: number | null;
  /** Divide advantages by their group's deviation. Default: true. */
  scale_rewards?: boolean | null;
  /** false: as `scale_rewards: false`, whatever that says. Default: true. */
  normalize_advantages?: boolean | null;
  /**
   * Whose ratio of new to old probability counts: each token's own, the whole trajectory's (the geometric mean of its
   * tokens'), or the arithmetic or geometric mean of these two. Default: "token".
   */
  importance_sampling_level?: "token" | "sequence" | "average" | "geometric_average" | null;
  /** Leave out tokens whose ratio is outside of the clip. Default: false. */
  mask_prob_ratio?: boolean | null;
  /**
   * The job fails, before it has changed anything, when the logprobs that the trained tokens of its first group were
   * sampled with differ by more than this on average, in nats, from those that the weights it begins with give them.
   * For samplers that are other programs. Default: no bound.
   */
  max_logprob_difference?: number | null;
  /** Ratios are at most this, before they are clipped. Default: 0, no bound. */
  max_negative_advantage_importance_sampling_weight?: number | null;
  /** Subtracts this times (new logprob - old logprob) from each token's advantage. Default: 0, none. */
  kimi_k2_tau?: number | null;
  /** Another spelling of `kimi_k2_tau`. */
  variant_k2_tau?: number | null;
  /**
   * Take the logprobs of the weights that the job begins with for the old ones; the sampled ones only correct the
   * sampling (`truncated_importance_sampling`). Default: false.
   */
  precalculate_logprobs?: boolean | null;
  /**
   * Multiplies the loss by the ratio (with `precalculate_logprobs`: of old to sampled probability), at most this.
   * Default: 0, not at all.
   */
  truncated_importance_sampling?: number | null;
  /**
   * Train assistant messages and choices that carry no logprobs too, as if the current weights had sampled them; else
   * they are context. Default: false.
   */
  allow_training_without_logprobs?: boolean | null;
  /** What `packed_sequence_length` must be a multiple of; otherwise without effect. Default: 1024. */
  logprob_calculation_chunk_size?: number | null;
  /** Tokens of a trajectory at most; longer ones are dropped, and counted. Default: the model's context. */
  packed_sequence_length?: number | null;
  /**
   * A step's learning rate is multiplied by (rows in it) to this power: the sequences that it trains on, of which a
   * trajectory may give several. Default: 0.
   */
  num_trajectories_learning_rate_multiplier_power?: number | null;
  /** Accepted, without effect. */
  scale_learning_rate_by_reward_std_dev?: boolean | null;
  /** Accepted, without effect. */
  plot_tensors?: boolean | null;
  /**
   * Shapes advantages by this times how far a token's logprob is above a reference model's, against the sequence's
   * mean. 0: not at all. Default: 0.
   */
  kl_penalty_coef?: number | null;
  /**
   * Whose logprobs are compared with the reference: of the weights in training, or those it was sampled with. Default:
   * "sample" with a `kl_penalty_coef`.
   */
  kl_penalty_source?: "current_learner" | "sample" | null;
  /** The reference is the checkpoint of this step. Default: the base model. A ValidationError where there is none. */
  kl_penalty_reference_step?: number | null;
  /** The reference is the checkpoint so many steps before the latest. Not with `kl_penalty_reference_step`. */
  kl_penalty_step_lag?: number | null;
  /** The reference is the base model with the PEFT adapter in this folder. Not with the other two. */
  kl_ref_adapter_path?: string | null;
}

/** What a job would take that began now. */
export interface JobEstimate {
  /** Optimizer steps, one `gradient_step` event each. */
  steps: number;
  /** Computed forward and backward; what rows share counts once. */
  tokens: number;
  /** Besides the model, at most: the largest passes, what is trained with its optimizer, and a checkpoint's copies. */
  memory_bytes: number;
  /** On this machine as busy as it is, validation included; early stopping ends sooner. */
  seconds?: number;
  /** Why less would be learned than could be. */
  warnings: string[];
}

/** Settings of a supervised job. Absent and null both mean the default. */
export interface SftConfig {
  /** Passes over the conversations. Default: 1. */
  num_epochs?: number | null;
  /** Take the conversations of each epoch in another order, else as they are given. Default: false. */
  shuffle?: boolean | null;
  /** Of the shuffled orders, and of which conversations are held out. Default: 0. */
  seed?: number | null;
  /** Conversations per optimizer step; "auto" is 2. Default: "auto". */
  batch_size?: number | "auto" | null;
  /** Of AdamW, at most 1000: one value, or one per batch. Default: 0.00005. */
  learning_rate?: number | number[] | null;
  /**
   * What becomes of one learning rate over the batches: kept, or falling to 0. Not with a list of them. Default:
   * "constant".
   */
  learning_rate_schedule?: "constant" | "linear" | "cosine" | null;
  /** Share of the batches over which one learning rate rises from 0 first. Default: 0. */
  warmup_ratio?: number | null;
  /** What is recorded beside the job's events. */
  metric_logging?: {
    /** Whether batches are recorded as metrics of the model. Default: false. */
    enabled?: boolean | null;
    /** Step whose metrics take the job's aggregate. Default: the one that the job makes. */
    target_training_step?: number | null;
  } | null;
  /** Which assistant turns are trained. Default: "all". */
  assistant_turns?: "all" | "last" | null;
  /** Share of the conversations, or of the groups that teach, that is held out; 0: none. Default: 0. */
  validation_ratio?: number | null;
  /**
   * Optimizer steps between two validations; there is one before the first and one after the last too. Default: an
   * epoch.
   */
  validation_interval?: number | null;
  /** Validations in a row without improvement after which training ends. Default: it does not. */
  early_stopping_patience?: number | null;
  /** By how much the loss must fall to count as an improvement. Default: 0. */
  early_stopping_threshold?: number | null;
  /**
   * Make the checkpoint of the weights with the lowest loss (at worst those the job began with), not of the last.
   * Default: true where data is held out.
   */
  keep_best?: boolean | null;
}

/** An assistant turn of weight 0 is context, as it would be in the prompt of a later turn; else it is trained. */
export interface TrainingMessage {
  /** Who says it. */
  role: "system" | "developer" | "user" | "assistant" | "tool" | "function";
  /** What is said. */
  content?: string | TrajectoryContentPart[] | null;
  /** Of the one who says it, where the template shows it. */
  name?: string | null;
  /** Of an assistant: the functions that it called. At most 4096 entries. */
  tool_calls?: TrajectoryToolCall[] | null;
  /** Of a tool: the call that it answers. */
  tool_call_id?: string | null;
  /**
   * Of an assistant: what it thought first, trained with its turn where the template shows it. `reasoning_content` is
   * taken too, and with gpt-oss `thinking`.
   */
  reasoning?: string | null;
  /** 0: not trained. Default: 1. */
  weight?: 0 | 1 | null;
}

/** A conversation to imitate: its last message is the assistant's. */
export interface TrainingConversation {
  /** What was said, in order. */
  messages: TrainingMessage[];
  /** Functions that the model could call. At most 4096 entries. Default: none. */
  tools?: TrajectoryTool[] | null;
}

/** A supervised fine-tuning job, with either `data` or `training_data_url`. */
export interface SftTrainingJobCreateParams {
  /** The model to train. A NotFoundError when there is none. */
  model_id: string;
  /**
   * Conversations as in `data`, one per line of a JSONL file or as a JSON array, or of `trajectories.jsonl` or
   * `train.jsonl` in a folder. In process: any path or `file:` URL. In a request: a `file:` URL or absolute path under
   * a data root. Both: an `http(s):` URL on an allowed host, or `wandb-artifact:///entity/project/name:vN`. Not empty.
   */
  training_data_url?: string | null;
  /** The conversations themselves. At most 1000000 entries. */
  data?: TrainingConversation[] | null;
  /** Settings. Default: those of an empty one. */
  config?: SftConfig | null;
  /** Accepted, without effect. */
  experimental_config?: Record<string, unknown> | null;
}

/** What a job will take, told before its first step. */
export interface TrainingEstimate {
  /** Computed forward and backward; what rows share counts once. */
  tokens: number;
  /** Besides the model, at most: the largest passes, what is trained with its optimizer, and a checkpoint's copies. */
  memory_bytes: number;
  /** On this machine as busy as it is, validation included; early stopping ends sooner. */
  seconds?: number;
}

/** The first event of a job. */
export interface TrainingStartedEvent {
  /** Its id, which pages go by. */
  id: string;
  type: "training_started";
  /** What the job will do, and counts of what the data held. */
  data: {
    /** Optimizer steps that the job will make, one `gradient_step` each. */
    num_sequences: number;
    /** Of jobs that are not over in a moment, `seconds` too. */
    estimate?: TrainingEstimate;
    /**
     * What computes it, such as `avx512bf16` or `vulkan`, which have the same bits, or `vulkan-fast`, which has others.
     */
    kernel_set?: string;
    /** Why less is learned than could be. */
    warnings?: string[];
    /** Further fields. */
    [count: string]: unknown;
  };
}

/** An optimizer step: its loss, its gradient's norm and what else was measured. */
export interface GradientStepEvent {
  /** Its id, which pages go by. */
  id: string;
  type: "gradient_step";
  /** Name to value, such as `loss` and `grad_norm`. */
  data: Record<string, number>;
}

/** The last event of a job that succeeded: its checkpoint is served. */
export interface TrainingEndedEvent {
  /** Its id, which pages go by. */
  id: string;
  type: "training_ended";
  /** What was measured of the whole job. */
  data: {
    /** Further fields. */
    [more: string]: unknown;
  };
}

/** The last event of a job that failed, or ("cancelled") was cancelled. */
export interface TrainingFailedEvent {
  /** Its id, which pages go by. */
  id: string;
  type: "training_failed";
  /** Why. */
  data: {
    /** What went wrong, or "cancelled". */
    error_message: string;
    /** Further fields. */
    [more: string]: unknown;
  };
}

/** Told apart by `type`. A job has exactly one of the last two types, and nothing after it. */
export type TrainingEvent = TrainingStartedEvent | GradientStepEvent | TrainingEndedEvent | TrainingFailedEvent;

/** What an event is of. */
export type TrainingEventType = TrainingEvent["type"];

/** How far a job is. The last three are final. */
export type TrainingJobStatus = "queued" | "running" | "succeeded" | "failed" | "cancelled";

/** What several jobs of a model are parts of, as `train` notes it to take a run up again. */
export interface TrainingRun {
  /** The same in every job of the run. */
  id: string;
  /** null: the application gave none. */
  name: string | null;
  /** The model's step when the run began. */
  first_step: number;
  /** Jobs of the whole run. */
  steps: number;
  /** As decimal text: it may have 64 bits. */
  seed: string;
  /** How many the scenarios are. */
  scenarios: number;
  /** How many of them a job takes. */
  groups_per_step: number;
}

/** A training job of either kind. */
export interface TrainingJob {
  /** Its id. */
  id: string;
  /** How far it is. */
  status: TrainingJobStatus;
  /** The model that it trains. */
  model_id: string;
  /** ISO 8601, as are the other times. */
  created_at: string;
  /** null while it is queued. */
  started_at: string | null;
  /** null until it has ended. */
  ended_at: string | null;
  /** Step of the checkpoint that the job made; null until it has succeeded. */
  step: number | null;
  /** Why it failed. */
  error: string | null;
  /** `disk_space`: the disk is full, and the job goes on by itself once there is room. null: nothing holds it up so. */
  waits_for: "disk_space" | null;
  /** Of a job that `train` made. */
  run?: TrainingRun;
}

/** A reinforcement learning job. */
export interface TrainingJobCreateParams {
  /** The model to train. A NotFoundError when there is none. */
  model_id: string;
  /** What to learn from: one optimizer step per group. At most 1000000 entries. */
  trajectory_groups: TrajectoryGroup[];
  /** Settings. Default: those of an empty one. */
  experimental_config?: ExperimentalConfig | null;
  /** Kept with the job, without a meaning for it. */
  run?: TrainingRun | null;
}

/** A job that is queued. */
export interface TrainingJobCreated {
  /** The job's id. */
  id: string;
}

/** A session that holds a model, whose jobs wait until it is closed. */
export interface TrainingSessionInfo {
  /** Its id, to close it by. */
  id: string;
  /** The model that it holds. */
  model_id: string;
  /** ISO 8601. */
  opened_at: string;
}

/** Held-out data of a job, and what follows from its loss (`val/loss` of events and checkpoints). */
export interface ValidationConfig {
  /** Share of the conversations, or of the groups that teach, that is held out; 0: none. Default: 0. */
  validation_ratio?: number | null;
  /**
   * Optimizer steps between two validations; there is one before the first and one after the last too. Default: an
   * epoch.
   */
  validation_interval?: number | null;
  /** Validations in a row without improvement after which training ends. Default: it does not. */
  early_stopping_patience?: number | null;
  /** By how much the loss must fall to count as an improvement. Default: 0. */
  early_stopping_threshold?: number | null;
  /**
   * Make the checkpoint of the weights with the lowest loss (at worst those the job began with), not of the last.
   * Default: true where data is held out.
   */
  keep_best?: boolean | null;
}
