// What is logged about trajectories: one number per name.

import { ValidationError } from "../errors.js";
import type { Trajectory, TrajectoryGroup } from "../types/trajectories.js";
import { meanOf, populationDeviation } from "./advantages.js";

const SPLITS = new Set(["train", "val", "test"]);
/** Names under these (or under a split) are already complete and are kept as they are. */
const SECTIONS = ["reward", "loss", "offpolicy", "pipeline", "throughput", "costs", "time", "data", ...SPLITS];

/** What is logged about trajectory groups, of which each trajectory is looked at once. */
export class GroupSummary {
  readonly #ofTrajectories = new Means();
  readonly #ofGroups = new Means();
  readonly #rewards = new Mean();
  readonly #deviations = new Mean();
  /** Of the last group. */
  #group: number[] = [];
  #exceptions = 0;
  /** Different `scenario_id` in the groups' and trajectories' metadata. */
  readonly scenarios = new Set<string>();

  addGroup({ metrics, metadata, exceptions }: Omit<TrajectoryGroup, "trajectories">): void {
    this.#endGroup();
    this.#ofGroups.add(metrics);
    this.#addScenario(metadata);
    this.#exceptions += exceptions?.length ?? 0;
  }

  addTrajectory({ metrics, metadata, reward }: Pick<Trajectory, "metrics" | "metadata" | "reward">): void {
    this.#ofTrajectories.add(metrics);
    this.#addScenario(metadata);
    this.#rewards.add(reward);
    this.#group.push(reward);
  }

  #addScenario(metadata: TrajectoryGroup["metadata"]): void {
    if (metadata?.scenario_id != null) this.scenarios.add(String(metadata.scenario_id));
  }

  #endGroup(): void {
    if (this.#group.length > 1) this.#deviations.add(populationDeviation(this.#group));
    this.#group = [];
  }

  /**
   * The metrics under `split`: `{split}/reward`, `{split}/reward_std_dev` (mean over groups of more than one trajectory of the
   * population deviation), `{split}/exception_rate`, the mean of every trajectory metric over the trajectories that have it,
   * and `group_{name}` for group metrics. Numbers that are not finite are left out.
   */
  metrics(split: string): Record<string, number> {
    this.#endGroup();
    const metrics = this.#ofTrajectories.values();
    for (const [name, mean] of this.#ofGroups.values()) metrics.set(`group_${name}`, mean);
    const { count } = this.#rewards;
    if (count > 0) metrics.set("reward", this.#rewards.value());
    if (count + this.#exceptions > 0) metrics.set("exception_rate", this.#exceptions / (count + this.#exceptions));
    metrics.set("reward_std_dev", this.#deviations.count > 0 ? this.#deviations.value() : 0);

    const result: Record<string, number> = {};
    for (const [name, value] of metrics) {
      if (!Number.isFinite(value)) continue;
      const complete = keepsNames(split) && SECTIONS.some((section) => name.startsWith(`${section}/`));
      result[complete ? name : `${split}/${name}`] = value;
    }
    return result;
  }
}

export function summarize(groups: readonly TrajectoryGroup[]): GroupSummary {
  const summary = new GroupSummary();
  for (const group of groups) {
    summary.addGroup(group);
    for (const trajectory of group.trajectories) summary.addTrajectory(trajectory);
  }
  return summary;
}

/** Different names that the trajectories and groups of one request may have: each is a row of the model's totals. */
export const MAX_METRIC_NAMES = 4096;

/** Counts them. */
export class MetricNames {
  readonly #names = new Set<string>();

  /** @throws ValidationError */
  add({ metrics }: Pick<TrajectoryGroup, "metrics">): void {
    for (const name in metrics) this.#names.add(name);
    if (this.#names.size <= MAX_METRIC_NAMES) return;
    throw ValidationError.at("trajectory_groups", `have more than ${MAX_METRIC_NAMES} different metrics`, "too_long");
  }
}

/** @throws ValidationError */
export function checkMetricNames(groups: readonly TrajectoryGroup[]): void {
  const names = new MetricNames();
  for (const group of groups) {
    for (const one of [group, ...group.trajectories]) names.add(one);
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

class Mean {
  count = 0;
  #sum = 0;

  add(value: number): void {
    this.#sum += value;
    this.count++;
  }

  value(): number {
    return this.#sum / this.count;
  }
}

class Means {
  readonly #means = new Map<string, Mean>();

  add(record: TrajectoryGroup["metrics"]): void {
    for (const [name, value] of Object.entries(record ?? {})) {
      const number = Number(value ?? Number.NaN);
      if (Number.isNaN(number)) continue;
      const mean = this.#means.get(name) ?? new Mean();
      this.#means.set(name, mean);
      mean.add(number);
    }
  }

  values(): Map<string, number> {
    return new Map([...this.#means].map(([name, mean]) => [name, mean.value()]));
  }
}

/** Name to mean over the records that have it; true counts as 1, false as 0. */
export function means(records: readonly TrajectoryGroup["metrics"][]): Map<string, number> {
  const all = new Means();
  for (const record of records) all.add(record);
  return all.values();
}
