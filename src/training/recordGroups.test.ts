import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, it } from "vitest";
import { loggedGroups } from "../../test/fixtures/loggedGroups.js";
import { eachSlice } from "../../test/fixtures/turns.js";
import { ValidationError } from "../errors.js";
import { openStore } from "../store/store.js";
import type { TrajectoryGroup } from "../types/trajectories.js";
import { checkMetricNames, MAX_METRIC_NAMES } from "./logMetrics.js";
import { prepareGroups, recordGroups, recordGroupsAsync } from "./recordGroups.js";

const group = (
  scenario: string | number | null,
  metrics: Record<string, number>,
  inGroup = false,
): TrajectoryGroup => ({
  trajectories: [
    { messages_and_choices: [], reward: 1, metrics, metadata: inGroup ? {} : { scenario_id: scenario, other: "x" } },
  ],
  metadata: inGroup ? { scenario_id: scenario } : null,
});

it("keeps running totals of what adds up, and counts scenarios once", () => {
  const store = openStore(null);
  try {
    const model = store.models.create({ entity: "local", project: "p", name: "m", baseModel: "b" });
    store.checkpoints.create({ modelId: model.id, step: 0 });
    const log = (split: string, groups: TrajectoryGroup[]) => recordGroups(store, model.id, 0, split, groups);
    const first = log("train", [
      group("a", { "time/step_actor_s": 2, "costs/judge": 0.5, "time/other": 9, "costs/cum/mine": 7, turns: 3 }),
      group(1, { "time/step_actor_s": 4, "costs/judge": 1.5 }),
    ]);
    // Of means over the trajectories: 3 and 1.
    expect(first).toEqual({
      "train/reward": 1,
      "train/reward_std_dev": 0,
      "train/exception_rate": 0,
      "train/turns": 3,
      "time/step_actor_s": 3,
      "time/other": 9,
      "costs/judge": 1,
      "costs/cum/mine": 7,
      "time/cum/actor_s": 3,
      "costs/cum/judge": 1,
      "data/cum/num_unique_scenarios": 2,
    });
    expect(log("special", [group("z", { "costs/judge": 100 })])).not.toHaveProperty("costs/cum/judge");
    const second = log("val", [
      group("1", { "costs/judge": 0.25, "data/step_rows": 8 }, true),
      group("b", {}),
      group(null, {}),
    ]);
    expect(second).toMatchObject({ "costs/cum/judge": 1.25, "data/cum/rows": 8, "data/cum/num_unique_scenarios": 3 });
    expect(second).not.toHaveProperty("time/cum/actor_s");
    expect(log("val", [group(null, {})])).not.toHaveProperty("data/cum/num_unique_scenarios");
    expect(store.checkpoints.get(model.id, 0)!.metrics).toMatchObject({
      "time/cum/actor_s": 3,
      "costs/cum/judge": 1.25,
    });
    expect(loggedGroups(store, model.id)).toHaveLength(7);
  } finally {
    store.close();
  }
});

it("records many groups in turns as it does at once, and lets others see all of them or none", async () => {
  const home = mkdtempSync(join(tmpdir(), "record-groups-test-"));
  let store = openStore(home);
  try {
    const made = ["many", "once"].map((name) => {
      const model = store.models.create({ entity: "local", project: "p", name, baseModel: "b" });
      store.checkpoints.create({ modelId: model.id, step: 0 });
      return model.id;
    });
    const [many, once] = made as [string, string];
    const groups = Array.from({ length: 2000 }, (_, i) => group(i % 7, { "costs/judge": i, turns: i % 3 }));
    const seen: number[] = [];
    const look = () => seen.push(store.trajectories.list(many, { limit: 10 }).items.length);
    const metrics = await eachSlice(look, () => recordGroupsAsync(store, many, 0, "train", groups));
    expect(seen.length).toBeGreaterThan(2);
    expect(new Set(seen)).toEqual(new Set([0]));
    expect(metrics).toEqual(recordGroups(store, once, 0, "train", groups));
    expect(loggedGroups(store, many)).toEqual(groups);

    const { record } = await prepareGroups(store, many, 0, "val", groups);
    expect(() =>
      store.transaction(() => {
        record();
        throw new Error("taken back");
      }),
    ).toThrow("taken back");
    const discarded = await prepareGroups(store, many, 0, "val", groups);
    await discarded.discard();
    // As after a crash.
    store.close();
    store = openStore(home);
    expect(store.trajectories.list(many, { split: "val", limit: 1 }).items).toEqual([]);
    expect(loggedGroups(store, many)).toHaveLength(groups.length);
  } finally {
    store.close();
    rmSync(home, { recursive: true, force: true });
  }
});

it("refuses more names of metrics than a model's totals should have", () => {
  const named = (from: number, count: number) =>
    group("a", Object.fromEntries(Array.from({ length: count }, (_, i) => [`name${from + i}`, 1])));
  checkMetricNames([named(0, MAX_METRIC_NAMES), named(0, MAX_METRIC_NAMES)]);
  expect(() => checkMetricNames([named(0, MAX_METRIC_NAMES), named(5, MAX_METRIC_NAMES)])).toThrow(ValidationError);
});
