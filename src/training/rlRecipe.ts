// Reinforcement learning: one policy-gradient step per batch of trajectory groups (rlPlan.ts).

import { ConflictError, ValidationError } from "../errors.js";
import type { Store } from "../store/store.js";
import type { TrainingJobCreateParams } from "../types/training.js";
import { workOf } from "./estimate.js";
import { type GroupSource, withPlaces } from "./groupSource.js";
import type { TrainingOptions } from "./host.js";
import type { Learner } from "./learner.js";
import { learningRates } from "./learningRates.js";
import { MetricNames } from "./logMetrics.js";
import { measuringSampler, type PolicyRow, policyGradientLoss, withEntropyBonus } from "./losses.js";
import { MAX_LEARNING_RATE } from "./optimizer.js";
import { computedTokens } from "./packing.js";
import { type Policy, resolvePolicy } from "./policy.js";
import { createPromptRenderer } from "./promptRenderer.js";
import { evaluationCount, finiteNumbers, type Recipe, type RecipeValidation } from "./recipe.js";
import { checkReferenceStep } from "./referenceCheckpoint.js";
import { planBatches, type RlBatch, type RlPlan, staleWarnings } from "./rlPlan.js";
import type { TrainingBase } from "./trainingBase.js";
import { checkTrajectory } from "./trajectoryRows.js";

export interface RlRequestContext {
  store: Store;
  /** Of the model. */
  base: TrainingBase;
  /** A folder that a request names, if it may be read. @throws ValidationError at `field` */
  adapterFolder(field: string, path: string): string;
}

/**
 * Everything about an RL request that can be told without rendering prompts.
 * @throws ValidationError naming the field.
 */
export async function checkRlRequest(
  { store, base, adapterFolder }: RlRequestContext,
  { model_id: modelId, experimental_config: config }: Omit<TrainingJobCreateParams, "trajectory_groups">,
  groups: GroupSource,
): Promise<void> {
  const policy = resolvePolicy(config, store.checkpoints.latest(modelId)?.step ?? 0);
  const reference = policy.klReference;
  if (reference?.kind === "step") checkReferenceStep(store, modelId, config, reference.step);
  if (reference?.kind === "folder") adapterFolder("experimental_config.kl_ref_adapter_path", reference.path);
  const renderer = createPromptRenderer(base, new Date());
  const names = new MetricNames();
  for await (const entry of withPlaces(groups)) {
    if ("group" in entry) {
      names.add(entry.group);
    } else {
      names.add(entry.trajectory);
      checkTrajectory(entry.trajectory, renderer, policy, entry.path);
    }
  }
}

export interface RlContext {
  base: TrainingBase;
  optimizerStep: TrainingOptions["optimizerStep"];
  /** The step that the job trains from. */
  currentStep: number;
  /** When the job was asked for: the time in the prompts of trajectories that do not say when they began. */
  createdAt: Date;
  /** Ends the preparation. */
  signal: AbortSignal;
  /** For people who run the engine. */
  warn(message: string): void;
  /**
   * A version on the device of one of the model's checkpoints, of the one that the KL penalty is measured against, or of an
   * adapter folder; the recipe releases it.
   */
  loadStep(step: number): Promise<number>;
  loadReference(step: number): Promise<number>;
  loadFolder(path: string): Promise<number>;
}

