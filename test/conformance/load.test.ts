// Many requests at once: each as if alone, none in the way of others for long, nothing left behind by those who leave.

import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { ChatCompletion } from "../../src/types/chat.js";
import { cpuMilliseconds } from "../fixtures/cpuTime.js";
import { scriptedModel, start } from "./scripted.js";
import { Served } from "./served.js";

const tiny = fileURLToPath(new URL("../../models/tiny", import.meta.url));

let served: Served;
let path: string;
beforeAll(async () => {
  const { model } = await scriptedModel("m", { context: 1024 });
  path = model.path;
  // Replies without end take their time where nothing of them is guessed.
  served = await Served.open({ models: [model, { id: "tiny", path: tiny }], maxSequences: 16, speculation: "none" });
});
afterAll(() => served?.close());

const loopOf = (on: Served, id = "m") => on.engine.core.bases.get(id)!.loop;
/** Nothing runs, waits or holds pages. */
async function expectRest(on: Served, id = "m"): Promise<void> {
  const isAtRest = () => {
    const { running, waiting, cacheUsage } = loopOf(on, id).stats();
    return running === 0 && waiting === 0 && cacheUsage === 0;
  };
  const deadline = Date.now() + 5000;
  while (!isAtRest() && Date.now() < deadline) await new Promise((resolve) => setTimeout(resolve, 5));
  expect(loopOf(on, id).stats()).toMatchObject({ running: 0, waiting: 0, cacheUsage: 0 });
}

/** What of an answer is drawn, as JSON text. */
const drawn = ({ choices }: ChatCompletion) => JSON.stringify(choices);

describe.each(["m", "tiny"])("a seeded request to %s", (model) => {
  test("gives the same bytes alone and among 63 others", async () => {
    const body = {
      ...{ model, ...start("[count]"), messages: [{ role: "user", content: "Tell me more." }] },
      ...{ seed: 77, temperature: 1.3, max_tokens: 24, ignore_eos: true, n: 2 },
      ...{ logprobs: true, top_logprobs: 3, return_token_ids: true },
    };
    const alone = drawn(await served.chat(body));
    const other = (i: number) =>
      served.chat({ ...body, seed: i, n: 1 + (i % 3), messages: [{ role: "user", content: "word ".repeat(i) }] });
    const before = Array.from({ length: 32 }, (_, i) => other(i));
    const among = served.chat(body);
    const after = Array.from({ length: 31 }, (_, i) => other(i + 32));
    expect(drawn(await among)).toBe(alone);
    await Promise.all([...before, ...after]);
  });
});

describe("clients that leave", () => {
  test("500 in the middle of their streams; the next one is answered at once", async () => {
    const leave = async (i: number) => {
      const gone = new AbortController();
      const response = await served.post({ ...start("[loop]"), seed: i, stream: true }, { signal: gone.signal });
      await response.body!.getReader().read();
      gone.abort();
    };
    for (let i = 0; i < 500; i += 50) {
      await Promise.all(Array.from({ length: 50 }, (_, k) => leave(i + k)));
    }
    const before = cpuMilliseconds();
    expect(await served.text(start("[words]"))).toBe("One two three four five");
    expect(cpuMilliseconds() - before).toBeLessThan(2000);
    await expectRest(served);
  });

  test("before an answer in one piece comes", async () => {
    const asked = Array.from({ length: 30 }, async () => {
      const gone = new AbortController();
      const answer = served.post({ ...start("[loop]"), n: 20 }, { signal: gone.signal });
      setTimeout(() => gone.abort(), 20);
      await expect(answer).rejects.toThrow();
    });
    await Promise.all(asked);
    await expectRest(served);
  });

  test("in process, by a signal or by leaving the loop", async () => {
    const params = { messages: [{ role: "user", content: "x" }], ...start("[loop]"), n: 3 };
    const gone = new AbortController();
    const whole = served.engine.chat.completions.create(params, { signal: gone.signal });
    const chunks = await served.engine.chat.completions.create({ ...params, stream: true });
    for await (const _ of chunks) break;
    gone.abort(new Error("enough"));
    await expect(whole).rejects.toThrow("enough");
    await expectRest(served);
  });
});

