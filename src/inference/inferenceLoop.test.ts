import { describe, expect, test } from "vitest";
import type { RequestOver } from "../../test/fixtures/generationRequest.js";
import { idsOf, openLoop, prompt, read, request, tokenizer } from "../../test/fixtures/pagedLoop.js";
import { RateLimitError } from "../errors.js";
import type { Tokenizer } from "../text/index.js";
import { InferenceLoop } from "./inferenceLoop.js";
import type { Generation } from "./request.js";

const ids = async (generation: Generation) => idsOf(await read(generation));

describe("a request", () => {
  test("draws until its limit, and ends with length", async () => {
    const { loop, model } = openLoop();
    const result = await read(loop.submit(request({ params: { maxTokens: 7 } })));
    expect(result.choices[0]).toMatchObject({ finish: { reason: "length", stopReason: null }, events: 1 });
    expect(result.choices[0]!.ids).toHaveLength(7);
    // The limit is known beforehand: nothing is computed past it (the last token drawn is never computed).
    expect(model.seen.tokens).toBe(10 + 6);
    expect(model.openSlots).toBe(0);
  });

  test("streams the same tokens and text as it answers at once", async () => {
    const { loop } = openLoop();
    const whole = await read(loop.submit(request()));
    const streamed = await read(loop.submit(request({ streaming: true })));
    expect(streamed.choices[0]!.ids).toEqual(whole.choices[0]!.ids);
    expect(streamed.choices[0]!.text).toEqual(whole.choices[0]!.text);
    expect(streamed.choices[0]!.events).toBeGreaterThan(10);
    expect(whole.choices[0]!.text).toBe(tokenizer.decode(whole.choices[0]!.ids));
  });

  test("without a seed differs from one time to the next", async () => {
    const { loop } = openLoop();
    const draw = () => ids(loop.submit(request({ params: { seed: null } })));
    expect(await draw()).not.toEqual(await draw());
  });

  test("ends where no token is permitted, with nothing appended", async () => {
    const { loop, model } = openLoop({ next: (_, outputs) => (outputs === 3 ? -1 : 5) });
    const result = await read(loop.submit(request()));
    expect(result.choices[0]).toMatchObject({ ids: [5, 5, 5], finish: { reason: "stop", stopReason: null } });
    await loop.close();
    expect(model.openSlots).toBe(0);
  });
});

