// Trajectory groups that were logged or trained on: kept, and what they say attached to a step.

import type { Store } from "../store/store.js";
import type { TrajectoryGroup } from "../types/trajectories.js";
import { keepsNames, logMetrics } from "./logMetrics.js";

/** Spent per step, so that their sum over the steps means something. */
const ADDS_UP = /^(time|data|costs)\/(?!cum\/)/;

/**
 * Records groups at a model's step, in one transaction. Besides the metrics of `logMetrics` there are running totals over
 * all that was recorded of the model: of `time/step_x`, `data/step_x` and `costs/x` under `time/cum/x` and so on, and of
 * the scenarios seen (different `scenario_id` in the groups' or trajectories' metadata).
 * @returns the metrics.
 */
export function recordGroups(
  store: Store,
  modelId: string,
  step: number,
  split: string,
  groups: readonly TrajectoryGroup[],
): Record<string, number> {
  const metrics = logMetrics(groups, split);
  return store.transaction(() => {
    const all = { ...metrics, ...(keepsNames(split) ? cumulative(store, modelId, metrics, groups) : {}) };
    store.trajectories.add(modelId, step, split, groups);
    store.metrics.append(modelId, step, all);
    store.checkpoints.mergeMetrics(modelId, step, all);
    return all;
  });
}

function cumulative(
  store: Store,
  modelId: string,
  metrics: Record<string, number>,
  groups: readonly TrajectoryGroup[],
): Record<string, number> {
  const amounts: Record<string, number> = {};
  for (const [name, value] of Object.entries(metrics)) {
    const section = ADDS_UP.exec(name)?.[1];
    if (section === undefined) continue;
    const rest = name.slice(section.length + 1);
    if (section === "costs") amounts[`costs/cum/${rest}`] = value;
    else if (rest.startsWith("step_")) amounts[`${section}/cum/${rest.slice("step_".length)}`] = value;
  }
  const totals = store.metrics.accumulate(modelId, amounts);
  const scenarios = new Set(groups.flatMap(scenariosOf));
  if (scenarios.size > 0) totals["data/cum/num_unique_scenarios"] = store.metrics.countScenarios(modelId, scenarios);
  return totals;
}

function scenariosOf(group: TrajectoryGroup): string[] {
  const metadata = [group.metadata, ...group.trajectories.map((trajectory) => trajectory.metadata)];
  return metadata.flatMap((entry) => (entry?.scenario_id == null ? [] : [String(entry.scenario_id)]));
}
