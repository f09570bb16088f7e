import { describe, expect, test } from "vitest";
import { generationRequest } from "../../test/fixtures/generationRequest.js";
import { PagedDevice } from "../../test/fixtures/pagedDevice.js";
import { openLoop, tokenizer } from "../../test/fixtures/pagedLoop.js";
import { beamSearch } from "./beamSearch.js";
import type { SamplingSettings, TokensEvent } from "./request.js";

const VOCAB = 40;
const PROMPT = Array.from({ length: 70 }, (_, i) => (i * 7) % VOCAB);

interface Options extends Partial<Omit<SamplingSettings, "beam">> {
  width: number;
  lengthPenalty?: number;
  pages?: number;
  tokenBudget?: number;
  /** Every token is as likely as any other. */
  flat?: boolean;
}

function begin(
  { width, lengthPenalty = 1, pages = 64, tokenBudget = 256, flat = false, ...over }: Options,
  signal?: AbortSignal,
) {
  const { model: device, loop } = openLoop({ vocab: VOCAB, pages, flat }, { tokenBudget, maxQueue: 10 });
  const request = generationRequest({
    promptTokens: PROMPT,
    n: width,
    params: { maxTokens: 6, logprobs: 0, beam: { width, lengthPenalty }, ...over },
  });
  return { loop, device, generation: beamSearch(loop, request, signal) };
}

async function search(options: Options) {
  const { loop, generation } = begin(options);
  const choices: TokensEvent[] = [];
  for await (const event of generation) if (event.type === "tokens") choices.push(event);
  return { choices, stats: loop.stats() };
}

interface Plain {
  tokens: number[];
  sum: number;
}

/** The search in a dozen lines, over whole token lists, without pages, filters or an early end. */
function plainSearch(width: number, steps: number, eos: number | null, lengthPenalty: number): Plain[] {
  const device = new PagedDevice({ vocab: VOCAB });
  const score = ({ tokens, sum }: Plain) => {
    const length = PROMPT.length + tokens.length - (tokens.at(-1) === eos ? 1 : 0);
    return sum / length ** lengthPenalty;
  };
  let live: Plain[] = [{ tokens: [], sum: 0 }];
  const done: Plain[] = [];
  for (let step = 0; step < steps && live.length > 0; step++) {
    const next: Plain[] = [];
    for (const beam of live) {
      const row = device.rowLogprobs([...PROMPT, ...beam.tokens], -1, 2 * width);
      for (const [i, token] of row.topIds.entries()) {
        (token === eos ? done : next).push({ tokens: [...beam.tokens, token], sum: beam.sum + row.topLogprobs[i]! });
      }
    }
    live = next.sort((a, b) => b.sum - a.sum).slice(0, width);
  }
  return [...done, ...live].sort((a, b) => score(b) - score(a)).slice(0, width);
}

