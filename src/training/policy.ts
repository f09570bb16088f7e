// What an RL job's configuration means: every field of `experimental_config`, absent or null standing for its default.

import { ValidationError, type ValidationIssue } from "../errors.js";
import { POLICY_LOSSES } from "../policyLosses.js";
import type { PolicyLossSettings } from "../runtime/runtime.js";
import type { ExperimentalConfig } from "../types/training.js";
import type { LearningRateSettings } from "./learningRates.js";
import { MAX_LEARNING_RATE } from "./optimizer.js";
import { resolveValidation, type ValidationSettings } from "./validation.js";

/** Which logprobs the KL-shaped advantage is measured against. */
export type KlReference = { kind: "base" } | { kind: "step"; step: number } | { kind: "folder"; path: string };

export interface Policy {
  learningRate: number;
  /** What becomes of it over the optimizer steps. */
  schedule: Omit<LearningRateSettings, "peak">;
  /** Of the mean entropy that is taken from the loss. */
  entropyCoef: number;
  loss: PolicyLossSettings;
  scaleRewards: boolean;
  balance: number;
  /** Old logprobs are those of the weights the job starts from, the sampled ones only correct the sampling. */
  precalculateLogprobs: boolean;
  allowWithoutLogprobs: boolean;
  /** Mean difference of sampled and computed logprobs beyond which a job fails; null: none. */
  maxLogprobDifference: number | null;
  /** Longest row in tokens; null: the model's context. */
  maxRowTokens: number | null;
  /** The learning rate of a step is multiplied by (rows in it) ^ this. */
  learningRatePower: number;
  /** null: no group is held out. */
  validation: ValidationSettings | null;
  /** null: no KL-shaped advantage. */
  klReference: KlReference | null;
}

const DEFAULT_LEARNING_RATE = 5e-6;
/** Nothing is computed in such chunks here: other trainers are, and rows are bounded by whole ones. */
const DEFAULT_CHUNK = 1024;
/** What the native core takes. */
const MAX_SETTING = 1e30;

/**
 * Resolves an RL configuration. `currentStep` is the step that the job trains from (a step lag counts back from it).
 * @throws ValidationError naming every field that is out of range, or contradicts another.
 */
