// Reinforcement learning: trajectory groups to advantages to one policy-gradient step per group.

import { ConflictError, ValidationError } from "../errors.js";
import { shouldYield, yieldToEventLoop } from "../eventLoop.js";
import type { Store } from "../store/store.js";
import type { TrainingJobCreateParams } from "../types/training.js";
import type { Trajectory } from "../types/trajectories.js";
import { groupAdvantages, normaliseBatch, trajectoryWeight, type Weighted } from "./advantages.js";
import { computedTokens, workOf } from "./estimate.js";
import type { GroupFields, GroupSource } from "./groupSource.js";
import type { TrainingBase, TrainingOptions } from "./host.js";
import type { Learner } from "./learner.js";
import { learningRates } from "./learningRates.js";
import { MetricNames } from "./logMetrics.js";
import { measuringSampler, type PolicyRow, policyGradientLoss, withEntropyBonus } from "./losses.js";
import { type Policy, resolvePolicy } from "./policy.js";
import { createPromptRenderer } from "./promptRenderer.js";
import { finiteNumbers, looksOf, type Recipe, type RecipeValidation } from "./recipe.js";
import { checkTrajectory, type PromptRenderer, type TrajectoryRow, tokenizeTrajectory } from "./rows.js";
import { heldOut } from "./validation.js";

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
  if (reference?.kind === "step" && store.checkpoints.get(modelId, reference.step) === null) {
    const field = config?.kl_penalty_reference_step == null ? "kl_penalty_step_lag" : "kl_penalty_reference_step";
    throw ValidationError.at(`experimental_config.${field}`, `the model has no checkpoint at step ${reference.step}`);
  }
  if (reference?.kind === "folder") adapterFolder("experimental_config.kl_ref_adapter_path", reference.path);
  const renderer = createPromptRenderer(base, new Date());
  const names = new MetricNames();
  for await (const { one, path } of placed(groups)) {
    names.add(one);
    if (path !== null) checkTrajectory(one as Trajectory, renderer, policy, path);
  }
}

interface Placed {
  g: number;
  t: number;
  /** A trajectory; or, where `path` is null, a group, whose trajectories follow. */
  one: Trajectory | GroupFields;
  /** The trajectory's. */
  path: string | null;
}

async function* placed(groups: GroupSource): AsyncGenerator<Placed> {
  let g = -1;
  let t = -1;
  for await (const entry of groups.entries()) {
    if ("group" in entry) {
      g += 1;
      t = -1;
      yield { g, t, one: entry.group, path: null };
    } else {
      t += 1;
      yield { g, t, one: entry.trajectory, path: `trajectory_groups.${g}.trajectories.${t}` };
    }
  }
}

/** What has to be known of all groups before the first trajectory is tokenized. */
interface Overview {
  /** By group. */
  rewards: number[][];
  /** The steps that trajectories say they were sampled at, and how many do. */
  sampledAt: Map<number, number>;
}

async function overviewOf(groups: GroupSource): Promise<Overview> {
  const rewards: number[][] = [];
  const sampledAt = new Map<number, number>();
  for await (const entry of groups.entries()) {
    if ("group" in entry) {
      rewards.push([]);
    } else {
      const { reward, final_policy_version, initial_policy_version } = entry.trajectory;
      rewards.at(-1)!.push(reward);
      const step = final_policy_version ?? initial_policy_version ?? null;
      if (step !== null) sampledAt.set(step, (sampledAt.get(step) ?? 0) + 1);
    }
  }
  return { rewards, sampledAt };
}

/** The rows that share one reduction and one optimizer step. */
interface Unit {
  rows: PolicyRow[];
}

interface PlannedTrajectory extends Weighted {
  rows: TrajectoryRow[];
}

interface PlanLimits {
  maxRowTokens: number;
  optimizerStep: TrainingOptions["optimizerStep"];
  signal: AbortSignal;
}

export interface Plan {
  units: Unit[];
  /** Of the groups that are held out. */
  heldOut: PolicyRow[];
  counts: Record<string, number>;
  warnings: string[];
  /** The steps that trajectories say they were sampled at, and how many do. */
  sampledAt: ReadonlyMap<number, number>;
}

/**
 * Trajectory groups as units of rows with final advantages and weights. Trajectories at their group's mean and rows
 * longer than `maxRowTokens` are left out; nothing is shuffled.
 */
