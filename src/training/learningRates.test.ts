import { expect, it } from "vitest";
import { learningRates } from "./learningRates.js";

const rounded = (values: number[]) => values.map((value) => Math.round(value * 1e6) / 1e6);

it("a rate is kept, or falls to 0 in a line or a half cosine", () => {
  expect(learningRates({ peak: 2, schedule: "constant", warmupRatio: 0 }, 3)).toEqual([2, 2, 2]);
  expect(learningRates({ peak: 2, schedule: "linear", warmupRatio: 0 }, 5)).toEqual([2, 1.5, 1, 0.5, 0]);
  expect(rounded(learningRates({ peak: 2, schedule: "cosine", warmupRatio: 0 }, 5))).toEqual([
    2, 1.707107, 1, 0.292893, 0,
  ]);
});

it("warming up comes first", () => {
  expect(learningRates({ peak: 4, schedule: "linear", warmupRatio: 0.4 }, 5)).toEqual([2, 4, 4, 2, 0]);
  expect(learningRates({ peak: 4, schedule: "constant", warmupRatio: 1 }, 4)).toEqual([1, 2, 3, 4]);
});

it("one step is made at the full rate", () => {
  expect(learningRates({ peak: 3, schedule: "linear", warmupRatio: 0.5 }, 1)).toEqual([3]);
  expect(learningRates({ peak: 3, schedule: "cosine", warmupRatio: 0 }, 0)).toEqual([]);
});
