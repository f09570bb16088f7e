import type { TrajectoryGroup, TrajectoryMessage, TrajectoryTool } from "./trajectories.js";

/** Held-out data of a job, and what follows from its loss (`val/loss` of events and checkpoints). */
export interface ValidationConfig {
  /** Share of the conversations, or of the groups that teach, that is held out: at least 0, below 1. Default 0: none. */
  validation_ratio?: number | null;
  /** Optimizer steps between two validations; there is one before the first and one after the last too. Default: an epoch. */
  validation_interval?: number | null;
  /** Validations in a row without improvement after which training ends. Default: it does not. */
  early_stopping_patience?: number | null;
  /** By how much the loss must fall to count as an improvement, at least 0. Default 0. */
  early_stopping_threshold?: number | null;
  /** Make the checkpoint of the weights with the lowest loss (at worst those the job began with), not of the last. Default true. */
  keep_best?: boolean | null;
}

/**
 * Settings of a reinforcement learning job. Absent and null both mean the default. The loss of held-out groups is minus the
 * mean, over their trained tokens, of the ratio (clipped as ppo does, between the loss's own bounds) times the advantage.
 */
export interface ExperimentalConfig extends ValidationConfig {
  /** Default 5e-6. */
  learning_rate?: number | null;
  /** What becomes of it over the job's optimizer steps (in `train`, over the run's jobs): kept, or falling to 0. Default "constant". */
  learning_rate_schedule?: "constant" | "linear" | "cosine" | null;
  /** Share of the steps over which it rises from 0 first, 0 to 1. Default 0. */
  warmup_ratio?: number | null;
  /** Subtracts this times the mean entropy of the trained tokens (in nats, over the whole vocabulary) from the loss. Default 0. */
  entropy_coef?: number | null;
  /** Default "cispo". */
  loss_fn?: "cispo" | "ppo" | null;
  /** true: the ppo loss, unless `loss_fn` says otherwise. */
  ppo?: boolean | null;
  /** Lower clip: the ratio is kept above 1 - epsilon. Default 1.0 (cispo), 0.2 (ppo). */
  epsilon?: number | null;
  /** Upper clip: the ratio is kept below 1 + epsilon_high. Default 4.0 (cispo), `epsilon` (ppo). */
  epsilon_high?: number | null;
  /** -1 to 1; above 0 weakens negative advantages, below 0 positive ones. Default 0. */
  advantage_balance?: number | null;
  /** Divide advantages by their group's deviation. Default true. */
  scale_rewards?: boolean | null;
  normalize_advantages?: boolean | null;
  /** Default "token". */
  importance_sampling_level?: "token" | "sequence" | "average" | "geometric_average" | null;
  mask_prob_ratio?: boolean | null;
  max_negative_advantage_importance_sampling_weight?: number | null;
  /** Two spellings of one setting. */
  kimi_k2_tau?: number | null;
  variant_k2_tau?: number | null;
  precalculate_logprobs?: boolean | null;
  truncated_importance_sampling?: number | null;
  allow_training_without_logprobs?: boolean | null;
  logprob_calculation_chunk_size?: number | null;
  packed_sequence_length?: number | null;
  num_trajectories_learning_rate_multiplier_power?: number | null;
  /** Accepted, without effect, as is the next. */
  scale_learning_rate_by_reward_std_dev?: boolean | null;
  plot_tensors?: boolean | null;
  kl_penalty_coef?: number | null;
  kl_penalty_source?: "current_learner" | "sample" | null;
  kl_penalty_reference_step?: number | null;
  kl_penalty_step_lag?: number | null;
  kl_ref_adapter_path?: string | null;
}

export interface TrainingJobCreateParams {
  model_id: string;
  trajectory_groups: TrajectoryGroup[];
  experimental_config?: ExperimentalConfig | null;
  /** Kept with the job, without a meaning for it. */
  run?: TrainingRun | null;
}

/** What several jobs of a model are parts of, as `train` notes it to take a run up again. */
export interface TrainingRun {
  id: string;
  /** null: the application gave none. */
  name: string | null;
  /** The model's step when the run began. */
  first_step: number;
  /** Jobs of the whole run. */
  steps: number;
  /** As decimal text: it may have 64 bits. */
  seed: string;
  /** How many the scenarios are, and how many of them a job takes. */
  scenarios: number;
  groups_per_step: number;
}