export async function planUnits(
  groups: GroupSource,
  renderer: PromptRenderer,
  policy: Policy,
  { maxRowTokens, optimizerStep, signal }: PlanLimits,
): Promise<Plan> {
  const { rewards, sampledAt } = await overviewOf(groups);
  const advantages = rewards.map((ofGroup) => groupAdvantages(ofGroup, policy.scaleRewards));
  const planned: PlannedTrajectory[][] = rewards.map(() => []);
  const total = { rows: 0, tooLong: 0, trained: 0, offPolicy: 0, rerendered: 0, unlearnable: 0 };
  for await (const { g, t, one, path } of placed(groups)) {
    const advantage = path === null ? 0 : advantages[g]![t]!;
    if (path === null || advantage === 0) continue;
    while (shouldYield()) await yieldToEventLoop();
    const tokenized = await tokenizeTrajectory(one as Trajectory, renderer, policy, path, signal);
    const rows = tokenized.rows.filter((row) => row.tokens.length <= maxRowTokens);
    total.rows += rows.length;
    total.tooLong += tokenized.rows.length - rows.length;
    total.trained += tokenized.trainedTokens;
    total.offPolicy += tokenized.offPolicyTokens;
    total.rerendered += tokenized.rerenderedTokens;
    if (tokenized.trainedTokens === 0) total.unlearnable += 1;
    const tokens = rows.reduce((sum, row) => sum + row.trained.reduce((count, one) => count + one, 0), 0);
    if (tokens === 0) continue;
    planned[g]!.push({ rows, advantage, weight: trajectoryWeight(tokenized.trainedTokens), tokens });
  }
  const teaching = planned.filter((items) => items.length > 0);
  const isHeldOut = policy.validation ? await heldOut(policy.validation, teaching.length, 0) : new Set<number>();
  const [kept, trained] = [true, false].map((held) => teaching.filter((_, g) => isHeldOut.has(g) === held));
  for (const part of [kept!, trained!]) normaliseBatch(part.flat(), policy.balance);
  const units = unitsOf(await policyRows(trained!), optimizerStep).filter((unit) => unit.rows.length > 0);
  const trajectories = rewards.reduce((sum, ofGroup) => sum + ofGroup.length, 0);
  const offPolicyShare = total.trained > 0 ? total.offPolicy / total.trained : 0;
  const warnings: string[] = [];
  const alone = rewards.filter((ofGroup) => ofGroup.length === 1).length;
  if (alone > 0) {
    warnings.push(
      `${alone} of ${rewards.length} groups hold a single trajectory and train nothing: rewards are compared within a group`,
    );
  }
  if (total.tooLong > 0) warnings.push(`${total.tooLong} rows longer than ${maxRowTokens} tokens were dropped`);
  if (total.unlearnable > 0) {
    warnings.push(`${total.unlearnable} trajectories have no choice with logprobs and train nothing`);
  }
  if (offPolicyShare > 0) {
    const share = `${Math.round(offPolicyShare * 1000) / 10} %`;
    warnings.push(
      `${share} of the trained tokens were sampled with settings that training does not follow: filters, penalties, masks, or a temperature without its logprobs`,
    );
  }
  if (policy.validation && isHeldOut.size === 0) {
    warnings.push("nothing could be held out for validation: fewer than two groups teach anything");
  }
  return {
    units,
    heldOut: (await policyRows(kept!)).flat(),
    counts: {
      num_groups_submitted: rewards.length,
      num_groups_trainable: teaching.length,
      ...(policy.validation ? { num_groups_validation: isHeldOut.size } : {}),
      num_trajectories: trajectories,
      num_datums: total.rows,
      num_dropped_rows: total.tooLong,
      off_policy_sampling: offPolicyShare,
      rerendered_prompts: total.trained > 0 ? total.rerendered / total.trained : 0,
    },
    warnings,
    sampledAt,
  };
}

/** By group. */
async function policyRows(groups: readonly PlannedTrajectory[][]): Promise<PolicyRow[][]> {
  const byGroup: PolicyRow[][] = [];
  for (const items of groups) {
    const ofGroup: PolicyRow[] = [];
    for (const { rows, advantage, weight } of items) {
      for (const row of rows) {
        ofGroup.push({
          tokens: row.tokens,
          trained: row.trained,
          temperatures: row.temperatures,
          oldLogprobs: row.logprobs,
          advantages: new Float32Array(row.tokens.length).fill(advantage),
          weights: new Float32Array(row.tokens.length).fill(weight),
        });
      }
      while (shouldYield()) await yieldToEventLoop();
    }
    byGroup.push(ofGroup);
  }
  return byGroup;
}

