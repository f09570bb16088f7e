// Layers with a window: their pages are free once no token sees them, and what is computed stays the same.

import { describe, expect, test } from "vitest";
import type { PagedDeviceOptions } from "../../test/fixtures/pagedDevice.js";
import { idsOf, openLoop, read as readAll, request } from "../../test/fixtures/pagedLoop.js";
import { generate } from "./index.js";
import type { InferenceLoop } from "./inferenceLoop.js";
import { PageGroups } from "./pageGroups.js";
import type { GenerationRequest } from "./request.js";

const TOKEN_BUDGET = 128;

const open = (device: PagedDeviceOptions, maxSequences = 32) =>
  openLoop(device, { maxSequences, tokenBudget: TOKEN_BUDGET, contextLength: 4096 });

const prompt = (length: number, seed = 1) => Array.from({ length }, (_, i) => (i * i * 31 + seed * 17) % 900);

async function read(loop: InferenceLoop, asked: GenerationRequest) {
  const answer = await readAll(generate(loop, asked));
  return { choices: idsOf(answer), cached: answer.cached };
}

/** Groups of layers as Gemma 3 has them, as Gemma 2, as older Mistrals, and with a window shorter than a page. */
const layouts: [name: string, windows: number[]][] = [
  ["one full group of four", [0, 100, 100, 100]],
  ["half of them full", [0, 130]],
  ["windows only", [200]],
  ["a short window", [0, 3]],
];

describe.each(layouts)("%s", (_, pageGroups) => {
  /** Of a device with room for everything. */
  const alone = (asked: GenerationRequest) => read(open({ pageGroups, pages: 512 }).loop, asked);
  const groups = new PageGroups(pageGroups);

  test("a long text holds the pages that it sees", async () => {
    let most = 0;
    const next = () => {
      most = Math.max(most, loop.stats().cacheUsage);
      return null;
    };
    const { loop } = open({ pageGroups, pages: 64, next });
    const asked = request({ promptTokens: prompt(1500), params: { maxTokens: 700 } });
    expect((await read(loop, asked)).choices).toEqual((await alone(asked)).choices);
    const held = Math.round(most * 64 * groups.count);
    expect(held).toBeLessThanOrEqual(groups.pagesOf(2200, 1));
    expect(held).toBeGreaterThan(groups.pagesOf(2200, 1) - 2 * groups.count);
    expect(loop.stats()).toMatchObject({ cacheUsage: 0, preemptions: 0 });
  });

  test("a context is as long as the pages allow", async () => {
    // A quarter of what the longest would take where all layers saw everything.
    const { loop } = open({ pageGroups, pages: 16 });
    const full = 1024;
    if (pageGroups[1] === 130) expect(loop.contextLength).toBeGreaterThan(full);
    else expect(loop.contextLength).toBeGreaterThan(1.5 * full);
    const asked = request({ promptTokens: prompt(loop.contextLength - 70), params: { maxTokens: 70 } });
    expect((await read(loop, asked)).choices).toEqual((await alone(asked)).choices);
    expect(loop.stats().preemptions).toBe(0);
  });

  test("a prompt is found again, with the pages that its next token sees", async () => {
    const { loop, model } = open({ pageGroups, pages: 64 });
    const asked = request({ promptTokens: prompt(1000), params: { maxTokens: 5 } });
    const first = await read(loop, asked);
    const computed = model.seen.tokens;
    const again = await read(loop, asked);
    expect(again).toEqual({ choices: first.choices, cached: 992 });
    expect(model.seen.tokens - computed).toBeLessThan(16);
    // And goes on from there, or from its middle, as far as pages of windows are still known.
    for (const promptTokens of [
      [...prompt(1000), ...prompt(300, 2)],
      [...prompt(700), ...prompt(300, 3)],
    ]) {
      const other = request({ promptTokens, params: { maxTokens: 90 } });
      const found = await read(loop, other);
      expect(found.cached).toBeGreaterThanOrEqual(promptTokens.length === 1300 ? 992 : 688);
      expect(found.choices).toEqual((await alone(other)).choices);
    }
  });

  test("what others have taken of a prompt's pages is computed again", async () => {
    const { loop } = open({ pageGroups, pages: 24 });
    const asked = request({ promptTokens: prompt(900), params: { maxTokens: 100 } });
    const first = await read(loop, asked);
    for (const seed of [2, 3, 4, 5]) {
      await read(loop, request({ promptTokens: prompt(500, seed), params: { maxTokens: 30 } }));
      expect((await read(loop, asked)).choices).toEqual(first.choices);
    }
    expect(loop.stats().cacheUsage).toBe(0);
  });

  test("choices share a prompt longer than the window", async () => {
    const asked = request({ promptTokens: prompt(450), n: 6, params: { maxTokens: 180 } });
    const wanted = await alone(asked);
    expect(new Set(wanted.choices.map(String)).size).toBe(6);
    const { loop } = open({ pageGroups, pages: 18 });
    expect((await read(loop, asked)).choices).toEqual(wanted.choices);
    expect(loop.stats().cacheUsage).toBe(0);
  });

  test("a choice that comes when the first no longer sees the prompt's end finds its own way", async () => {
    const asked = request({ promptTokens: prompt(450), n: 2, params: { maxTokens: 500 } });
    const wanted = await alone(asked);
    const { loop } = open({ pageGroups, pages: 32 }, 2);
    // Has the second place until the first choice has drawn as many.
    const other = read(loop, request({ promptTokens: prompt(100, 9), params: { maxTokens: 400 } }));
    expect((await read(loop, asked)).choices).toEqual(wanted.choices);
    await other;
  });

  test("beams that outgrow the window find what they find with room for all", async () => {
    const beam = { width: 3, lengthPenalty: 1 };
    const asked = request({ promptTokens: prompt(170), n: 3, params: { maxTokens: 150, beam } });
    const wanted = await alone(asked);
    expect(wanted.choices).toHaveLength(3);
    const { loop } = open({ pageGroups, pages: 10 });
    expect((await read(loop, asked)).choices).toEqual(wanted.choices);
    expect(loop.stats().cacheUsage).toBe(0);
  });

  test("many requests at once give what each gives alone, with far too few pages", async () => {
    const asked = Array.from({ length: 16 }, (_, i) =>
      request({
        promptTokens: [...prompt(60 + (i % 5) * 97, i % 3), ...prompt((i * 53) % 300, 10 + i)],
        params: { maxTokens: 20 + ((i * 37) % 200) },
      }),
    );
    const wanted = await Promise.all(asked.map(async (one) => (await alone(one)).choices));
    const { loop } = open({ pageGroups, pages: 16 });
    const found = await Promise.all(asked.map(async (one) => (await read(loop, one)).choices));
    expect(found).toEqual(wanted);
    expect(loop.stats().preemptions).toBeGreaterThan(0);
    expect(loop.stats().cacheUsage).toBe(0);
  });
});

test("what a sequence takes is counted as it is held", () => {
  const groups = new PageGroups([0, 100, 100]);
  expect(groups.pagesOf(64, 1)).toBe(3);
  // A window of 100 lies in three pages at most.
  expect(groups.pagesOf(6400, 1)).toBe(100 + 2 * 3);
  expect(groups.tokensWithin(106, 1)).toBe(6400);
  expect(groups.tokensWithin(105, 1)).toBe(6336);
  expect(groups.tokensWithin(2, 1)).toBe(0);
  expect([groups.unseen(0, 1000), groups.unseen(1, 1000), groups.unseen(1, 99)]).toEqual([0, 14, 0]);
});
