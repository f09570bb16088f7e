// What a training step has done, and why it may have taught less than it could.

import { groupAdvantages, meanOf, means, rewardDeviation } from "../training/index.js";
import type { PhaseReport, RewardReport, StepReport } from "../types/gather.js";
import type { ModelPublished } from "../types/publish.js";
import type { TrainingStartedEvent } from "../types/training.js";
import type { TrajectoryException, TrajectoryGroup } from "../types/trajectories.js";
import type { Gathered } from "./gather.js";

/** What a job's events said. */
export interface JobAccount {
  id: string;
  /** Of the checkpoint that it made. */
  step: number;
  /** Payload of the first event. */
  started: TrainingStartedEvent["data"] | null;
  /** Of its first gradient step. */
  first: Record<string, number>;
  /** Means over its gradient steps. */
  metrics: Record<string, number>;
  trainedTokens: number;
}

export interface StepAccount {
  gathered: Gathered;
  job: JobAccount;
  /** Of rollouts that another server made; null: this engine made them. */
  staleness: number | null;
  published: ModelPublished | null;
  baseline: RewardReport | null;
  validation: { report: RewardReport; tokens: number } | null;
  /** Of all steps of the run, this one last. */
  entropies: readonly number[];
  standing: Pick<StepReport, "bestStep" | "endedEarly" | "keptAs">;
  seconds: PhaseReport<number>;
}

/** From this share on, truncated replies are worth a warning. */
const MANY_TRUNCATED = 0.1;

/** Below this share of the run's first entropy the policy is about to stop exploring. */
const LOW_ENTROPY = 0.3;

export function reportStep(account: StepAccount): StepReport {
  const { gathered, job, validation } = account;
  const trajectories = gathered.groups.flatMap((group) => group.trajectories);
  const ranked = [...trajectories].sort((a, b) => b.reward - a.reward);
  return {
    step: job.step,
    jobId: job.id,
    train: rewardReport(gathered.groups),
    validation: validation?.report ?? null,
    baseline: account.baseline,
    ...account.standing,
    metrics: { ...Object.fromEntries(means(trajectories.map(({ metrics }) => metrics))), ...job.metrics },
    tokens: {
      rollout: gathered.completionTokens,
      training: job.trainedTokens,
      validation: validation?.tokens ?? 0,
    },
    seconds: account.seconds,
    remote: account.staleness === null ? null : { staleness: account.staleness, logprobDifference: differenceOf(job) },
    published: account.published,
    best: ranked[0] ?? null,
    median: ranked[Math.floor((ranked.length - 1) / 2)] ?? null,
    worst: ranked.at(-1) ?? null,
    warnings: warningsOf(account),
    groups: gathered.groups,
  };
}

function differenceOf({ first }: JobAccount): { mean: number; max: number } | null {
  const { logprob_difference_mean: mean, logprob_difference_max: max } = first;
  return mean === undefined || max === undefined ? null : { mean, max };
}

export function rewardReport(groups: readonly TrajectoryGroup[]): RewardReport {
  const rewards = groups.flatMap((group) => group.trajectories.map((trajectory) => trajectory.reward));
  return {
    reward: rewards.length > 0 ? meanOf(rewards) : null,
    deviation: rewardDeviation(groups),
    exceptions: groups.reduce((sum, group) => sum + (group.exceptions?.length ?? 0), 0),
  };
}

function warningsOf({ gathered, job, entropies }: StepAccount): string[] {
  const warnings: string[] = [];
  const { groups } = gathered;
  const flat = groups.filter(({ trajectories }) => {
    const rewards = trajectories.map(({ reward }) => reward);
    return groupAdvantages(rewards, false).every((advantage) => advantage === 0);
  }).length;
  if (flat > 0) warnings.push(`${flat} of ${groups.length} groups have equal rewards throughout and teach nothing`);
  const failures = groups.flatMap((group) => group.exceptions ?? []);
  if (failures.length > 0) {
    const all = failures.length + groups.reduce((sum, group) => sum + group.trajectories.length, 0);
    warnings.push(`${failures.length} of ${all} rollouts failed and are left out: ${mostFrequent(failures)}`);
  }
  if (gathered.completions === 0) warnings.push("no completion was made with the model");
  if (gathered.truncated > MANY_TRUNCATED * gathered.completions) {
    warnings.push(`${gathered.truncated} of ${gathered.completions} replies were cut off at their token limit`);
  }
  warnings.push(...(job.started?.warnings ?? []));
  const [first] = entropies;
  const last = entropies.at(-1);
  if (first !== undefined && last !== undefined && last < LOW_ENTROPY * first) {
    warnings.push(`entropy has fallen from ${first.toFixed(3)} to ${last.toFixed(3)}: the policy hardly explores`);
  }
  if ((job.metrics.skipped_update ?? 0) > 0) warnings.push("a gradient was not finite and its update was skipped");
  return warnings;
}

/** What was thrown most often, and how often the rest of it was something else. */
function mostFrequent(failures: readonly TrajectoryException[]): string {
  const counts = new Map<string, number>();
  for (const { type, message } of failures) {
    const said = `${type}: ${message}`;
    counts.set(said, (counts.get(said) ?? 0) + 1);
  }
  const [[said, times]] = [...counts].sort(([, a], [, b]) => b - a) as [[string, number]];
  return counts.size === 1 ? said : `${said} (${times} times), and ${counts.size - 1} others`;
}