/** Prepares an RL job. What it does is a function of the request and of the weights at `currentStep` only. */
export async function createRlRecipe(
  groups: GroupSource,
  config: TrainingJobCreateParams["experimental_config"],
  context: RlContext,
): Promise<Recipe> {
  const { base } = context;
  const policy = resolvePolicy(config, context.currentStep);
  const maxRowTokens = Math.min(policy.maxRowTokens ?? base.contextLength, base.contextLength);
  const plan = await planBatches(groups, createPromptRenderer(base, context.createdAt), policy, {
    maxRowTokens,
    optimizerStep: context.optimizerStep,
    signal: context.signal,
  });
  const loadedVersions: number[] = [];
  const held = async (version: Promise<number>) => {
    const loaded = await version;
    loadedVersions.push(loaded);
    return loaded;
  };
  const close = () => {
    for (const version of loadedVersions.splice(0)) if (version > 0) base.device.releaseAdapter(version);
  };
  try {
    const reference = policy.klReference;
    let referenceVersion = 0;
    if (reference?.kind === "step") referenceVersion = await held(context.loadReference(reference.step));
    if (reference?.kind === "folder") referenceVersion = await held(context.loadFolder(reference.path));
    const precalculate = policy.precalculateLogprobs && plan.batches.length > 0;
    const startVersion = precalculate ? await held(context.loadStep(context.currentStep)) : 0;
    const rates = learningRates({ peak: policy.learningRate, ...policy.schedule }, plan.batches.length);
    checkScaledRates(plan, policy, rates);
    const versions = { referenceVersion, startVersion };
    const validation = validationOf(plan, policy, versions);
    const { perStep, largest } = await workOf(
      {
        steps: plan.batches,
        heldOut: plan.heldOut,
        isSeparable: policy.loss.klCoef === 0,
        usesEntropy: policy.entropyCoef !== 0,
      },
      base,
    );
    const total = perStep.reduce((sum, tokens) => sum + tokens, 0);
    // Of weights other than the trained ones.
    const passes = Number(policy.klReference !== null) + Number(policy.precalculateLogprobs);
    return {
      objective: "rl",
      steps: plan.batches.length,
      started: {
        counts: plan.counts,
        warnings: [...plan.warnings, ...staleWarnings(plan, context.currentStep)],
      },
      validation,
      work: {
        perStep,
        largest,
        evaluated:
          passes * total +
          (validation ? (passes + evaluationCount(perStep.length, validation)) * computedTokens(plan.heldOut) : 0),
        probe: plan.batches[0]?.rows[0] ?? null,
      },
      async step(index, learner) {
        const metrics = await rlStep(plan.batches[index]!, policy, learner, versions, rates[index]!, index === 0);
        const warning = index === 0 ? ratioWarning(plan, policy, metrics) : null;
        if (warning) context.warn(warning);
        return metrics;
      },
      close,
    };
  } catch (error) {
    close();
    throw error;
  }
}

/** The first step of a job sees the weights that most of its choices were sampled with: their ratios are then exactly 1. */
function ratioWarning({ counts }: RlPlan, policy: Policy, metrics: Record<string, number>): string | null {
  const exact = metrics.ratio_exact_share;
  if (policy.precalculateLogprobs || counts.rerendered_prompts === 0 || exact === undefined || exact === 1) return null;
  const share = `${Math.round(exact * 1000) / 10} %`;
  return (
    `only ${share} of the first step's importance ratios are 1, and prompts were rendered again: either the choices were sampled ` +
    "with other weights, or their messages do not give the prompts they were sampled from (request return_token_ids)"
  );
}

/** Versions on the device. */
interface Versions {
  referenceVersion: number;
  startVersion: number;
}

/** The rows with what other weights than the trained ones say of them, as far as the loss looks at it. */
async function withOtherLogprobs(
  given: PolicyRow[],
  policy: Policy,
  learner: Learner,
  versions: Versions,
): Promise<PolicyRow[]> {
  let rows = given;
  if (policy.klReference) {
    const { logprobs } = await learner.logprobs(rows, versions.referenceVersion);
    rows = rows.map((row, r) => ({ ...row, reference: logprobs[r]! }));
  }
  if (policy.precalculateLogprobs) {
    const { logprobs } = await learner.logprobs(rows, versions.startVersion);
    rows = rows.map((row, r) => ({ ...row, original: row.oldLogprobs, oldLogprobs: logprobs[r]! }));
  }
  return rows;
}

