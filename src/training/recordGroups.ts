// Trajectory groups that were logged or trained on: kept, and what they say attached to a step.

import { shouldYield, yieldToEventLoop } from "../eventLoop.js";
import { stringifyInTurns } from "../jsonPieces.js";
import type { Store } from "../store/store.js";
import type { TrajectoryGroup } from "../types/trajectories.js";
import { sizeLeft } from "../valueSize.js";
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
  return record(store, modelId, step, split, groups, () => store.trajectories.add(modelId, step, split, groups));
}

/** Values inside groups that are recorded at once: a matter of a few milliseconds. */
const AT_ONCE = 10_000;
/** Groups and characters that one transaction writes, about. */
const GROUPS_PER_WRITE = 200;
const CHARACTERS_PER_WRITE = 2 ** 20;

/** Groups that are written already, but are not there before they are recorded. */
export interface PreparedGroups {
  /** As `recordGroups`; may be part of a transaction. */
  record(): Record<string, number>;
  /** Takes back what was written; without effect once they are recorded. */
  discard(): void;
}

/** `recordGroups` for any number of groups: what takes long is done here, and other work of the thread has its turn. */
export async function prepareGroups(
  store: Store,
  modelId: string,
  step: number,
  split: string,
  groups: readonly TrajectoryGroup[],
): Promise<PreparedGroups> {
  if (sizeLeft(groups, AT_ONCE) >= 0) {
    return { record: () => recordGroups(store, modelId, step, split, groups), discard: () => undefined };
  }
  const batch = store.trajectories.batch(modelId, step, split);
  try {
    let texts: string[] = [];
    let characters = 0;
    for (const group of groups) {
      const text = await stringifyInTurns(group);
      texts.push(text);
      characters += text.length;
      if (texts.length < GROUPS_PER_WRITE && characters < CHARACTERS_PER_WRITE) continue;
      batch.add(texts);
      texts = [];
      characters = 0;
      while (shouldYield()) await yieldToEventLoop();
    }
    batch.add(texts);
  } catch (error) {
    batch.discard();
    throw error;
  }
  return { record: () => record(store, modelId, step, split, groups, batch.finish), discard: batch.discard };
}

/** The whole of it, for calls that are no part of a transaction. */
export async function recordGroupsInTurns(
  store: Store,
  ...call: [modelId: string, step: number, split: string, groups: readonly TrajectoryGroup[]]
): Promise<Record<string, number>> {
  const prepared = await prepareGroups(store, ...call);
  try {
    return prepared.record();
  } finally {
    prepared.discard();
  }
}

/** `keep` writes the groups themselves. */
function record(
  store: Store,
  modelId: string,
  step: number,
  split: string,
  groups: readonly TrajectoryGroup[],
  keep: () => void,
): Record<string, number> {
  const metrics = logMetrics(groups, split);
  return store.transaction(() => {
    const all = { ...metrics, ...(keepsNames(split) ? cumulative(store, modelId, metrics, groups) : {}) };
    keep();
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
