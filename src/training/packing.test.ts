import { describe, expect, it } from "vitest";
import { cutIntoPasses, packRows } from "./packing.js";

let unique = 0;

/** A row of `shared` tokens that are those of all rows of `group`, and `own` that are no other's. */
const row = (group: number, shared: number, own: number) => {
  const length = shared + own;
  unique += 1;
  const tokens = Int32Array.from({ length }, (_, i) => (i < shared ? 10_000 * group + i : -10_000 * unique - i));
  return { tokens, trained: Uint8Array.from(tokens, (_, i) => (i > shared ? 1 : 0)) };
};
const times = (count: number, group: number, shared: number, own: number) =>
  Array.from({ length: count }, () => row(group, shared, own));

describe("passes over rows", () => {
  it("are as long as is needed for full speed, and no longer", () => {
    const passes = cutIntoPasses(times(10, 0, 0, 500), 16_384);
    expect(passes.map(({ from, to }) => [from, to])).toEqual([
      [0, 4],
      [4, 8],
      [8, 10],
    ]);
    expect(passes.map(({ tokens }) => tokens)).toEqual([2000, 2000, 1000]);
    expect(cutIntoPasses(times(10, 0, 0, 500), 16_384, 1, true)).toHaveLength(1);
  });

  it("have a long row to themselves, and never more than a limit", () => {
    const rows = [row(0, 0, 9000), row(1, 0, 100), row(2, 0, 100)];
    expect(cutIntoPasses(rows, 16_384).map(({ tokens }) => tokens)).toEqual([9000, 200]);
    expect(cutIntoPasses(rows, 150).map(({ tokens }) => tokens)).toEqual([9000, 100, 100]);
    expect(cutIntoPasses([], 150)).toEqual([]);
  });

  it("keep completions of one long prompt together, and compute a short one again", () => {
    const long = times(16, 0, 1000, 200);
    expect(cutIntoPasses([...long, ...times(2, 1, 1000, 200)], 16_384)).toEqual([
      { from: 0, to: 16, tokens: 1000 + 16 * 200 },
      { from: 16, to: 18, tokens: 1400 },
    ]);
    const short = cutIntoPasses(times(16, 0, 50, 200), 16_384);
    expect(short.map(({ tokens }) => tokens)).toEqual([50 + 9 * 200, 50 + 7 * 200]);
    // Up to the limit.
    expect(cutIntoPasses(long, 3000).map(({ from, to }) => to - from)).toEqual([10, 6]);
  });

  it("do not cut apart what belongs together, and count what is computed", () => {
    const rows = [...times(2, 0, 600, 500), ...times(2, 1, 30, 900), ...times(2, 2, 0, 100)];
    const passes = cutIntoPasses(rows, 16_384, 2);
    expect(passes.map(({ from, to }) => [from, to])).toEqual([
      [0, 2],
      [2, 6],
    ]);
    for (const { from, to, tokens } of passes) {
      const packed = packRows(rows.slice(from, to));
      expect(tokens).toBe(packed.reduce((sum, { tokens }) => sum + tokens.length, 0));
    }
    expect(cutIntoPasses(rows, 16_384, rows.length)).toEqual([{ from: 0, to: 6, tokens: 1600 + 1830 + 200 }]);
  });
});
