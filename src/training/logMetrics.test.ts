import { expect, it } from "vitest";
import type { TrajectoryGroup } from "../types/trajectories.js";
import { summarize } from "./logMetrics.js";

const trajectory = (reward: number, metrics: Record<string, number | boolean> = {}) => ({
  messages_and_choices: [],
  reward,
  metrics,
});

it("averages rewards, deviations of groups, exceptions and metrics", () => {
  const groups: TrajectoryGroup[] = [
    { trajectories: [trajectory(0, { right: false, turns: 3 }), trajectory(1, { right: true })], metrics: { hard: 2 } },
    { trajectories: [trajectory(5, { turns: Number.NaN })], exceptions: [{ type: "Error", message: "x" }] },
    { trajectories: [trajectory(2), trajectory(2), trajectory(5)] },
  ];
  const metrics = summarize(groups).metrics("val");
  expect(metrics["val/reward"]).toBeCloseTo(15 / 6, 12);
  // Deviations 0.5 and sqrt(2); the group of one does not count.
  expect(metrics["val/reward_std_dev"]).toBeCloseTo((0.5 + Math.SQRT2) / 2, 12);
  expect(metrics["val/exception_rate"]).toBeCloseTo(1 / 7, 12);
  expect(metrics).toMatchObject({ "val/right": 0.5, "val/turns": 3, "val/group_hard": 2 });
});

it("keeps complete names under the usual splits only", () => {
  const groups = [{ trajectories: [trajectory(1, { "time/rollout": 2, "val/x": 3, "mine/y": 4 })] }];
  expect(summarize(groups).metrics("train")).toMatchObject({ "time/rollout": 2, "val/x": 3, "train/mine/y": 4 });
  expect(summarize(groups).metrics("special")).toMatchObject({ "special/time/rollout": 2, "special/val/x": 3 });
});

it("says nothing of a reward when there is none", () => {
  expect(summarize([{ trajectories: [], exceptions: [{ type: "E", message: "" }] }]).metrics("train")).toEqual({
    "train/exception_rate": 1,
    "train/reward_std_dev": 0,
  });
});
