import { z } from "zod";
import type { TrainingConversation } from "../types/training.js";
import { list, map } from "./limited.js";
import { uuid } from "./names.js";
import { orderedPageQuery } from "./pages.js";
import { trajectoryGroups } from "./trajectories.js";
import { settingsObject } from "./validate.js";

export const MAX_RUN_NAME = 256;
/** Of a 64-bit integer with its sign, and room to spare. */
const MAX_SEED_DIGITS = 40;

const fraction = z.number().min(0);
const MAX_EPOCHS = 10_000;

const schedule = {
  learning_rate_schedule: z.enum(["constant", "linear", "cosine"]).nullish(),
  warmup_ratio: z.number().min(0).max(1).nullish(),
};

const validation = {
  validation_ratio: z.number().min(0).lt(1).nullish(),
  validation_interval: z.int().min(1).nullish(),
  early_stopping_patience: z.int().min(1).nullish(),
  early_stopping_threshold: fraction.nullish(),
  keep_best: z.boolean().nullish(),
};

/** On the wire unknown settings are ignored, in process they are errors. */
export const experimentalConfig = settingsObject({
  learning_rate: fraction.nullish(),
  ...schedule,
  entropy_coef: fraction.nullish(),
  ...validation,
  loss_fn: z.enum(["cispo", "ppo"]).nullish(),
  ppo: z.boolean().nullish(),
  epsilon: fraction.nullish(),
  epsilon_high: fraction.nullish(),
  advantage_balance: z.number().min(-1).max(1).nullish(),
  scale_rewards: z.boolean().nullish(),
  normalize_advantages: z.boolean().nullish(),
  importance_sampling_level: z.enum(["token", "sequence", "average", "geometric_average"]).nullish(),
  mask_prob_ratio: z.boolean().nullish(),
  max_negative_advantage_importance_sampling_weight: fraction.nullish(),
  kimi_k2_tau: fraction.nullish(),
  variant_k2_tau: fraction.nullish(),
  precalculate_logprobs: z.boolean().nullish(),
  truncated_importance_sampling: fraction.nullish(),
  allow_training_without_logprobs: z.boolean().nullish(),
  logprob_calculation_chunk_size: z.int().min(1).nullish(),
  packed_sequence_length: z.int().min(1).nullish(),
  num_trajectories_learning_rate_multiplier_power: z.number().nullish(),
  scale_learning_rate_by_reward_std_dev: z.boolean().nullish(),
  plot_tensors: z.boolean().nullish(),
  kl_penalty_coef: fraction.nullish(),
  kl_penalty_source: z.enum(["current_learner", "sample"]).nullish(),
  kl_penalty_reference_step: z.int().min(0).nullish(),
  kl_penalty_step_lag: z.int().min(1).nullish(),
  kl_ref_adapter_path: z.string().nullish(),
});

const trainingRun = z.object({
  id: uuid,
  name: z.string().max(MAX_RUN_NAME).nullable(),
  first_step: z.int().min(0),
  steps: z.int().min(0),
  seed: z.string().max(MAX_SEED_DIGITS),
  scenarios: z.int().min(0),
  groups_per_step: z.int().min(0),
});

export const trainingJobCreate = z.object({
  model_id: uuid,
  trajectory_groups: trajectoryGroups,
  experimental_config: experimentalConfig.nullish(),
  run: trainingRun.nullish(),
});

/** Learning rates of single steps. */
const MAX_STEPS = 1_000_000;

const sftConfig = settingsObject({
  batch_size: z.union([z.int().min(1), z.literal("auto")]).nullish(),
  // Schedules end at 0.
  learning_rate: z.union([fraction, list(fraction, MAX_STEPS).min(1)]).nullish(),
  ...schedule,
  metric_logging: settingsObject({
    enabled: z.boolean().nullish(),
    target_training_step: z.int().min(0).nullish(),
  }).nullish(),
  assistant_turns: z.enum(["all", "last"]).nullish(),
  num_epochs: z.int().min(1).max(MAX_EPOCHS).nullish(),
  shuffle: z.boolean().nullish(),
  seed: z.int().nullish(),
  ...validation,
});

/** In a request itself; files have no such bound. */
const MAX_CONVERSATIONS = 1_000_000;
/** Checked as the lines of a file are. */
const conversation = z.unknown() as z.ZodType<TrainingConversation>;

export const sftTrainingJobCreate = z.object({
  model_id: uuid,
  training_data_url: z.string().min(1).nullish(),
  data: list(conversation, MAX_CONVERSATIONS).nullish(),
  config: sftConfig.nullish(),
  experimental_config: map(z.unknown(), 1024).nullish(),
});

export const trainingJobCreated = z.object({ id: uuid });

const jobStatus = z.enum(["queued", "running", "succeeded", "failed", "cancelled"]);

export const trainingJob = z.object({
  id: uuid,
  status: jobStatus,
  model_id: uuid,
  created_at: z.string(),
  started_at: z.string().nullable(),
  ended_at: z.string().nullable(),
  step: z.int().nullable(),
  error: z.string().nullable(),
  run: trainingRun.optional(),
});

export const trainingSession = z.object({ id: uuid, model_id: uuid, opened_at: z.string() });

export const jobQuery = orderedPageQuery.extend({ model_id: uuid.nullish(), status: jobStatus.nullish() });

const event = <T extends string, D extends z.ZodType>(type: T, data: D) =>
  z.object({ id: uuid, type: z.literal(type), data });

export const trainingEvent = z.discriminatedUnion("type", [
  event("training_started", z.looseObject({ num_sequences: z.int(), warnings: z.array(z.string()).optional() })),
  event("gradient_step", z.record(z.string(), z.number())),
  event("training_ended", z.looseObject({})),
  event("training_failed", z.looseObject({ error_message: z.string() })),
]);
