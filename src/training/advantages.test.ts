import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { groupAdvantages, normaliseBatch, trajectoryWeight, type Weighted } from "./advantages.js";

/** Groups of (reward, trained tokens) to normalised (advantage, weight) of what is left. */
function batch(groups: [number, number][][], scale: boolean, balance: number) {
  const items = groups.flatMap((group, g): (Weighted & { place: [number, number] })[] => {
    const advantages = groupAdvantages(
      group.map(([reward]) => reward),
      scale,
    );
    return group
      .map(([, tokens], t) => ({
        place: [g, t] as [number, number],
        advantage: advantages[t]!,
        weight: trajectoryWeight(tokens),
        tokens,
      }))
      .filter((item) => item.advantage !== 0);
  });
  normaliseBatch(items, balance);
  return items;
}

function expectNumbers(actual: number[], expected: number[]): void {
  expect(actual).toHaveLength(expected.length);
  for (const [i, value] of expected.entries()) expect(Math.abs(actual[i]! - value)).toBeLessThan(1e-5);
}

// Published worked numbers of this normalisation.
const one: [number, number][][] = [
  [
    [1, 2],
    [0, 3],
    [0.5, 1],
  ],
];
const two: [number, number][][] = [
  [
    [1, 4],
    [0, 2],
  ],
  [
    [0.3, 5],
    [0.1, 10],
    [0.2, 5],
  ],
];

describe("advantages", () => {
  it.each([true, false])("of one group do not depend on its scale (scale_rewards %s)", (scale) => {
    for (const [balance, first, second] of [
      [0, 1, -1],
      [0.25, 1.142857, -0.857143],
      [-0.5, 0.666667, -1.333333],
      [1, 2, 0],
    ] as const) {
      const items = batch(one, scale, balance);
      expectNumbers(
        items.map((item) => item.advantage),
        [first, second],
      );
      expectNumbers(
        items.map((item) => item.weight),
        [1.25, 0.833333],
      );
    }
  });

  it.each([
    [true, 0, [0.898985, -0.898985, 1.101015, -1.101015]],
    [true, 0.25, [1.027411, -0.770558, 1.258303, -0.943728]],
    [false, 0, [1.666667, -1.666667, 0.333333, -0.333333]],
    [false, -0.5, [1.111111, -2.222222, 0.222222, -0.444444]],
  ])("of two groups (scale_rewards %s, balance %s)", (scale, balance, expected) => {
    const items = batch(two, scale, balance);
    expectNumbers(
      items.map((item) => item.advantage),
      expected,
    );
    expectNumbers(
      items.map((item) => item.weight),
      [1.3125, 2.625, 1.05, 0.525],
    );
  });

  it("of 300 random batches are what numpy makes of them", () => {
    const cases = JSON.parse(
      readFileSync(new URL("../../test/reference/advantages/cases.json", import.meta.url), "utf8"),
    ) as {
      groups: [number, number][][];
      scale: boolean;
      balance: number;
      expected: [number, number, number, number][];
    }[];
    expect(cases.filter(({ expected }) => expected.length === 0).length).toBeGreaterThan(10);
    for (const [i, { groups, scale, balance, expected }] of cases.entries()) {
      const items = batch(groups, scale, balance);
      expect(
        items.map(({ place }) => place),
        `case ${i}`,
      ).toEqual(expected.map(([g, t]) => [g, t]));
      for (const [k, [, , advantage, weight]] of expected.entries()) {
        const { advantage: a, weight: w } = items[k]!;
        // Rewards that differ by a millionth of their size keep nine digits of the difference.
        expect(Math.abs(a - advantage), `case ${i}.${k}`).toBeLessThanOrEqual(1e-8 * Math.max(1, Math.abs(advantage)));
        expect(Math.abs(w - weight), `case ${i}.${k}`).toBeLessThanOrEqual(1e-12 * weight);
      }
    }
  });

  it("are exactly 0 for equal rewards that have no exact binary form", () => {
    for (let n = 1; n <= 20; n++) {
      for (const reward of [0.1, 0.3, 1e6 / 3, -0.7]) {
        expect(groupAdvantages(new Array(n).fill(reward), true).every((a) => a === 0)).toBe(true);
      }
    }
  });

  it("survive a balance that leaves nothing", () => {
    const items = [{ advantage: -1, weight: 1, tokens: 3 }];
    normaliseBatch(items, 1);
    expect(Math.abs(items[0]!.advantage)).toBe(0);
    normaliseBatch([], 0);
  });
});
