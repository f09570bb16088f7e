// What is logged about trajectories: one number per name.

import { ValidationError } from "../errors.js";
import type { Trajectory, TrajectoryGroup } from "../types/trajectories.js";
import { meanOf, populationDeviation } from "./advantages.js";

const SPLITS = new Set(["train", "val", "test"]);
/** Names under these (or under a split) are already complete and are kept as they are. */
const SECTIONS = ["reward", "loss", "offpolicy", "pipeline", "throughput", "costs", "time", "data", ...SPLITS];

/**
 * The metrics of trajectory groups logged under `split`: `{split}/reward`, `{split}/reward_std_dev` (mean over groups of
 * more than one trajectory of the population deviation), `{split}/exception_rate`, the mean of every trajectory metric
 * over the trajectories that have it, and `group_{name}` for group metrics. Numbers that are not finite are left out.
 */
export function logMetrics(groups: readonly TrajectoryGroup[], split: string): Record<string, number> {
  const trajectories = groups.flatMap((group) => group.trajectories);
  const exceptions = groups.reduce((sum, group) => sum + (group.exceptions?.length ?? 0), 0);
  const metrics = means(trajectories.map((trajectory) => trajectory.metrics));
  for (const [name, mean] of means(groups.map((group) => group.metrics))) metrics.set(`group_${name}`, mean);
  if (trajectories.length > 0) metrics.set("reward", meanOf(trajectories.map((trajectory) => trajectory.reward)));
  if (trajectories.length + exceptions > 0) {
    metrics.set("exception_rate", exceptions / (trajectories.length + exceptions));
  }
  metrics.set("reward_std_dev", rewardDeviation(groups));

  const result: Record<string, number> = {};
  for (const [name, value] of metrics) {
    if (!Number.isFinite(value)) continue;
    const complete = keepsNames(split) && SECTIONS.some((section) => name.startsWith(`${section}/`));
    result[complete ? name : `${split}/${name}`] = value;
  }
  return result;
}

/** Different names that the trajectories and groups of one request may have: each is a row of the model's totals. */
export const MAX_METRIC_NAMES = 4096;

/** @throws ValidationError */
export function checkMetricNames(groups: readonly TrajectoryGroup[]): void {
  const names = new Set<string>();
  for (const group of groups) {
    for (const { metrics } of [group, ...group.trajectories]) {
      for (const name in metrics) names.add(name);
      if (names.size <= MAX_METRIC_NAMES) continue;
      throw ValidationError.at("trajectory_groups", `have more than ${MAX_METRIC_NAMES} different metrics`, "too_long");
    }
  }
}

/** Whether names that are already complete stay as they are under this split. */
export function keepsNames(split: string): boolean {
  return SPLITS.has(split);
}

/** Mean over groups with more than one trajectory of the population deviation of their rewards; 0 if there are none. */
export function rewardDeviation(groups: readonly { trajectories: readonly Pick<Trajectory, "reward">[] }[]): number {
  const several = groups.filter((group) => group.trajectories.length > 1);
  if (several.length === 0) return 0;
  return meanOf(several.map((group) => populationDeviation(group.trajectories.map(({ reward }) => reward))));
}

/** Name to mean over the records that have it; true counts as 1, false as 0. */
export function means(records: readonly (Record<string, number | boolean> | null | undefined)[]): Map<string, number> {
  const values = new Map<string, number[]>();
  for (const record of records) {
    for (const [name, value] of Object.entries(record ?? {})) {
      const number = Number(value);
      if (Number.isNaN(number)) continue;
      const list = values.get(name);
      if (list) list.push(number);
      else values.set(name, [number]);
    }
  }
  return new Map([...values].map(([name, list]) => [name, meanOf(list)]));
}