export function resolvePolicy(given: ExperimentalConfig | null | undefined, currentStep: number): Policy {
  const config = given ?? {};
  const issues: ValidationIssue[] = [];
  const reject = (field: keyof ExperimentalConfig, msg: string) =>
    issues.push({ loc: ["body", "experimental_config", field], msg, type: "value_error" });
  const number = (field: NumberField, fallback: number, valid: (value: number) => boolean, rule: string): number => {
    const value = config[field] ?? fallback;
    if (Number.isFinite(value) && valid(value)) return value;
    reject(field, `must be ${rule}, got ${value}`);
    return fallback;
  };
  const rate = (value: number) => value >= 0 && value <= MAX_LEARNING_RATE;
  const atLeastZero = `at least 0 and at most ${MAX_SETTING}`;
  const notNegative = (value: number) => value >= 0 && value <= MAX_SETTING;

  // `loss_fn` wins over `ppo`, and either of the two scaling switches turns scaling off.
  const objective = config.loss_fn ?? (config.ppo === true ? "ppo" : "cispo");
  const defaults = POLICY_LOSSES[objective];
  const epsilon = number("epsilon", defaults.epsilon, notNegative, atLeastZero);
  const epsilonHigh = number("epsilon_high", defaults.epsilonHigh ?? epsilon, notNegative, atLeastZero);
  const cap = "max_negative_advantage_importance_sampling_weight";
  if (config.kimi_k2_tau != null && config.variant_k2_tau != null && config.kimi_k2_tau !== config.variant_k2_tau) {
    reject("variant_k2_tau", "contradicts kimi_k2_tau, of which it is another spelling");
  }
  const tau = number(config.kimi_k2_tau != null ? "kimi_k2_tau" : "variant_k2_tau", 0, notNegative, atLeastZero);
  const klCoef = number("kl_penalty_coef", 0, notNegative, atLeastZero);
  const truncation = number("truncated_importance_sampling", 0, notNegative, atLeastZero);
  const precalculateLogprobs = config.precalculate_logprobs ?? false;
  const isWhole = (value: number) => Number.isInteger(value) && value > 0;
  const chunk = number("logprob_calculation_chunk_size", DEFAULT_CHUNK, isWhole, "a whole number above 0");
  const longest = number("packed_sequence_length", chunk, isWhole, "a whole number above 0");
  if (longest % chunk !== 0) {
    reject("packed_sequence_length", `must be a multiple of logprob_calculation_chunk_size (${chunk})`);
  }
  const policy: Policy = {
    maxLogprobDifference:
      config.max_logprob_difference == null ? null : number("max_logprob_difference", 0, notNegative, atLeastZero),
    learningRate: number("learning_rate", DEFAULT_LEARNING_RATE, rate, `between 0 and ${MAX_LEARNING_RATE}`),
    schedule: {
      schedule: config.learning_rate_schedule ?? "constant",
      warmupRatio: number("warmup_ratio", 0, (value) => value >= 0 && value <= 1, "between 0 and 1"),
    },
    entropyCoef: number("entropy_coef", 0, notNegative, atLeastZero),
    loss: {
      objective,
      level: config.importance_sampling_level ?? "token",
      clipLow: 1 - epsilon,
      clipHigh: 1 + epsilonHigh,
      ratioCap: number(cap, 0, notNegative, atLeastZero),
      maskOutsideClip: config.mask_prob_ratio ?? false,
      tau,
      klCoef,
      klSource: config.kl_penalty_source ?? "sample",
      truncation,
      truncateByOriginal: precalculateLogprobs,
    },
    scaleRewards: (config.scale_rewards ?? true) && (config.normalize_advantages ?? true),
    balance: number("advantage_balance", 0, (value) => Math.abs(value) <= 1, "between -1 and 1"),
    precalculateLogprobs,
    allowWithoutLogprobs: config.allow_training_without_logprobs ?? false,
    maxRowTokens: config.packed_sequence_length == null ? null : longest,
    learningRatePower: number("num_trajectories_learning_rate_multiplier_power", 0, () => true, "a finite number"),
    validation: resolveValidation(config, reject),
    klReference: klReference(config, klCoef, currentStep, reject),
  };
  if (issues.length > 0) throw new ValidationError(issues);
  return policy;
}

type NumberField = {
  [K in keyof ExperimentalConfig]-?: NonNullable<ExperimentalConfig[K]> extends number ? K : never;
}[keyof ExperimentalConfig];

function klReference(
  config: ExperimentalConfig,
  coefficient: number,
  currentStep: number,
  reject: (field: keyof ExperimentalConfig, msg: string) => void,
): KlReference | null {
  const fields = ["kl_penalty_reference_step", "kl_penalty_step_lag", "kl_ref_adapter_path"] as const;
  const named = fields.filter((field) => config[field] != null);
  if (named.length > 1) reject(named[1]!, `cannot be combined with ${named[0]}`);
  const { kl_penalty_reference_step: step, kl_penalty_step_lag: lag, kl_ref_adapter_path: path } = config;
  if (step != null && (!Number.isInteger(step) || step < 0)) reject(fields[0], "must be a whole number, at least 0");
  if (lag != null && (!Number.isInteger(lag) || lag < 1)) reject(fields[1], "must be a whole number, at least 1");
  if (coefficient === 0) return null;
  if (path != null) return { kind: "folder", path };
  if (step != null) return { kind: "step", step };
  if (lag != null) return { kind: "step", step: Math.max(0, currentStep - lag) };
  return { kind: "base" };
}