describe("steps", () => {
  test("a long prompt is spread over steps of the token budget, to the same effect", async () => {
    const long = prompt(500);
    const small = openLoop({}, { tokenBudget: 48 });
    const large = openLoop({}, { tokenBudget: 1000 });
    const expected = await ids(large.loop.submit(request({ promptTokens: long })));
    expect(await ids(small.loop.submit(request({ promptTokens: long })))).toEqual(expected);
    expect(small.model.seen.largestStep).toBeLessThanOrEqual(48);
    expect(large.model.seen.largestStep).toBe(500);
  });

  test("running choices keep drawing while a long prompt is read", async () => {
    const { loop } = openLoop({}, { tokenBudget: 32 });
    const first = loop.submit(request({ streaming: true, params: { maxTokens: 60 } }));
    const order: string[] = [];
    const reading = (async () => {
      for await (const event of first) if (event.type === "tokens") order.push("short");
    })();
    const long = await read(loop.submit(request({ promptTokens: prompt(640, 3), params: { maxTokens: 1 } })));
    order.push("long");
    expect(long.choices[0]!.ids).toHaveLength(1);
    // 640 tokens in steps of 31 or 32: about twenty steps, each with a token of the other choice.
    expect(order.indexOf("long")).toBeGreaterThan(15);
    await reading;
  });

  test("the same request gives the same tokens alone and among 63 others", async () => {
    const alone = await ids(openLoop().loop.submit(request({ params: { maxTokens: 50 } })));
    const { loop, model } = openLoop({ pages: 200 });
    const others = Array.from({ length: 63 }, (_, i) =>
      ids(loop.submit(request({ promptTokens: prompt(5 + i * 3, i + 2), params: { seed: BigInt(i), maxTokens: 40 } }))),
    );
    expect(await ids(loop.submit(request({ params: { maxTokens: 50 } })))).toEqual(alone);
    await Promise.all(others);
    expect(model.seen.mostRows).toBe(64);
  });

  test("no more sequences than allowed run at once, and all get their turn in order", async () => {
    const { loop, model } = openLoop({}, { maxSequences: 4 });
    const order: number[] = [];
    await Promise.all(
      Array.from({ length: 20 }, async (_, i) => {
        await ids(loop.submit(request({ params: { maxTokens: 5 } })));
        order.push(i);
      }),
    );
    expect(model.seen.mostRows).toBe(4);
    expect(order).toEqual(Array.from({ length: 20 }, (_, i) => i));
  });

  test("with the priority scheduler the lower value runs earlier", async () => {
    const { loop } = openLoop({}, { maxSequences: 1, scheduler: "priority" });
    const order: string[] = [];
    const run = async (name: string, priority: number) => {
      await ids(loop.submit(request({ priority, params: { maxTokens: 3 } })));
      order.push(name);
    };
    await Promise.all([run("late", 5), run("usual", 0), run("early", -5)]);
    expect(order).toEqual(["early", "usual", "late"]);
  });

  test("a step that fails ends its requests with the error; the next request is served", async () => {
    const { loop, model } = openLoop();
    model.failAt = 3;
    await expect(read(loop.submit(request()))).rejects.toThrow("the device broke");
    expect((await read(loop.submit(request()))).choices[0]!.ids).toHaveLength(20);
    expect(model.openSlots).toBe(0);
    expect(loop.stats()).toMatchObject({ running: 0, cacheUsage: 0 });
  });

  test("an output that cannot be read ends its request; a slot stays open as long as a step in flight names it", async () => {
    const { model } = openLoop();
    let isBroken = true;
    const breaking = {
      stream: (...args: Parameters<Tokenizer["stream"]>) => {
        const decoder = tokenizer.stream(...args);
        const push = decoder.push.bind(decoder);
        let left = 3;
        decoder.push = (token) => {
          if (isBroken && left-- === 0) throw new Error("no such token");
          return push(token);
        };
        return decoder;
      },
    } as unknown as Tokenizer;
    const step = model.step.bind(model);
    const inFlight: number[] = [];
    model.step = async (rows) => {
      const slots = rows.map((row) => row.slot);
      inFlight.push(...slots);
      const output = await step(rows);
      for (const slot of slots) inFlight.splice(inFlight.indexOf(slot), 1);
      return output;
    };
    const closeSlot = model.closeSlot.bind(model);
    model.closeSlot = (slot) => {
      expect(inFlight).not.toContain(slot);
      closeSlot(slot);
    };
    const loop = new InferenceLoop(model, breaking, {
      ...{ maxSequences: 64, tokenBudget: 256, maxQueue: 10, scheduler: "fcfs", contextLength: 2048 },
    });
    await expect(read(loop.submit(request({ streaming: true })))).rejects.toThrow("no such token");
    isBroken = false;
    expect((await read(loop.submit(request({ streaming: true })))).choices[0]!.ids).toHaveLength(20);
    await loop.close();
    expect(model.openSlots).toBe(0);
  });
});

