import { describe, expect, test } from "vitest";
import { generationRequest, type RequestOver } from "../../test/fixtures/generationRequest.js";
import { guess, next } from "../../test/fixtures/guessedTokens.js";
import type { PagedDeviceOptions } from "../../test/fixtures/pagedDevice.js";
import { idsOf, openLoop, prompt, read, request } from "../../test/fixtures/pagedLoop.js";
import { beamSearch } from "./beamSearch.js";
import type { InferenceLoopOptions } from "./inferenceLoop.js";

/** The device refuses a state that is not that of the tokens before. */
function open(device: PagedDeviceOptions = {}, options: Partial<InferenceLoopOptions> = {}) {
  const { model, loop } = openLoop({ recurrentStates: 64, ...device }, options);
  const ask = async (over: RequestOver) => {
    const answer = await read(loop.submit(request(over)));
    return { ids: idsOf(answer), cached: answer.cached };
  };
  return { model, loop, ask };
}

const plain = (options: PagedDeviceOptions = {}) => open({ ...options, recurrentStates: 0 });

describe("recurrent states", () => {
  test("begin where the last page of a prompt seen before ended", async () => {
    const { ask, model } = open();
    const first = await ask({ promptTokens: prompt(200) });
    const before = model.seen.tokens;
    const second = await ask({ promptTokens: prompt(200) });
    expect([first.cached, second.cached]).toEqual([0, 192]);
    expect(second.ids).toEqual(first.ids);
    expect(first.ids).toEqual((await plain().ask({ promptTokens: prompt(200) })).ids);
    expect(model.seen.tokens - before).toBe(8 + 19);
  });

  test("begin where prompts turned out to part, from the third of them on", async () => {
    const { ask } = open();
    const cached = [];
    for (let i = 0; i < 4; i++)
      cached.push((await ask({ promptTokens: [...prompt(130), ...prompt(100, i + 2)] })).cached);
    expect(cached).toEqual([0, 0, 128, 128]);
  });

  test("begin behind what a request wrote", async () => {
    const { ask } = open();
    const { ids } = await ask({ promptTokens: prompt(60), params: { maxTokens: 200 } });
    const next = [...prompt(60), ...ids[0]!, 1, 2, 3];
    expect((await ask({ promptTokens: next })).cached).toBe(256);
  });

  test("are not those of other adapters or salts", async () => {
    const { ask } = open();
    for (const over of [{}, { adapter: 1 }, { cacheSalt: "a" }]) {
      expect((await ask({ promptTokens: prompt(200), ...over })).cached).toBe(0);
      expect((await ask({ promptTokens: prompt(200), ...over })).cached).toBe(192);
    }
  });

  test("are handed from a prompt to its choices, none of which computes more of it than its last token", async () => {
    const params = { maxTokens: 90 };
    for (const length of [1, 2, 63, 64, 65, 66, 128, 200]) {
      const { ask, model } = open();
      const many = await ask({ promptTokens: prompt(length), n: 5, params });
      expect(many.ids).toEqual((await plain().ask({ promptTokens: prompt(length), n: 5, params })).ids);
      expect(model.seen.tokens).toBe(length + 4 + 5 * 89);
    }
  });

  test.each([1, 2, 3, 7])("change no text where there are %i", async (recurrentStates) => {
    const over = { promptTokens: prompt(100), n: 6, params: { maxTokens: 100 } };
    const wanted = await plain().ask(over);
    for (const pages of [64, 7]) {
      const { ask, loop } = open({ recurrentStates, pages });
      const all = await Promise.all([ask(over), ask({ promptTokens: prompt(150, 2) }), ask(over)]);
      expect(all.map(({ ids }) => ids)).toEqual([
        wanted.ids,
        (await plain().ask({ promptTokens: prompt(150, 2) })).ids,
        wanted.ids,
      ]);
      expect(loop.stats().cacheUsage).toBe(0);
    }
  });

  test("of a sequence that lost its pages are found again where the last page ended", async () => {
    const run = async (options: PagedDeviceOptions) => {
      const { ask, loop, model } = open(options);
      const all = await Promise.all(
        Array.from({ length: 6 }, (_, i) =>
          ask({ promptTokens: prompt(40, i + 1), params: { maxTokens: 150, seed: BigInt(i) } }),
        ),
      );
      return { ids: all.map(({ ids }) => ids), preemptions: loop.stats().preemptions, tokens: model.seen.tokens };
    };
    const plenty = await run({ recurrentStates: 0 });
    const scarce = await run({ pages: 7 });
    expect(scarce.preemptions).toBeGreaterThan(0);
    expect(scarce.ids).toEqual(plenty.ids);
    expect((await run({ pages: 7, recurrentStates: 2 })).ids).toEqual(plenty.ids);
  });

  test("follow beams", async () => {
    const search = async (device: PagedDeviceOptions) => {
      const { loop } = open(device);
      const beam = { width: 4, lengthPenalty: 1 };
      const request = generationRequest({ promptTokens: prompt(70), n: 4, params: { maxTokens: 70, beam } });
      return idsOf(await read(beamSearch(loop, request)));
    };
    const wanted = await search({ recurrentStates: 0 });
    for (const recurrentStates of [1, 2, 5, 64]) expect(await search({ recurrentStates })).toEqual(wanted);
  });

  test("are not found after a step has failed", async () => {
    const { ask, model } = open();
    await ask({ promptTokens: prompt(200) });
    model.failAt = model.seen.steps;
    await expect(ask({ promptTokens: prompt(300, 4) })).rejects.toThrow("the device broke");
    expect((await ask({ promptTokens: prompt(200) })).cached).toBe(0);
  });

  test("are kept in number, the least recently used forgotten first", async () => {
    const { ask } = open({ recurrentStates: 4, pages: 200 });
    for (let i = 0; i < 6; i++) await ask({ promptTokens: prompt(100, i), params: { maxTokens: 2 } });
    expect((await ask({ promptTokens: prompt(100, 5), params: { maxTokens: 2 } })).cached).toBe(64);
    expect((await ask({ promptTokens: prompt(100, 0), params: { maxTokens: 2 } })).cached).toBe(0);
  });

  describe("of sequences whose tokens are guessed", () => {
    const guessing = (device: PagedDeviceOptions = {}) => open({ next, guess, ...device }, { promptLookup: true });
    const over = (i: number, maxTokens: number) => ({ promptTokens: prompt(40 + 9 * i, i), params: { maxTokens } });

    test("stand behind those that were kept", async () => {
      const { ask, loop } = guessing();
      for (const [i, maxTokens] of [20, 90, 200, 300].entries()) {
        const each = await open({ next }).ask(over(i, maxTokens));
        expect((await ask(over(i, maxTokens))).ids).toEqual(each.ids);
      }
      expect(loop.stats().keptTokens).toBeGreaterThan(loop.stats().drafts);
    });

    test("are kept at the end of a page as without guesses", async () => {
      for (let i = 0; i < 8; i++) {
        const { ask } = guessing();
        const { ids } = await ask(over(i, 200));
        const promptTokens = [...over(i, 200).promptTokens, ...ids[0]!, 1, 2, 3];
        const behind = 40 + 9 * i + 199;
        expect((await ask({ promptTokens })).cached).toBe(behind - (behind % 64));
      }
    });

    test("change no text where states and pages are scarce", async () => {
      const all = ({ ask }: ReturnType<typeof open>) =>
        Promise.all(Array.from({ length: 6 }, (_, i) => ask(over(i, 150)).then(({ ids }) => ids)));
      const wanted = await all(open({ next, recurrentStates: 0 }));
      for (const device of [{ pages: 10 }, { recurrentStates: 2 }, { pages: 10, recurrentStates: 1 }]) {
        expect(await all(guessing(device))).toEqual(wanted);
      }
    });
  });

  test("stay right where a grammar forces tokens", async () => {
    const force = (context: number[]) => (context.length % 5 === 0 ? 7 : null);
    const over = { promptTokens: prompt(50), grammar: { matcher: () => ({}) } as never, params: { maxTokens: 200 } };
    expect((await open({ force }).ask(over)).ids).toEqual((await plain({ force }).ask(over)).ids);
  });
});
