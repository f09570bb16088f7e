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

const sizes = (maxTokens = 16_384) => ({ maxTokens, passTokens: 2048 });

describe("passes over rows", () => {
  it("are as long as is needed for full speed, and no longer", () => {
    const passes = cutIntoPasses(times(10, 0, 0, 500), sizes());
    expect(passes.map(({ from, to }) => [from, to])).toEqual([
      [0, 4],
      [4, 8],
      [8, 10],
    ]);
    expect(passes.map(({ tokens }) => tokens)).toEqual([2000, 2000, 1000]);
    expect(cutIntoPasses(times(10, 0, 0, 500), { maxTokens: 16_384, passTokens: 16_384 })).toHaveLength(1);
  });

  it("that are to be small are no shorter than runs at full speed, and compute only little again", () => {
    const small = { maxTokens: 16_384, passTokens: 256 };
    const tokensOf = (rows: ReturnType<typeof times>) => cutIntoPasses(rows, small).map(({ tokens }) => tokens);
    expect(tokensOf(times(4, 0, 0, 256))).toEqual([256, 256, 256, 256]);
    expect(tokensOf(times(5, 0, 0, 130))).toEqual([260, 260, 130]);
    // A beginning of 100 tokens is computed again after passes of at least 800.
    expect(tokensOf(times(24, 0, 100, 70))).toEqual([100 + 10 * 70, 100 + 10 * 70, 100 + 4 * 70]);
  });

  it("have a long row to themselves, and never more than a limit", () => {
    const rows = [row(0, 0, 9000), row(1, 0, 100), row(2, 0, 100)];
    expect(cutIntoPasses(rows, sizes()).map(({ tokens }) => tokens)).toEqual([9000, 200]);
    expect(cutIntoPasses(rows, sizes(150)).map(({ tokens }) => tokens)).toEqual([9000, 100, 100]);
    expect(cutIntoPasses([], sizes(150))).toEqual([]);
  });

  it("keep completions of one long prompt together, and compute a short one again", () => {
    const long = times(16, 0, 1000, 200);
    expect(cutIntoPasses([...long, ...times(2, 1, 1000, 200)], sizes())).toEqual([
      { from: 0, to: 16, tokens: 1000 + 16 * 200 },
      { from: 16, to: 18, tokens: 1400 },
    ]);
    const short = cutIntoPasses(times(16, 0, 50, 200), sizes());
    expect(short.map(({ tokens }) => tokens)).toEqual([50 + 9 * 200, 50 + 7 * 200]);
    // Up to the limit.
    expect(cutIntoPasses(long, sizes(3000)).map(({ from, to }) => to - from)).toEqual([10, 6]);
  });

  it("do not cut apart what belongs together, and count what is computed", () => {
    const rows = [...times(2, 0, 600, 500), ...times(2, 1, 30, 900), ...times(2, 2, 0, 100)];
    const passes = cutIntoPasses(rows, sizes(), 2);
    expect(passes.map(({ from, to }) => [from, to])).toEqual([
      [0, 2],
      [2, 6],
    ]);
    for (const { from, to, tokens } of passes) {
      const packed = packRows(rows.slice(from, to));
      expect(tokens).toBe(packed.reduce((sum, { tokens }) => sum + tokens.length, 0));
    }
    expect(cutIntoPasses(rows, sizes(), rows.length)).toEqual([{ from: 0, to: 6, tokens: 1600 + 1830 + 200 }]);
  });
});