describe("pages", () => {
  test("when they run out, the last to come is computed again, and no text changes", async () => {
    const run = async (pages: number) => {
      const { loop, model } = openLoop({ pages });
      const all = await Promise.all(
        Array.from({ length: 6 }, (_, i) =>
          ids(loop.submit(request({ promptTokens: prompt(40, i + 1), params: { maxTokens: 150, seed: BigInt(i) } }))),
        ),
      );
      return { all, stats: loop.stats(), openSlots: model.openSlots };
    };
    const plenty = await run(64);
    const scarce = await run(7);
    expect(plenty.stats.preemptions).toBe(0);
    expect(scarce.stats.preemptions).toBeGreaterThan(0);
    expect(scarce.all).toEqual(plenty.all);
    expect(scarce).toMatchObject({ openSlots: 0, stats: { cacheUsage: 0 } });
  });

  test("a prompt seen before is read from the cache in parts of sixteen, its last token computed again", async () => {
    const { loop, model } = openLoop();
    const first = await read(loop.submit(request({ promptTokens: prompt(200) })));
    const before = model.seen.tokens;
    const second = await read(loop.submit(request({ promptTokens: prompt(200) })));
    expect([first.cached, second.cached]).toEqual([0, 192]);
    expect(model.seen.tokens - before).toBe(8 + 19);
    expect(second.choices).toEqual(first.choices);
    const aligned = prompt(128, 9);
    await read(loop.submit(request({ promptTokens: aligned })));
    expect((await read(loop.submit(request({ promptTokens: aligned })))).cached).toBe(112);
    expect(loop.stats()).toMatchObject({ cacheHits: 304, cacheQueries: 656 });
  });

  test("what a request wrote is cached as well: a following turn reads it", async () => {
    const { loop } = openLoop();
    const turn = await read(loop.submit(request({ promptTokens: prompt(60), params: { maxTokens: 100 } })));
    const next = [...prompt(60), ...turn.choices[0]!.ids, 1, 2, 3];
    expect((await read(loop.submit(request({ promptTokens: next })))).cached).toBe(144);
  });

  test("a prompt that begins like another goes on in a copy of its page, each as if alone", async () => {
    const [one, other] = [prompt(60), [...prompt(40), ...prompt(20, 5)]];
    const short = [...prompt(20), ...prompt(5, 7)];
    const askOf = (loop: InferenceLoop) => (promptTokens: number[]) =>
      read(loop.submit(request({ promptTokens, params: { maxTokens: 30 } })));
    const alone = await Promise.all([one, other, short].map((promptTokens) => askOf(openLoop().loop)(promptTokens)));
    const { loop } = openLoop();
    const ask = askOf(loop);
    const answers = [await ask(one), await ask(other), await ask(short), await ask(one), await ask(other)];
    expect(answers.map((answer) => answer.choices)).toEqual([0, 1, 2, 0, 1].map((i) => alone[i]!.choices));
    expect(answers.map((answer) => answer.cached)).toEqual([0, 32, 16, 48, 48]);
    expect(loop.stats().cacheUsage).toBe(0);
  });

  test("pages are not shared between adapter versions or salts", async () => {
    const { loop } = openLoop();
    const cached = async (over: RequestOver) =>
      (await read(loop.submit(request({ promptTokens: prompt(200), ...over })))).cached;
    expect(await cached({})).toBe(0);
    expect(await cached({ adapter: 1 })).toBe(0);
    expect(await cached({ adapter: 2 })).toBe(0);
    expect(await cached({ cacheSalt: "a" })).toBe(0);
    expect(await cached({ cacheSalt: "" })).toBe(0);
    expect(await cached({ adapter: 1, cacheSalt: "a" })).toBe(0);
    expect(await cached({ adapter: 1 })).toBe(192);
    expect(await cached({ cacheSalt: "a" })).toBe(192);
    expect(await cached({ useCache: false })).toBe(0);
  });

  test("requests of one prompt that come together compute it once", async () => {
    const { loop, model } = openLoop();
    const all = await Promise.all(
      Array.from({ length: 8 }, (_, i) =>
        read(loop.submit(request({ promptTokens: prompt(200), params: { seed: BigInt(i), maxTokens: 1 } }))),
      ),
    );
    expect(model.seen.tokens).toBe(200 + 7 * 8);
    expect(all.map((one) => one.cached).sort((a, b) => a - b)).toEqual([0, 192, 192, 192, 192, 192, 192, 192]);
  });

  test("n choices share the prompt and differ after it, each as if it were alone", async () => {
    const params = { maxTokens: 90 };
    for (const length of [1, 63, 64, 65, 128, 200]) {
      const { loop, model } = openLoop();
      const many = await ids(loop.submit(request({ promptTokens: prompt(length), n: 5, params })));
      expect(new Set(many.map(String)).size).toBe(5);
      expect(many[0]).toEqual(
        (await ids(openLoop().loop.submit(request({ promptTokens: prompt(length), params }))))[0],
      );
      // Every further choice computes one prompt token again, then its own.
      expect(model.seen.tokens).toBe(length + 4 + 5 * 89);
      expect(loop.stats().cacheUsage).toBe(0);
    }
  });

  test("more choices than may run at once, and too few pages, change nothing", async () => {
    const over = { promptTokens: prompt(100), n: 12, params: { maxTokens: 100 } };
    const plenty = await ids(openLoop({ pages: 200 }).loop.submit(request(over)));
    expect(await ids(openLoop({ pages: 200 }, { maxSequences: 3 }).loop.submit(request(over)))).toEqual(plenty);
    expect(await ids(openLoop({ pages: 7 }).loop.submit(request(over)))).toEqual(plenty);
  });

  test("a choice that gave its place away again keeps nobody waiting for what it would have computed", async () => {
    const same = { promptTokens: prompt(200), params: { maxTokens: 2 } };
    const alone = await ids(openLoop().loop.submit(request(same)));
    const { loop } = openLoop({ pages: 4 }, { maxSequences: 1 });
    const choices = ids(loop.submit(request({ ...same, n: 2 })));
    // Takes the pages that the prompt's were in, so that the second choice begins to compute it again, and gives way to the last request.
    const between = ids(loop.submit(request({ promptTokens: prompt(250, 2), params: { maxTokens: 2 } })));
    const last = ids(loop.submit(request(same)));
    expect(await last).toEqual(alone);
    await Promise.all([choices, between]);
  });

  test.each([4, 6, 8])(
    "a choice and a request that do not fit together come one after the other (%d)",
    async (outputs) => {
      const { loop } = openLoop({ pages: 3 }, { maxSequences: 2, tokenBudget: 48 });
      const over = { promptTokens: prompt(103), useCache: false, params: { maxTokens: 3 } };
      const alone = await ids(openLoop().loop.submit(request(over)));
      const choices = ids(loop.submit(request({ ...over, n: 2 })));
      // Until this one ends, the second choice does not run beside the first.
      const short = ids(loop.submit(request({ promptTokens: prompt(10, 2), params: { maxTokens: outputs } })));
      const scoring = loop.submitScoring(request({ promptTokens: prompt(65, 3), useCache: false }), 2);
      const { row } = await scoring.next();
      expect(row.topIds).toHaveLength(2);
      scoring.end();
      expect((await choices)[0]).toEqual(alone[0]);
      await short;
    },
  );

  test("old pages are evicted for new ones", async () => {
    const { loop } = openLoop({ pages: 8 });
    for (let i = 0; i < 10; i++)
      await read(loop.submit(request({ promptTokens: prompt(300, i), params: { maxTokens: 2 } })));
    expect((await read(loop.submit(request({ promptTokens: prompt(300, 9) })))).cached).toBe(288);
    expect((await read(loop.submit(request({ promptTokens: prompt(300, 1) })))).cached).toBe(0);
  });
});

