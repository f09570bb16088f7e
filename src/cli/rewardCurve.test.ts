import { expect, test } from "vitest";
import { rewardCurve } from "./rewardCurve.js";

test("a rising series fills its columns from the bottom", () => {
  expect(rewardCurve([0, 0.5, 1], { height: 2, width: 3 })).toEqual(["1.0 ┤  █", "0.0 ┤ ██"]);
});

test("values outside 0..1 are clamped and long series averaged", () => {
  const lines = rewardCurve([-1, 0, 0, 0, 5, 1, 1, 1], { height: 1, width: 2 });
  expect(lines).toEqual(["1.0 ┤ █"]);
});

test("an empty series draws nothing", () => {
  expect(rewardCurve([])).toEqual([]);
});

test("a series outside 0..1 gets a scale of its own", () => {
  expect(rewardCurve([-2, 0, 2], { height: 2, width: 3, from: -2, to: 2 })).toEqual([" 2.0 ┤  █", "-2.0 ┤ ██"]);
});
