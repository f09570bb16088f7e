// Trajectory groups that were logged or trained on: kept, and what they say attached to a step.

import { shouldYield, yieldToEventLoop } from "../eventLoop.js";
import type { Store } from "../store/store.js";
import type { TrajectoryBatch, TrajectoryRow } from "../store/trajectories.js";
import type { TrajectoryGroup } from "../types/trajectories.js";
import { sizeLeft } from "../valueSize.js";
import { type GroupSource, groupsInMemory } from "./groupSource.js";
import { GroupSummary, keepsNames, MetricNames, summarize } from "./logMetrics.js";

/** Spent per step, so that their sum over the steps means something. */
const ADDS_UP = /^(time|data|costs)\/(?!cum\/)/;

/**
 * Records groups at a model's step, in one transaction. Besides the metrics of `GroupSummary` there are running totals over
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
  const keep = () => store.trajectories.add(modelId, step, split, groups);
  return record(store, modelId, step, split, summarize(groups), keep);
}

/** Values inside groups that are recorded at once: a matter of a few milliseconds. */
const MAX_INLINE_VALUES = 10_000;
/** What one row holds, about, and one transaction writes: characters, and rows. */
const MAX_ROW_CHARACTERS = 2 ** 20;
const MAX_ROWS_PER_WRITE = 200;
const MAX_SCENARIOS_PER_WRITE = 2000;

/** Groups that are written already, but are not there before they are recorded. */
export interface PreparedGroups {
  /** As `recordGroups`; may be part of a transaction. */
  record(): Record<string, number>;
  /** Takes back what was written; without effect once they are recorded. */
  discard(): Promise<void>;
}

/** `recordGroups` for any number of groups: what takes long is done here, and other work of the thread has its turn. */
export async function prepareGroups(
  store: Store,
  modelId: string,
  step: number,
  split: string,
  groups: readonly TrajectoryGroup[] | GroupSource,
): Promise<PreparedGroups> {
  if (isList(groups) && sizeLeft(groups, MAX_INLINE_VALUES) >= 0) {
    return { record: () => recordGroups(store, modelId, step, split, groups), discard: async () => undefined };
  }
  const batch = store.trajectories.batch(modelId, step, split);
  const summary = new GroupSummary();
  try {
    await writeGroups(isList(groups) ? groupsInMemory(groups) : groups, summary, batch);
    if (keepsNames(split)) await addScenarios(store, modelId, summary.scenarios);
  } catch (error) {
    await batch.discard();
    throw error;
  }
  return { record: () => record(store, modelId, step, split, summary, batch.finish), discard: batch.discard };
}

async function writeGroups(source: GroupSource, summary: GroupSummary, batch: TrajectoryBatch): Promise<void> {
  const names = new MetricNames();
  let rows: TrajectoryRow[] = [];
  let characters = 0;
  /** Of the row that is being gathered. */
  let group: string | null = null;
  let trajectories: string[] = [];
  let size = 0;
  const endRow = () => {
    if (group === null && trajectories.length === 0) return;
    const list = `[${trajectories.join(",")}]`;
    rows.push({ continues: group === null, text: group === null ? list : withTrajectories(group, list) });
    characters += size;
    group = null;
    trajectories = [];
    size = 0;
  };
  for await (const entry of source.entries()) {
    const text = await entry.text();
    if ("group" in entry) {
      endRow();
      names.add(entry.group);
      summary.addGroup(entry.group);
      group = text;
    } else {
      if (size + text.length > MAX_ROW_CHARACTERS) endRow();
      names.add(entry.trajectory);
      summary.addTrajectory(entry.trajectory);
      trajectories.push(text);
    }
    size += text.length;
    if (rows.length < MAX_ROWS_PER_WRITE && characters < MAX_ROW_CHARACTERS) continue;
    batch.add(rows);
    rows = [];
    characters = 0;
    while (shouldYield()) await yieldToEventLoop();
  }
  endRow();
  batch.add(rows);
}

/** That a scenario was seen stays true whatever becomes of the groups: these need not be all there at once. */
async function addScenarios(store: Store, modelId: string, scenarios: Set<string>): Promise<void> {
  while (scenarios.size > MAX_SCENARIOS_PER_WRITE) {
    const some = [...take(scenarios, MAX_SCENARIOS_PER_WRITE)];
    store.metrics.countScenarios(modelId, some);
    for (const id of some) scenarios.delete(id);
    await yieldToEventLoop();
  }
}

function* take<T>(values: Iterable<T>, count: number): Generator<T> {
  let left = count;
  for (const value of values) {
    if (left-- === 0) return;
    yield value;
  }
}

/** JSON of a group, from that of its other fields. */
function withTrajectories(group: string, list: string): string {
  const rest = group.slice(1);
  return `{"trajectories":${list}${rest === "}" ? "" : ","}${rest}`;
}

function isList(groups: readonly TrajectoryGroup[] | GroupSource): groups is readonly TrajectoryGroup[] {
  return Array.isArray(groups);
}

/** The whole of it, for calls that are no part of a transaction. */
export async function recordGroupsAsync(
  store: Store,
  ...call: [modelId: string, step: number, split: string, groups: readonly TrajectoryGroup[] | GroupSource]
): Promise<Record<string, number>> {
  const prepared = await prepareGroups(store, ...call);
  try {
    while (shouldYield()) await yieldToEventLoop();
    return prepared.record();
  } finally {
    await prepared.discard();
  }
}

/** `keep` writes the groups themselves. */
function record(
  store: Store,
  modelId: string,
  step: number,
  split: string,
  summary: GroupSummary,
  keep: () => void,
): Record<string, number> {
  const metrics = summary.metrics(split);
  return store.transaction(() => {
    const all = { ...metrics, ...(keepsNames(split) ? cumulative(store, modelId, metrics, summary.scenarios) : {}) };
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
  scenarios: ReadonlySet<string>,
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
  if (scenarios.size > 0) totals["data/cum/num_unique_scenarios"] = store.metrics.countScenarios(modelId, scenarios);
  return totals;
}
