import { describe, expect, test } from "vitest";
import { NBest } from "./nBest.js";

interface Item {
  value: number;
  order: number;
}
const precedes = (a: Item, b: Item) => (a.value === b.value ? a.order < b.order : a.value > b.value);

describe("the best of many", () => {
  test.each([1, 2, 7, 64, 1000])("%d are those that sorting all of them gives, whatever their order", (limit) => {
    let state = 12345;
    const random = () => {
      state = (Math.imul(state, 1103515245) + 12345) >>> 0;
      return state >>> 16;
    };
    for (const [count, values] of [
      [500, 20],
      [500, 65536],
      [3, 2],
      [0, 1],
    ] as const) {
      const items = Array.from({ length: count }, (_, order) => ({ value: random() % values, order }));
      const best = new NBest<Item>(limit, precedes);
      for (const item of [...items].sort(
        (a, b) => ((a.value * 31 + a.order * 17) % 101) - ((b.value * 31 + b.order * 17) % 101),
      )) {
        const threshold = best.threshold;
        expect(best.offer(item)).toBe(threshold === null || precedes(item, threshold));
      }
      const sorted = [...items].sort((a, b) => b.value - a.value || a.order - b.order);
      expect(best.inOrder()).toEqual(sorted.slice(0, limit));
      expect(best.threshold).toBe(count < limit ? null : sorted[limit - 1]);
    }
  });
});