/**
 * The loss of held-out groups is ppo's, whatever the job's: its value falls as the policy improves, which that of cispo (a
 * gradient's stand-in) need not.
 */
function validationOf(
  { heldOut: given, batches }: RlPlan,
  policy: Policy,
  versions: Versions,
): RecipeValidation | null {
  if (!policy.validation || given.length === 0) return null;
  let rows: PolicyRow[] | null = null;
  return {
    ...policy.validation,
    interval: policy.validation.interval ?? batches.length,
    async loss(learner) {
      rows ??= await withOtherLogprobs(given, policy, learner, versions);
      const loss = policyGradientLoss(rows, { ...policy.loss, objective: "ppo" });
      return loss(await learner.logprobs(rows)).metrics.loss!;
    },
  };
}

/** @throws ConflictError when what sampled the tokens is too far from what is trained. */
function checkSampler(difference: number | undefined, { maxLogprobDifference: bound }: Policy): void {
  if (bound === null || difference === undefined || difference <= bound) return;
  const found = `differ by ${difference.toPrecision(3)} on average from those computed here, more than ${bound}`;
  throw new ConflictError(`the logprobs that tokens were sampled with ${found}`, {
    code: "sampler_mismatch",
    param: "experimental_config.max_logprob_difference",
    hint: "see that the sampler has the weights that are trained and computes in the same type, or raise the bound",
  });
}

const scaledRate = (rate: number, rows: number, { learningRatePower }: Policy): number =>
  rate * rows ** learningRatePower;

/** @throws ValidationError when the learning rate of a step becomes more than may be */
function checkScaledRates({ batches }: RlPlan, policy: Policy, rates: readonly number[]): void {
  for (const [index, { rows }] of batches.entries()) {
    const rate = scaledRate(rates[index]!, rows.length, policy);
    if (rate <= MAX_LEARNING_RATE) continue;
    throw ValidationError.at(
      "experimental_config.num_trajectories_learning_rate_multiplier_power",
      `makes ${rates[index]} a learning rate of ${rate} in a step of ${rows.length} rows; at most ${MAX_LEARNING_RATE} can be`,
    );
  }
}

async function rlStep(
  batch: RlBatch,
  policy: Policy,
  learner: Learner,
  versions: Versions,
  learningRate: number,
  isFirst: boolean,
): Promise<Record<string, number>> {
  const started = performance.now();
  const rows = await withOtherLogprobs(batch.rows, policy, learner, versions);
  const gradient = measuringSampler(policyGradientLoss(rows, policy.loss), rows);
  const loss = withEntropyBonus(gradient, rows, policy.entropyCoef);
  const { metrics } = await learner.forwardBackward(rows, loss);
  // Later groups are trained on weights that the job itself has moved.
  if (isFirst) checkSampler(metrics.logprob_difference_mean, policy);
  const { gradNorm, isApplied = Number.isFinite(gradNorm) } = await learner.optimStep({
    learningRate: scaledRate(learningRate, rows.length, policy),
  });
  const { loss: total, policy_loss: policyLoss = total, entropy, kl_policy_ref: kl, ...others } = metrics;
  const tokens = rows.reduce((sum, row) => sum + row.tokens.length, 0);
  return finiteNumbers({
    "loss/train": total!,
    "loss/entropy": entropy!,
    "loss/learning_rate": learningRate,
    "loss/grad_norm": gradNorm,
    ...(kl === undefined ? {} : { "loss/kl_policy_ref": kl, kl_policy_ref: kl }),
    // The same under the plain names that older clients read.
    loss: total!,
    policy_loss: policyLoss!,
    entropy: entropy!,
    learning_rate: learningRate,
    grad_norm: gradNorm,
    ...others,
    skipped_update: isApplied ? 0 : 1,
    tokens_per_second: tokens / Math.max((performance.now() - started) / 1000, 1e-9),
  });
}
