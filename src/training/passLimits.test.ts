import { expect, it } from "vitest";
import type { TrainingBase } from "./host.js";
import { passLimits } from "./passLimits.js";

const base = { contextLength: 40_960 } as TrainingBase;

it("activations take what memory there is, within bounds, and a full context always fits a pass", () => {
  expect(passLimits(base, 2 ** 29)).toEqual({ maxTokens: 40_960, memoryBudget: 2 ** 29 });
  expect(passLimits(base, 64 * 2 ** 30).memoryBudget).toBe(64 * 2 ** 30);
  // A budget of 0 would mean no limit at all.
  expect(passLimits(base, 0).memoryBudget).toBe(64 * 2 ** 20);
  expect(passLimits(base, -1e9).memoryBudget).toBe(64 * 2 ** 20);
  expect(passLimits({ ...base, contextLength: 128 }, 2 ** 29).maxTokens).toBe(16_384);
});
