// Tokens that come along with those that are drawn: forced by a grammar, or guessed.

import { describe, expect, test } from "vitest";
import type { RequestOver } from "../../test/fixtures/generationRequest.js";
import { guess, next } from "../../test/fixtures/guessedTokens.js";
import { openLoop, prompt, read, request } from "../../test/fixtures/pagedLoop.js";
import type { GenerationRequest, TokensEvent } from "./request.js";

const grammar = { matcher: () => ({}) } as unknown as NonNullable<GenerationRequest["grammar"]>;

/** After a token divisible by 3, as many tokens above 900 are forced as its hundreds digit says, so many `times`. */
const forcedBehind =
  (times: (drawn: number) => number) =>
  (context: number[]): number | null => {
    let back = 0;
    while (back < context.length && context[context.length - 1 - back]! > 900) back++;
    const drawn = context[context.length - 1 - back];
    if (drawn === undefined || drawn % 3 !== 0) return null;
    return back < Math.floor(drawn / 100) * times(drawn) ? 901 + ((drawn + back) % 100) : null;
  };

/** Draws below 900, so that forced tokens are told apart from drawn ones; -1 in the device's own hash is none. */
function drawnBehind(context: number[], salt: number): number {
  let h = salt;
  for (const token of context) h = (Math.imul(h ^ token, 0x01000193) + 0x9e3779b9) >>> 0;
  return ((h ^ (h >>> 13)) >>> 0) % 900;
}

describe("forced tokens", () => {
  const force = forcedBehind((drawn) => (drawn % 2 === 0 ? 8 : 1));
  const next = (context: number[], outputs: number, { seed }: { seed: bigint; choice: number }): number =>
    drawnBehind(context, Number(seed) + outputs * 7);
  const device = { force, next, vocab: 1100 };
  const over = (i: number, logprobs: number | null): RequestOver => ({
    grammar,
    n: 1 + (i % 3),
    promptTokens: prompt(20 + i * 23, i),
    streaming: i % 2 === 0,
    params: { seed: BigInt(i), logprobs, maxTokens: 90 + i * 11, stop: i === 3 ? ["a"] : [], stopTokenIds: [955] },
  });
  const all = async (logprobs: number | null, pages: number, putsOff?: (draw: number) => boolean) => {
    const { loop, model } = openLoop({ ...device, pages, putsOff }, { contextLength: 400 });
    const results = await Promise.all(
      Array.from({ length: 8 }, (_, i) => read(loop.submit(request(over(i, logprobs))))),
    );
    const stats = loop.stats();
    await loop.close();
    expect(model.openSlots).toBe(0);
    return {
      stats,
      seen: model.seen,
      outputs: results.map(({ choices }) => choices.map(({ ids, text, finish }) => ({ ids, text, finish }))),
    };
  };

  test("are taken without steps of their own, to the same effect", async () => {
    const each = await all(0, 400);
    const together = await all(null, 400);
    expect(together.outputs).toEqual(each.outputs);
    expect(together.seen.steps).toBeLessThan(each.seen.steps * 0.6);
    expect(together.stats.generatedTokens).toBeGreaterThanOrEqual(
      each.outputs.flat().reduce((sum, { ids }) => sum + ids.length, 0),
    );
  });

  test("do not depend on room in pages", async () => {
    const { outputs } = await all(0, 400);
    let preemptions = 0;
    for (let pages = 7; pages < 28; pages += 2) {
      const scarce = await all(null, pages);
      preemptions += scarce.stats.preemptions;
      expect(scarce.outputs).toEqual(outputs);
    }
    expect(preemptions).toBeGreaterThan(5);
  });

  test("are the same where draws are put off, again and again", async () => {
    const { outputs } = await all(0, 400);
    for (const [logprobs, pages] of [
      [0, 400],
      [null, 400],
      [null, 9],
      [null, 15],
    ] as const) {
      const late = await all(logprobs, pages, (draw) => (draw * 7919) % 11 < 5);
      expect(late.outputs).toEqual(outputs);
    }
  });

  test("end at the limit", async () => {
    const { loop } = openLoop({ force: () => 902, vocab: 1100 });
    const result = await read(loop.submit(request({ grammar, params: { maxTokens: 45 } })));
    expect(result.choices[0]).toMatchObject({ ids: new Array(45).fill(902), finish: { reason: "length" } });
    // The second takes what is left; one more had been handed over by then.
    expect(loop.stats().steps).toBe(3);
  });
});