describe("beam search", () => {
  test.each([
    [1, null, 1],
    [3, null, 1],
    [4, 5, 1],
    [4, 5, 0],
    [4, 5, -2],
    [12, 7, 2],
  ])("of width %d with end %s and length penalty %d finds what a plain search finds", async (width, eosId, penalty) => {
    const { choices, stats } = await search({ width, eosId, lengthPenalty: penalty, includeStop: true });
    const expected = plainSearch(width, 6, eosId, penalty);
    expect(choices.map((choice) => choice.tokenIds)).toEqual(expected.map((one) => one.tokens));
    expect(choices.map((choice) => choice.index)).toEqual([...expected.keys()]);
    for (const [i, choice] of choices.entries()) {
      const sum = choice.logprobs!.reduce((total, logprob) => total + logprob, 0);
      expect(sum).toBeCloseTo(expected[i]!.sum, 5);
      const ended = eosId !== null && choice.tokenIds.at(-1) === eosId;
      expect(choice.finish).toEqual(
        ended ? { reason: "stop", stopReason: eosId } : { reason: "length", stopReason: null },
      );
    }
    expect(stats).toMatchObject({ running: 0, waiting: 0, cacheUsage: 0 });
  });

  test("finds the same with too few pages and in small steps", async () => {
    const plenty = await search({ width: 4, maxTokens: 70 });
    const scarce = await search({ width: 4, maxTokens: 70, pages: 7, tokenBudget: 3 });
    expect(scarce.choices).toEqual(plenty.choices);
    expect(scarce.stats.preemptions).toBeGreaterThan(0);
  });

  test("ends at stop ids, and at stop strings, whose text is cut", async () => {
    const free = (await search({ width: 2 })).choices[0]!;
    const id = free.tokenIds[2]!;
    for (const { tokenIds, finish } of (await search({ width: 2, stopTokenIds: [id], includeStop: true })).choices) {
      expect(tokenIds.slice(0, -1)).not.toContain(id);
      if (tokenIds.includes(id)) expect(finish).toEqual({ reason: "stop", stopReason: id });
    }
    const stop = tokenizer.decode(free.tokenIds.slice(2, 4));
    const cut = (await search({ width: 2, stop: [stop] })).choices.find((one) => one.finish!.stopReason === stop);
    expect(cut).toMatchObject({ finish: { reason: "stop" }, text: tokenizer.decode(free.tokenIds.slice(0, 2)) });
    expect(cut!.tokenIds).toEqual(free.tokenIds.slice(0, 4));
  });

  test("leaves the id that ends a beam out of its tokens and logprobs, unless stops are shown", async () => {
    const params = { width: 4, eosId: 5, stopTokenIds: [9] };
    const shown = (await search({ ...params, includeStop: true })).choices;
    const hidden = (await search(params)).choices;
    expect(shown.map(({ finish }) => finish!.reason)).toContain("stop");
    for (const [i, { tokenIds, logprobs, top, finish, text }] of shown.entries()) {
      const kept = finish!.reason === "stop" ? -1 : undefined;
      expect(hidden[i]).toMatchObject({
        finish,
        tokenIds: tokenIds.slice(0, kept),
        logprobs: logprobs!.slice(0, kept),
      });
      expect(hidden[i]!.top).toEqual(top!.slice(0, kept));
      expect(text.startsWith(hidden[i]!.text)).toBe(true);
    }
  });

  test("draws only permitted tokens: allowed ids, bad words, no end before minTokens", async () => {
    const allowed = await search({ width: 3, allowedTokenIds: [3, 9, 11] });
    expect(allowed.choices).toHaveLength(3);
    for (const { tokenIds } of allowed.choices) for (const id of tokenIds) expect([3, 9, 11]).toContain(id);

    const free = (await search({ width: 3 })).choices[0]!;
    const [first, second] = free.tokenIds as [number, number];
    const bad = await search({ width: 3, badWords: [[first, second], [free.tokenIds[2]!]] });
    for (const { tokenIds } of bad.choices) {
      expect(tokenIds).not.toContain(free.tokenIds[2]);
      for (const [i, id] of tokenIds.entries()) expect([tokenIds[i - 1], id]).not.toEqual([first, second]);
    }

    const ends = Array.from({ length: 20 }, (_, i) => i);
    const long = await search({ width: 3, stopTokenIds: ends, minTokens: 4 });
    for (const { tokenIds } of long.choices) expect(tokenIds.length).toBeGreaterThanOrEqual(4);
  });

  test("ends a beam that no token is permitted for, and choices that there are no beams for", async () => {
    const stop = { reason: "stop", stopReason: null };
    const empty = { text: "", tokenIds: [], logprobs: [], top: [], finish: stop };
    const ends = async (options: Options) => {
      const { choices, stats } = await search(options);
      expect(choices.map(({ index }) => index)).toEqual(Array.from({ length: options.width }, (_, i) => i));
      expect(stats).toMatchObject({ running: 0, waiting: 0, cacheUsage: 0 });
      return choices;
    };
    const single = await ends({ width: 3, maxTokens: 3, allowedTokenIds: [11] });
    expect(single[0]).toMatchObject({ tokenIds: [11, 11, 11], finish: { reason: "length", stopReason: null } });
    expect(single.slice(1)).toMatchObject([empty, empty]);
    const none = await ends({ width: 2, allowedTokenIds: [5], stopTokenIds: [5], minTokens: 2, stop: ["x"] });
    expect(none).toMatchObject([empty, empty]);
    const midway = await ends({ width: 2, allowedTokenIds: [11], badWords: [[11, 11]] });
    expect(midway).toMatchObject([{ tokenIds: [11], text: tokenizer.decode([11]), finish: stop }, empty]);
    const wide = await ends({ width: VOCAB + 2, maxTokens: 1 });
    expect(new Set(wide.slice(0, VOCAB).flatMap(({ tokenIds }) => tokenIds)).size).toBe(VOCAB);
    expect(wide.slice(VOCAB)).toMatchObject([empty, empty]);
  });

  test("carries the likeliest tokens of each row when asked for", async () => {
    const { choices } = await search({ width: 2, logprobs: 3 });
    expect(choices[0]!.top).toHaveLength(6);
    for (const top of choices[0]!.top!) expect([top.ids.length, top.logprobs.length]).toEqual([3, 3]);
  });

  test("of equal hypotheses takes those of the lowest ids", async () => {
    // All tokens are equally likely, so only the order of ties decides.
    const { choices } = await search({ width: 5, maxTokens: 2, flat: true });
    expect(choices.map((choice) => choice.tokenIds)).toEqual([0, 1, 2, 3, 4].map((id) => [0, id]));
  });

  test("of thousands of beams finds what a plain search finds", async () => {
    const { choices } = await search({ width: 2000, maxTokens: 3, pages: 5000, eosId: 5, includeStop: true });
    expect(choices.map((choice) => choice.tokenIds)).toEqual(plainSearch(2000, 3, 5, 1).map((one) => one.tokens));
  });

  test("beside a choice that decodes takes part in every other step", async () => {
    const { loop, generation: beams } = begin({ width: 3, maxTokens: 40 });
    const other = loop.submit(generationRequest({ promptTokens: PROMPT.slice(0, 5), params: { maxTokens: 400 } }));
    for await (const _ of beams);
    // Two steps are in flight at most: while one computes the beams, the next cannot know them yet.
    expect(loop.stats().steps).toBeLessThanOrEqual(2 * 41);
    expect(loop.stats().running).toBe(1);
    await other[Symbol.asyncIterator]().return!();
  });

  test.each([0, 3, 10, 30])("ends %d ms after its start when it is aborted", async (ms) => {
    const leaving = new AbortController();
    const { loop, device, generation } = begin({ width: 200, maxTokens: 50, pages: 150 }, leaving.signal);
    setTimeout(() => leaving.abort(new Error("left")), ms);
    const read = async () => {
      for await (const _ of generation);
    };
    await expect(read()).rejects.toThrow("left");
    await generation.ended;
    while (loop.stats().running > 0) await new Promise((resolve) => setImmediate(resolve));
    expect(loop.stats()).toMatchObject({ running: 0, waiting: 0, cacheUsage: 0 });
    await loop.close();
    expect(device.openSlots).toBe(0);
  });
});