describe("ending early", () => {
  test("500 requests cancelled midway leave nothing behind, and the next one is answered at once", async () => {
    const { loop, model } = openLoop({ pages: 200 });
    const aborts = Array.from({ length: 500 }, () => new AbortController());
    const reading = aborts.map((abort) =>
      read(loop.submit(request({ params: { maxTokens: 1000 } }), abort.signal)).then(
        () => "answered",
        (error: unknown) => error,
      ),
    );
    await expect.poll(() => loop.stats().running, { timeout: 10_000, interval: 1 }).toBe(64);
    for (const abort of aborts) abort.abort(new Error("enough"));
    expect(loop.stats()).toMatchObject({ running: 0, waiting: 0, cacheUsage: 0 });
    const { steps } = loop.stats();
    expect((await read(loop.submit(request({ params: { maxTokens: 2 } })))).choices[0]!.ids).toHaveLength(2);
    expect(loop.stats().steps - steps).toBeLessThanOrEqual(2);
    for (const outcome of await Promise.all(reading)) expect(outcome).toMatchObject({ message: "enough" });
    expect(model.openSlots).toBe(0);
  });

  test("leaving the iteration aborts", async () => {
    const { loop, model } = openLoop();
    for await (const event of loop.submit(request({ streaming: true, params: { maxTokens: 1000 } }))) {
      if (event.type === "tokens") break;
    }
    expect(loop.stats()).toMatchObject({ running: 0, cacheUsage: 0 });
    await read(loop.submit(request()));
    expect(model.openSlots).toBe(0);
  });

  test("a full queue refuses", async () => {
    const { loop } = openLoop({}, { maxSequences: 1, maxQueue: 3 });
    const accepted = Array.from({ length: 3 }, () => read(loop.submit(request())));
    expect(() => loop.submit(request())).toThrow(RateLimitError);
    await Promise.all(accepted);
    await read(loop.submit(request()));
  });

  test("close ends what is under way and refuses what comes after", async () => {
    const { loop, model } = openLoop();
    const reading = read(loop.submit(request({ params: { maxTokens: 1000 } })));
    const outcome = expect(reading).rejects.toMatchObject({ code: "closed" });
    await new Promise((resolve) => setTimeout(resolve, 5));
    await loop.close();
    await outcome;
    expect(() => loop.submit(request())).toThrow("closed");
    expect(model.openSlots).toBe(0);
  });

  test("a choice that stops costs one discarded row", async () => {
    const { loop } = openLoop({ next: (_, outputs) => (outputs === 4 ? 7 : 5) });
    const result = await read(loop.submit(request({ params: { stopTokenIds: [7] } })));
    expect(result.choices[0]!.ids).toEqual([5, 5, 5, 5, 7]);
    await read(loop.submit(request({ params: { maxTokens: 1 } })));
    expect(loop.stats().discardedRows).toBe(1);
  });
});