describe("guessed tokens", () => {
  const over = (i: number, logprobs: number | null): RequestOver => ({
    n: 1 + (i % 2),
    promptTokens: prompt(20 + i * 23, i),
    streaming: i % 2 === 0,
    params: { seed: BigInt(i), logprobs, maxTokens: 130 + i * 11, stop: i === 3 ? ["a"] : [], stopTokenIds: [57] },
  });
  interface Setting {
    promptLookup: boolean;
    logprobs?: number | null;
    pages?: number;
    pageGroups?: readonly number[];
    requests?: number;
  }
  const all = async ({ promptLookup, logprobs = null, pages = 400, pageGroups, requests = 3 }: Setting) => {
    const { loop, model } = openLoop({ next, guess, pages, pageGroups }, { contextLength: 400, promptLookup });
    const results = await Promise.all(
      Array.from({ length: requests }, async (_, i) => {
        const events: TokensEvent[] = [];
        for await (const event of loop.submit(request(over(i, logprobs)))) {
          if (event.type === "tokens") events.push(event);
        }
        return [0, 1].map((index) => {
          const own = events.filter((event) => event.index === index);
          return {
            text: own.map(({ text }) => text).join(""),
            ids: own.flatMap(({ tokenIds }) => tokenIds),
            logprobs: own.flatMap((event) => event.logprobs ?? []),
            top: own.flatMap(({ top }) => top ?? []),
            finish: own.at(-1)?.finish,
          };
        });
      }),
    );
    const stats = loop.stats();
    await loop.close();
    expect(model.openSlots).toBe(0);
    return { stats, steps: model.seen.steps, results };
  };

  test("are taken several in a step, to the same effect", async () => {
    const each = await all({ promptLookup: false });
    const together = await all({ promptLookup: true });
    expect(together.results).toEqual(each.results);
    expect(each.stats).toMatchObject({ drafts: 0, draftedTokens: 0, keptTokens: 0 });
    const { drafts, draftedTokens, keptTokens, generatedTokens } = together.stats;
    expect(drafts).toBeGreaterThan(10);
    expect(draftedTokens).toBeGreaterThan(keptTokens);
    expect(keptTokens).toBeGreaterThan(drafts);
    expect(generatedTokens).toBeGreaterThanOrEqual(each.stats.generatedTokens - each.stats.discardedRows);
    expect(together.steps).toBeLessThan(each.steps * 0.8);
  });

  test("bring what is reported of each", async () => {
    const each = await all({ promptLookup: false, logprobs: 2 });
    const together = await all({ promptLookup: true, logprobs: 2 });
    expect(together.results).toEqual(each.results);
    expect(together.results[0]![0]!.logprobs).toHaveLength(together.results[0]![0]!.ids.length);
    expect(together.stats.keptTokens).toBeGreaterThan(20);
  });

  test.each([{ pageGroups: [0] }, { pageGroups: [0, 40] }, { pageGroups: [70] }])(
    "do not depend on room in pages: $pageGroups",
    async ({ pageGroups }) => {
      let preemptions = 0;
      let kept = 0;
      for (let pages = 7; pages < 16; pages++) {
        const each = await all({ promptLookup: false, pages, pageGroups, requests: 6 });
        const scarce = await all({ promptLookup: true, pages, pageGroups, requests: 6 });
        expect(scarce.results).toEqual(each.results);
        preemptions += scarce.stats.preemptions;
        kept += scarce.stats.keptTokens;
      }
      expect(preemptions).toBeGreaterThan(0);
      expect(kept).toBeGreaterThan(200);
    },
  );

  test("are few where many sequences share a step", async () => {
    const shares: number[] = [];
    for (const requests of [2, 20]) {
      const { stats } = await all({ promptLookup: true, requests });
      shares.push(stats.draftedTokens / stats.generatedTokens);
    }
    expect(shares[0]).toBeGreaterThan(0.8);
    expect(shares[1]).toBeLessThan(0.2);
  });

  test("are taken from the prompt, once, and from what is predicted as it would follow it", async () => {
    const { loop, model } = openLoop({ next: () => 5 }, { promptLookup: true });
    const given = { promptTokens: prompt(50), params: { maxTokens: 20 } };
    await read(loop.submit(request(given)));
    await read(loop.submit(request({ ...given, prediction: [901, 902, 903] })));
    expect(model.seen.lookups).toEqual([prompt(50), [...prompt(50), 901, 902, 903, ...prompt(50).slice(-32)]]);
  });

  test.each<[string, number, number[], [number, number]]>([
    ["in the prompt alone", 20, [901, 902], [0, 0]],
    ["in the prompt and the prediction", 47, [901, 902, 903, 904], [1, 3]],
    ["in the prediction", 50, [901, 902, 903, 904, 905, 906, 907], [4, 3]],
    ["in the prediction and what follows it", 53, [901, 902, 903, 904, 905, 906], [3, 0]],
  ])("that stood %s are counted as what they are of the prediction", async (_, guessPlace, prediction, counts) => {
    // Of seven guesses the first four hold, once.
    const guess = (context: number[]) => (context.length === 51 ? [5, 5, 5, 5, 6, 6, 6] : []);
    const { loop } = openLoop({ next: () => 5, guess, guessPlace }, { promptLookup: true });
    const given = { promptTokens: prompt(50), params: { maxTokens: 20 } };
    const without = loop.submit(request(given));
    await read(without);
    expect(without.record.prediction).toBeNull();
    const generation = loop.submit(request({ ...given, prediction }));
    await read(generation);
    expect(generation.record.prediction).toEqual({ accepted: counts[0], rejected: counts[1] });
  });

  test("end at the limit", async () => {
    const { loop } = openLoop({ next: () => 5, guess: () => new Array(15).fill(5) }, { promptLookup: true });
    const result = await read(loop.submit(request({ params: { maxTokens: 40 } })));
    expect(result.choices[0]).toMatchObject({ ids: new Array(40).fill(5), finish: { reason: "length" } });
    // One token of the prompt's step, sixteen of each that follows, and what had been handed over by then.
    expect(loop.stats().steps).toBeLessThan(8);
  });

  test("stand beside forced ones, and draws that are put off", async () => {
    const drawn = (context: number[]): number => drawnBehind(context.slice(-9), 7);
    const force = forcedBehind(() => 1);
    const guessAll = (context: number[]) => {
      const tokens = [...context];
      for (let i = 0; i < 12; i++) tokens.push(force(tokens) ?? drawn(tokens) + (i === context.length % 13 ? 1 : 0));
      return tokens.slice(context.length);
    };
    const replies = async (promptLookup: boolean, pages: number, putsOff?: (draw: number) => boolean) => {
      const { loop, model } = openLoop(
        { next: drawn, force, guess: guessAll, vocab: 1100, pages, putsOff },
        { contextLength: 400, promptLookup },
      );
      const results = await Promise.all(
        [null, 0, null].map((logprobs, i) => read(loop.submit(request({ ...over(i, logprobs), grammar })))),
      );
      const stats = loop.stats();
      await loop.close();
      expect(model.openSlots).toBe(0);
      return { stats, outputs: results.map(({ choices }) => choices.map(({ ids, finish }) => ({ ids, finish }))) };
    };
    const { outputs } = await replies(false, 400);
    for (const pages of [400, 7, 10, 14]) {
      const together = await replies(true, pages);
      expect(together.outputs).toEqual(outputs);
      expect(together.stats.keptTokens).toBeGreaterThan(100);
      const late = await replies(true, pages, (draw) => (draw * 7919) % 11 < 5);
      expect(late.outputs).toEqual(outputs);
      expect(late.stats.keptTokens).toBeGreaterThan(50);
    }
  });
});
