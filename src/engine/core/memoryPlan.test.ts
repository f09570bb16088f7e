import { describe, expect, it } from "vitest";
import { InsufficientMemoryError } from "../../errors.js";
import { planPages, planRecurrentStates } from "./memoryPlan.js";

const MiB = 2 ** 20;
const limits = { contextLength: 1024, maxSequences: 4, tokenBudget: 128 };
const needs = (page: number, pageGroups = [0]) => ({ weights: 100 * MiB, page, pageGroups });

describe("planPages", () => {
  it("takes pages for every sequence when there is room", () => {
    expect(planPages("m", needs(MiB), 1000 * MiB, limits)).toBe(4 * 17);
  });

  it("takes half of what the weights leave when there is less, and one context at least", () => {
    expect(planPages("m", needs(MiB), 180 * MiB, limits)).toBe(40);
    expect(planPages("m", needs(MiB), 120 * MiB, limits)).toBe(17);
  });

  it("takes no more of layers with a window than they see", () => {
    // 17 pages of the first group, and of each other ceil((128 + 128 - 2) / 64) + 1 = 5.
    expect(planPages("m", needs(3 * MiB, [0, 128, 128]), 1000 * MiB, limits)).toBe(4 * Math.ceil((17 + 2 * 5) / 3));
    expect(planPages("m", needs(3 * MiB, [0, 128, 128]), 127 * MiB, limits)).toBe(9);
    expect(planPages("m", needs(MiB, [128]), 1000 * MiB, limits)).toBe(4 * 5);
  });

  it("leaves recurrent states half of the cache, and plans for two at least", () => {
    const needs = { weights: 100 * MiB, page: MiB, pageGroups: [0], recurrentState: 10 * MiB };
    expect(planRecurrentStates(needs, 1000 * MiB, limits)).toBe(8);
    expect(planPages("m", needs, 1000 * MiB, limits)).toBe(4 * 17);
    expect(planRecurrentStates(needs, 220 * MiB, limits)).toBe(3);
    expect(planPages("m", needs, 220 * MiB, limits)).toBe(30);
    expect(planRecurrentStates(needs, 137 * MiB, limits)).toBe(2);
    expect(planPages("m", needs, 137 * MiB, limits)).toBe(17);
    expect(() => planPages("m", needs, 136 * MiB, limits)).toThrow(InsufficientMemoryError);
    expect(planRecurrentStates({ weights: 100 * MiB, page: MiB, pageGroups: [0] }, 1000 * MiB, limits)).toBe(0);
  });

  it("says which option to lower when one context does not fit", () => {
    const failure = (budget: number) => {
      try {
        planPages("m", needs(MiB), budget, limits);
      } catch (error) {
        return error as InsufficientMemoryError;
      }
      return null;
    };
    expect(failure(110 * MiB)).toBeInstanceOf(InsufficientMemoryError);
    expect(failure(110 * MiB)).toMatchObject({ param: "contextLength", needed: 117 * MiB, available: 110 * MiB });
    expect(failure(90 * MiB)).toMatchObject({ param: "models" });
    expect(failure(117 * MiB)).toBeNull();
  });
});