/** Settings of a supervised job. Absent and null both mean the default. */
export interface SftConfig extends ValidationConfig {
  /** Passes over the conversations. Default 1. */
  num_epochs?: number | null;
  /** Take the conversations of each epoch in another order. Default false: as they are given. */
  shuffle?: boolean | null;
  /** Of the shuffled orders, and of which conversations are held out. Default 0. */
  seed?: number | null;
  /** Trajectories per optimizer step; "auto" or absent: 2. */
  batch_size?: number | "auto" | null;
  /** One value, or one per batch. Default 5e-5. */
  learning_rate?: number | number[] | null;
  /** What becomes of one learning rate over the batches: kept, or falling to 0. Default "constant". */
  learning_rate_schedule?: "constant" | "linear" | "cosine" | null;
  /** Share of the batches over which one learning rate rises from 0 first, 0 to 1. Default 0. */
  warmup_ratio?: number | null;
  metric_logging?: { enabled?: boolean | null; target_training_step?: number | null } | null;
  /** Which assistant turns are trained. Default "all". */
  assistant_turns?: "all" | "last" | null;
}

/** A conversation to imitate: its last message is the assistant's. */
export interface TrainingConversation {
  messages: TrainingMessage[];
  tools?: TrajectoryTool[] | null;
}

/** An assistant turn of weight 0 is context, as it would be in the prompt of a later turn; else it is trained. */
export interface TrainingMessage extends TrajectoryMessage {
  weight?: 0 | 1 | null;
}

/** With either `data` or `training_data_url`. */
export interface SftTrainingJobCreateParams {
  model_id: string;
  data?: TrainingConversation[] | null;
  /**
   * Conversations as in `data`, one per line of a JSONL file, or of `trajectories.jsonl` or `train.jsonl` in a folder. In process:
   * any path or `file:` URL. In a request: a `file:` URL or absolute path under a data root. Both: an `http(s):` URL on an
   * allowed host, or `wandb-artifact:///entity/project/name:vN`.
   */
  training_data_url?: string | null;
  config?: SftConfig | null;
  experimental_config?: Record<string, unknown> | null;
}

export interface TrainingJobCreated {
  id: string;
}

export type TrainingJobStatus = "queued" | "running" | "succeeded" | "failed" | "cancelled";

export interface TrainingJob {
  id: string;
  status: TrainingJobStatus;
  model_id: string;
  /** ISO 8601, as are the other times. */
  created_at: string;
  started_at: string | null;
  ended_at: string | null;
  /** Step of the checkpoint that the job made; null until it has succeeded. */
  step: number | null;
  error: string | null;
  /** Of a job that `train` made. */
  run?: TrainingRun;
}

/** What a job will take, told before its first step. */
export interface TrainingEstimate {
  /** Computed forward and backward; what rows share counts once. */
  tokens: number;
  /** Besides the model: activations of the largest pass, and the state of what is trained. */
  memory_bytes: number;
  /** On this machine as busy as it is, validation included; early stopping ends sooner. */
  seconds?: number;
}

/** The first event of a job. */
export interface TrainingStartedEvent {
  id: string;
  type: "training_started";
  data: {
    /** Optimizer steps that the job will make, one `gradient_step` each. */
    num_sequences: number;
    /** Of jobs that are not over in a moment, `seconds` too. */
    estimate?: TrainingEstimate;
    /** Why less is learned than could be. */
    warnings?: string[];
    /** Counts of what the data held. */
    [count: string]: unknown;
  };
}

/** An optimizer step: its loss, its gradient's norm and what else was measured. */
export interface GradientStepEvent {
  id: string;
  type: "gradient_step";
  data: Record<string, number>;
}

/** The last event of a job that succeeded: its checkpoint is served. */
export interface TrainingEndedEvent {
  id: string;
  type: "training_ended";
  data: Record<string, unknown>;
}

/** The last event of a job that failed, or ("cancelled") was cancelled. */
export interface TrainingFailedEvent {
  id: string;
  type: "training_failed";
  data: { error_message: string; [more: string]: unknown };
}

/** Told apart by `type`. A job has exactly one of the last two types, and nothing after it. */
export type TrainingEvent = TrainingStartedEvent | GradientStepEvent | TrainingEndedEvent | TrainingFailedEvent;

export type TrainingEventType = TrainingEvent["type"];