function unitsOf(groups: readonly PolicyRow[][], optimizerStep: TrainingOptions["optimizerStep"]): Unit[] {
  switch (optimizerStep) {
    case "group":
      return groups.map((rows) => ({ rows }));
    case "completion":
      return groups.flat().map((row) => ({ rows: [row] }));
    case "job":
      return [{ rows: groups.flat() }];
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
  /** A version on the device of one of the model's checkpoints or of an adapter folder; the recipe releases it. */
  loadStep(step: number): Promise<number>;
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
  const plan = await planUnits(groups, createPromptRenderer(base, context.createdAt), policy, {
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
    if (reference?.kind === "step") referenceVersion = await held(context.loadStep(reference.step));
    if (reference?.kind === "folder") referenceVersion = await held(context.loadFolder(reference.path));
    const precalculate = policy.precalculateLogprobs && plan.units.length > 0;
    const startVersion = precalculate ? await held(context.loadStep(context.currentStep)) : 0;
    const rates = learningRates({ peak: policy.learningRate, ...policy.schedule }, plan.units.length);
    const versions = { referenceVersion, startVersion };
    const validation = validationOf(plan, policy, versions);
    const { perStep, longestPass } = await workOf(plan.units, policy.loss.klCoef === 0, base);
    const total = perStep.reduce((sum, tokens) => sum + tokens, 0);
    // Of weights other than the trained ones.
    const passes = Number(policy.klReference !== null) + Number(policy.precalculateLogprobs);
    return {
      objective: "rl",
      steps: plan.units.length,
      started: {
        counts: plan.counts,
        warnings: [...plan.warnings, ...staleWarnings(plan, context.currentStep)],
      },
      validation,
      work: {
        perStep,
        longestPass,
        evaluated:
          passes * total +
          (validation ? (passes + looksOf(perStep.length, validation)) * computedTokens(plan.heldOut) : 0),
        probe: plan.units[0]?.rows[0] ?? null,
      },
      async step(index, learner) {
        const metrics = await rlStep(plan.units[index]!, policy, learner, versions, rates[index]!, index === 0);
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

/** Trajectories that say that another step sampled them than the one that is trained. */
function staleWarnings({ sampledAt, counts }: Plan, current: number): string[] {
  const stale = [...sampledAt].filter(([step]) => step !== current).sort(([a], [b]) => a - b);
  if (stale.length === 0) return [];
  const count = stale.reduce((sum, [, trajectories]) => sum + trajectories, 0);
  const steps = stale.map(([step]) => step).join(", ");
  return [
    `${count} of ${counts.num_trajectories} trajectories are stale: sampled at step ${steps}, trained from step ${current}`,
  ];
}

/** The first step of a job sees the weights that most of its choices were sampled with: their ratios are then exactly 1. */
function ratioWarning({ counts }: Plan, policy: Policy, metrics: Record<string, number>): string | null {
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
function validationOf({ heldOut: given, units }: Plan, policy: Policy, versions: Versions): RecipeValidation | null {
  if (!policy.validation || given.length === 0) return null;
  let rows: PolicyRow[] | null = null;
  return {
    ...policy.validation,
    interval: policy.validation.interval ?? units.length,
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

async function rlStep(
  unit: Unit,
  policy: Policy,
  learner: Learner,
  versions: Versions,
  learningRate: number,
  isFirst: boolean,
): Promise<Record<string, number>> {
  const started = performance.now();
  const rows = await withOtherLogprobs(unit.rows, policy, learner, versions);
  const gradient = measuringSampler(policyGradientLoss(rows, policy.loss), rows);
  const loss = withEntropyBonus(gradient, rows, policy.entropyCoef);
  const { metrics } = await learner.forwardBackward(rows, loss);
  // Later groups are trained on weights that the job itself has moved.
  if (isFirst) checkSampler(metrics.logprob_difference_mean, policy);
  const { gradNorm, isApplied = Number.isFinite(gradNorm) } = await learner.optimStep({
    learningRate: learningRate * rows.length ** policy.learningRatePower,
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