describe("a request of very many choices", () => {
  const many = { ...start("[count]"), seed: 9, n: 120, ignore_eos: true, max_tokens: 100 };

  test("lets others through, one after another and together", async () => {
    let isDone = false;
    const large = served.chat({ ...many, n: 1000, max_tokens: 400 }).then((answer) => {
      isDone = true;
      return answer;
    });
    await new Promise((resolve) => setTimeout(resolve, 100));
    for (let i = 0; i < 3; i++) await served.chat({ ...start("[words]"), cache_salt: String(i) });
    await Promise.all(Array.from({ length: 20 }, () => served.chat(start("[words]"))));
    expect(isDone).toBe(false);
    expect((await large).choices).toHaveLength(1000);
  });

  test("beside another, both without a limit, lets others through", async () => {
    const scarce = await Served.open({ models: [{ id: "m", path, kvPages: 96 }], maxSequences: 16 });
    try {
      const leaving = new AbortController();
      const large = [1, 2].map((seed) =>
        scarce.post({ ...start("[count]"), seed, n: 1000, ignore_eos: true }, { signal: leaving.signal }),
      );
      await new Promise((resolve) => setTimeout(resolve, 300));
      // Each that comes lets another choice of both stand before the next.
      await Promise.all(Array.from({ length: 300 }, () => scarce.chat({ ...start("[words]"), max_tokens: 1 })));
      for (let i = 0; i < 5; i++) await scarce.text({ ...start("[words]"), cache_salt: String(i) });
      // To answer all that stands before them would take three hundred choices of both, of a thousand tokens each.
      expect(loopOf(scarce).stats().generatedTokens).toBeLessThan(200_000);
      leaving.abort();
      await Promise.allSettled(large);
    } finally {
      await scarce.close();
    }
  });

  test("says the same when it has been interrupted", async () => {
    const alone = drawn(await served.chat(many));
    const { preemptions } = loopOf(served).stats();
    const large = served.chat({ ...many, cache_salt: "again" });
    for (let i = 0; i < 10; i++) await served.chat({ ...start("[words]"), cache_salt: `${i}` });
    expect(drawn(await large)).toBe(alone);
    expect(loopOf(served).stats().preemptions).toBeGreaterThan(preemptions);
  });

  test("comes to an end while others keep coming", async () => {
    let isDone = false;
    const large = served.chat({ ...many, n: 40, max_tokens: 20 }).then(() => {
      isDone = true;
    });
    let others = 0;
    const keepAsking = async () => {
      while (!isDone && others < 5000) {
        others++;
        await served.chat({ ...start("[words]") });
      }
    };
    await Promise.all([large, ...Array.from({ length: 24 }, keepAsking)]);
    expect(others).toBeLessThan(5000);
  });

  test("of 16384 choices are answered", async () => {
    const { choices, usage } = await served.chat({ ...start("[dice]"), n: 16384, max_tokens: 1 });
    expect(choices).toHaveLength(16384);
    expect(usage.completion_tokens).toBe(16384);
    expect(choices[16383]!.index).toBe(16383);
  });
});

describe("too few pages", () => {
  test("cost time, not text", async () => {
    const scarce = await Served.open({ models: [{ id: "m", path, kvPages: 20 }] });
    try {
      const ask = (i: number, on: Served) =>
        on.chat({ ...start("[count]"), seed: i, ignore_eos: true, max_tokens: 300, return_token_ids: true });
      const cramped = await Promise.all(Array.from({ length: 12 }, (_, i) => ask(i, scarce)));
      expect(loopOf(scarce).stats().preemptions).toBeGreaterThan(0);
      const roomy = await Promise.all(Array.from({ length: 12 }, (_, i) => ask(i, served)));
      expect(cramped.map(drawn)).toEqual(roomy.map(drawn));
      await expectRest(scarce);
    } finally {
      await scarce.close();
    }
  });
});

describe("the priority scheduler", () => {
  test("runs lower values earlier, equal ones in order", async () => {
    const ordered = await Served.open({ models: [{ id: "m", path }], scheduler: "priority", maxSequences: 1 });
    try {
      const ended: string[] = [];
      const ask = (name: string, priority: unknown) =>
        ordered.engine.chat.completions
          .create({
            ...{ messages: [{ role: "user", content: "x" }], ...start("[loop]"), max_tokens: 20 },
            priority: priority as number,
          })
          .then(() => ended.push(name));
      await Promise.all([ask("a", 5), ask("b", 5), ask("c", -5), ask("d", 0), ask("e", null), ask("f", 2 ** 40)]);
      expect(ended).toEqual(["c", "d", "e", "a", "b", "f"]);
      const exact = await ordered.post('{"messages":[{"role":"user","content":"x"}],"priority":9223372036854775807}');
      expect(exact.status).toBe(200);
      await exact.text();
    } finally {
      await ordered.close();
    }
  });
});