describe("prompt logprobs", () => {
  test("one entry per prompt token after the first, whatever the steps were", async () => {
    const promptTokens = prompt(300);
    const over = { promptTokens, useCache: false, params: { promptLogprobs: 2, maxTokens: 3 } };
    const whole = await read(openLoop({}, { tokenBudget: 1000 }).loop.submit(request(over)));
    const pieces = await read(openLoop({}, { tokenBudget: 37 }).loop.submit(request(over)));
    expect(whole.promptLogprobs).toHaveLength(300);
    expect(whole.promptLogprobs![0]).toBeNull();
    expect(whole.promptLogprobs!.slice(1).every((entry) => entry!.top.ids.length === 2 && entry!.rank > 0)).toBe(true);
    expect(pieces.promptLogprobs).toEqual(whole.promptLogprobs);
  });
});

describe("pace", () => {
  test("while others draw, pieces of a long prompt are as large as a tenth of a second allows", async () => {
    const sizes: number[] = [];
    const { loop, model } = openLoop({ pages: 200 }, { tokenBudget: 512 });
    const step = model.step.bind(model);
    model.step = async (rows) => {
      const size = rows.reduce((sum, row) => sum + (row.tokens?.length ?? 1), 0);
      sizes.push(size);
      // A device of 1,000 tokens a second.
      return { ...(await step(rows)), seconds: size / 1000 };
    };
    const drawing = read(loop.submit(request({ promptTokens: prompt(128, 5), params: { maxTokens: 60 } })));
    while (sizes.length < 5) await new Promise((resolve) => setImmediate(resolve));
    await read(loop.submit(request({ promptTokens: prompt(600, 6), params: { maxTokens: 1 } })));
    await drawing;
    expect(Math.max(...sizes.slice(1))).toBe(101);
    expect(sizes.filter((size) => size > 1)).toEqual([128, 101, 101, 101, 101, 101, 101]);
  });

  test("thousands of choices of a long prompt share it", async () => {
    const { loop } = openLoop({ pages: 400 });
    const before = process.memoryUsage().arrayBuffers;
    const all = read(loop.submit(request({ promptTokens: prompt(1900), n: 2000, params: { maxTokens: 1 } })));
    // One copy each would be 15 MB.
    expect(process.memoryUsage().arrayBuffers - before).toBeLessThan(5e6);
    expect((await all).choices).toHaveLength(2000);
  });
});
