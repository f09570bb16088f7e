import { describe, expect, it } from "vitest";
import { generationRequest } from "../../test/fixtures/generationRequest.js";
import { PagedDevice } from "../../test/fixtures/pagedDevice.js";
import type { Tokenizer } from "../text/index.js";
import type { Pooling } from "./embeddingRequest.js";
import { InferenceLoop } from "./inferenceLoop.js";

// Nothing is turned into text unless tokens are sampled.
const textless = {
  stream: () => ({ push: () => "", flush: () => "" }),
} as unknown as Tokenizer;

const open = (pages: number) => {
  const device = PagedDevice.model({ pages });
  const options = {
    maxSequences: 64,
    tokenBudget: 100,
    maxQueue: 1000,
    scheduler: "fcfs",
    contextLength: 2048,
  } as const;
  return { device, loop: new InferenceLoop(device, textless, options) };
};

const prompt = (length: number, seed: number) => Array.from({ length }, (_, i) => (i * 31 + seed * 17) % 900);

const input = (promptTokens: number[], pooling: Pooling) => ({
  requestId: "r",
  promptTokens,
  adapter: 0,
  pooling,
  priority: 0,
});

const mean = (values: number[]) => values.reduce((sum, value) => sum + value, 0) / values.length;

/** As the device's states are made: of a token and its position. */
function expected(tokens: number[], pooling: Pooling): number[] {
  if (pooling === "mean") return [mean(tokens), mean(tokens.map((_, at) => at))];
  return pooling === "cls" ? [tokens[0]!, 0] : [tokens.at(-1)!, tokens.length - 1];
}

describe.each(["last", "cls", "mean"] as const)("pooled by %s", (pooling) => {
  it("gives the vector of prompts of any length, in chunks and beside others, again from the cache", async () => {
    const { device, loop } = open(64);
    for (let round = 0; round < 2; round++) {
      const prompts = [1, 2, 64, 65, 250, 700].map((length) => prompt(length, length));
      const chat = loop.submit(generationRequest({ promptTokens: prompt(80, 3), params: { seed: 1n, maxTokens: 30 } }));
      const vectors = await Promise.all(prompts.map((one) => loop.submitEmbedding(input(one, pooling)).vector));
      for (const [i, vector] of vectors.entries()) {
        const wanted = expected(prompts[i]!, pooling);
        for (const [k, value] of wanted.entries()) expect(vector[k]).toBeCloseTo(value, 3);
      }
      for await (const _ of chat);
    }
    await loop.close();
    expect(device.openSlots).toBe(0);
    expect(loop.stats()).toMatchObject({ running: 0, waiting: 0, cacheUsage: 0 });
  });

  it("counts every token once where pages run out and are computed again", async () => {
    const { loop } = open(12);
    const long = { params: { seed: 1n, maxTokens: 200 } };
    const chats = Array.from({ length: 4 }, (_, i) =>
      loop.submit(generationRequest({ promptTokens: prompt(60, i), ...long })),
    );
    const reading = chats.map(async (chat) => {
      for await (const _ of chat);
    });
    const prompts = Array.from({ length: 12 }, (_, i) => prompt(300 + i, i));
    const vectors = await Promise.all(prompts.map((one) => loop.submitEmbedding(input(one, pooling)).vector));
    for (const [i, vector] of vectors.entries()) {
      for (const [k, value] of expected(prompts[i]!, pooling).entries()) expect(vector[k]).toBeCloseTo(value, 2);
    }
    await Promise.all(reading);
    expect(loop.stats().preemptions).toBeGreaterThan(0);
  });
});

it("rejects with the reason of an abort, and when the loop closes", async () => {
  const { loop } = open(64);
  const stop = new AbortController();
  const aborted = loop.submitEmbedding(input(prompt(500, 1), "mean"), stop.signal);
  const reason = new Error("enough");
  stop.abort(reason);
  await expect(aborted.vector).rejects.toBe(reason);
  await aborted.ended;
  const cut = loop.submitEmbedding(input(prompt(500, 1), "mean"));
  await loop.close();
  await expect(cut.vector).rejects.toMatchObject({ code: "closed" });
  expect(() => loop.submitEmbedding(input([1], "last"))).toThrow("closed");
});
