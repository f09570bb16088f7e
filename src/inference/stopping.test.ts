import { describe, expect, test } from "vitest";
import type { SamplingSettings } from "./request.js";
import { endIds, repeats, Stopping } from "./stopping.js";

const settings = (over: Partial<SamplingSettings>) =>
  ({
    maxTokens: 5,
    minTokens: 0,
    eosId: 2,
    extraEosIds: [3],
    ignoreEos: false,
    stopTokenIds: [9],
    repetitionDetection: null,
    logprobTokenIds: null,
    thinking: null,
    ...over,
  }) as SamplingSettings;

const check = (outputs: number[], over: Partial<SamplingSettings> = {}) =>
  new Stopping(settings(over)).check(Int32Array.from([7, 7, ...outputs]), 2, outputs.length + 2);

describe("a choice ends", () => {
  test("at the primary end of sequence, without a reason", () => {
    expect(check([1, 2])).toEqual({ reason: "stop", stopReason: null });
  });

  test("at a further end of sequence or a stop id, with the id", () => {
    expect(check([1, 3])).toEqual({ reason: "stop", stopReason: 3 });
    expect(check([1, 9])).toEqual({ reason: "stop", stopReason: 9 });
  });

  test("the primary end of sequence goes before the same id as stop id", () => {
    expect(check([2], { stopTokenIds: [2] })).toEqual({ reason: "stop", stopReason: null });
  });

  test("with ignoreEos only at explicit stop ids, an end of sequence among them", () => {
    expect(check([2], { ignoreEos: true })).toBeNull();
    expect(check([3], { ignoreEos: true })).toBeNull();
    expect(check([9], { ignoreEos: true })).toEqual({ reason: "stop", stopReason: 9 });
    expect(check([2], { ignoreEos: true, stopTokenIds: [2] })).toEqual({ reason: "stop", stopReason: 2 });
  });

  test("at the limit; an end of sequence there is a stop", () => {
    expect(check([1, 1, 1, 1])).toBeNull();
    expect(check([1, 1, 1, 1, 1])).toEqual({ reason: "length", stopReason: null });
    expect(check([1, 1, 1, 1, 2])).toEqual({ reason: "stop", stopReason: null });
  });

  test("not before minTokens", () => {
    expect(check([2], { minTokens: 2 })).toBeNull();
    expect(check([1, 2], { minTokens: 2 })).toEqual({ reason: "stop", stopReason: null });
  });

  test("at a repetition, judged after the limit", () => {
    const repetitionDetection = { maxPatternSize: 1, minPatternSize: 1, minCount: 3 };
    expect(check([4, 4, 4], { repetitionDetection })).toEqual({
      reason: "repetition",
      stopReason: "repetition_detected",
    });
    expect(check([1, 1, 4, 4, 4], { repetitionDetection })).toEqual({ reason: "length", stopReason: null });
  });
});

test("masked before minTokens: every end, even one that is ignored", () => {
  expect([...endIds(settings({ ignoreEos: true, stopTokenIds: [30, 4, -1, 900] }), 900)]).toEqual([2, 3, 4, 30]);
});

describe("repetition", () => {
  const of = (outputs: number[], minPatternSize: number, maxPatternSize: number, minCount: number) =>
    repeats(Int32Array.from(outputs), { minPatternSize, maxPatternSize, minCount });

  test("of a pattern of a size asked for, as often as asked for, at the end", () => {
    expect(of([1, 2, 1, 2, 1, 2], 1, 2, 3)).toBe(true);
    expect(of([9, 1, 2, 1, 2], 1, 2, 2)).toBe(true);
    expect(of([1, 2, 1, 2, 3], 1, 2, 2)).toBe(false);
    expect(of([1, 2, 1, 2], 1, 2, 3)).toBe(false);
    expect(of([1, 2, 1, 2], 1, 1, 2)).toBe(false);
    expect(of([5, 5, 5, 5], 2, 2, 2)).toBe(true);
    expect(of([5, 5, 5], 2, 2, 2)).toBe(false);
  });

  test("a smallest size of 0 counts as 1, a largest of 0 is off", () => {
    expect(of([5, 5], 0, 1, 2)).toBe(true);
    expect(of([5, 5], 0, 0, 2)).toBe(false);
  });
});
