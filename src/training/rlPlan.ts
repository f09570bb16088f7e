// Trajectory groups to batches of rows with advantages and weights, one batch per optimizer step; and what there is to say of them.

import { shouldYield, yieldToEventLoop } from "../eventLoop.js";
import { groupAdvantages, normaliseBatch, trajectoryWeight, type Weighted } from "./advantages.js";
import { type GroupSource, withPlaces } from "./groupSource.js";
import type { TrainingOptions } from "./host.js";
import type { PolicyRow } from "./losses.js";
import type { Policy } from "./policy.js";
import { countTrained } from "./tokenRow.js";
import { type PromptRenderer, type TrajectoryRow, tokenizeTrajectory } from "./trajectoryRows.js";
import { heldOut } from "./validation.js";

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
export interface RlBatch {
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

export interface RlPlan {
  batches: RlBatch[];
  /** Of the groups that are held out. */
  heldOut: PolicyRow[];
  counts: Record<string, number>;
  warnings: string[];
  /** The steps that trajectories say they were sampled at, and how many do. */
  sampledAt: ReadonlyMap<number, number>;
}

/**
 * Trajectory groups as batches of rows with final advantages and weights. Trajectories at their group's mean and rows
 * longer than `maxRowTokens` are left out; nothing is shuffled.
 */
export async function planBatches(
  groups: GroupSource,
  renderer: PromptRenderer,
  policy: Policy,
  { maxRowTokens, optimizerStep, signal }: PlanLimits,
): Promise<RlPlan> {
  const { rewards, sampledAt } = await overviewOf(groups);
  const advantages = rewards.map((ofGroup) => groupAdvantages(ofGroup, policy.scaleRewards));
  const planned: PlannedTrajectory[][] = rewards.map(() => []);
  const total = { rows: 0, tooLong: 0, trained: 0, offPolicy: 0, rerendered: 0, unlearnable: 0 };
  for await (const entry of withPlaces(groups)) {
    if ("group" in entry) continue;
    const { trajectory, g, t, path } = entry;
    const advantage = advantages[g]![t]!;
    if (advantage === 0) continue;
    while (shouldYield()) await yieldToEventLoop();
    const tokenized = await tokenizeTrajectory(trajectory, renderer, policy, path, signal);
    const rows = tokenized.rows.filter((row) => row.tokens.length <= maxRowTokens);
    total.rows += rows.length;
    total.tooLong += tokenized.rows.length - rows.length;
    total.trained += tokenized.trainedTokens;
    total.offPolicy += tokenized.offPolicyTokens;
    total.rerendered += tokenized.rerenderedTokens;
    if (tokenized.trainedTokens === 0) total.unlearnable += 1;
    const tokens = rows.reduce((sum, row) => sum + countTrained(row), 0);
    if (tokens === 0) continue;
    planned[g]!.push({ rows, advantage, weight: trajectoryWeight(tokenized.trainedTokens), tokens });
  }
  const teaching = planned.filter((items) => items.length > 0);
  const isHeldOut = policy.validation ? await heldOut(policy.validation, teaching.length, 0) : new Set<number>();
  const validated = teaching.filter((_, g) => isHeldOut.has(g));
  const trained = teaching.filter((_, g) => !isHeldOut.has(g));
  for (const part of [validated, trained]) normaliseBatch(part.flat(), policy.balance);
  const batches = batchesOf(await policyRows(trained), optimizerStep).filter(({ rows }) => rows.length > 0);
  const trajectories = rewards.reduce((sum, ofGroup) => sum + ofGroup.length, 0);
  const offPolicyShare = total.trained > 0 ? total.offPolicy / total.trained : 0;
  const warnings = planWarnings(rewards, total, offPolicyShare, maxRowTokens);
  if (policy.validation && isHeldOut.size === 0) {
    warnings.push("nothing could be held out for validation: fewer than two groups teach anything");
  }
  return {
    batches,
    heldOut: (await policyRows(validated)).flat(),
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

/** What of the groups trains nothing, or not as it was meant to. */
function planWarnings(
  rewards: readonly number[][],
  total: { tooLong: number; unlearnable: number },
  offPolicyShare: number,
  maxRowTokens: number,
): string[] {
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
  return warnings;
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

function batchesOf(groups: readonly PolicyRow[][], optimizerStep: TrainingOptions["optimizerStep"]): RlBatch[] {
  switch (optimizerStep) {
    case "group":
      return groups.map((rows) => ({ rows }));
    case "completion":
      return groups.flat().map((row) => ({ rows: [row] }));
    case "job":
      return [{ rows: groups.flat() }];
  }
}

/** Trajectories that say that another step sampled them than the one that is trained. */
export function staleWarnings({ sampledAt, counts }: RlPlan, current: number): string[] {
  const stale = [...sampledAt].filter(([step]) => step !== current).sort(([a], [b]) => a - b);
  if (stale.length === 0) return [];
  const count = stale.reduce((sum, [, trajectories]) => sum + trajectories, 0);
  const steps = stale.map(([step]) => step).join(", ");
  return [
    `${count} of ${counts.num_trajectories} trajectories are stale: sampled at step ${steps}, trained from step ${current}`,
  ];
}
