// The base model and several versions of trained ones in one batch, each as if alone; and memory that does not grow.

import { afterAll, beforeAll, expect, test } from "vitest";
import type { ChatCompletion } from "../../src/types/chat.js";
import { Served } from "./served.js";

const drawn = ({ choices }: ChatCompletion) => JSON.stringify(choices);

let served: Served;
/** The base model, and steps 0, 1 and 2 of two models whose adapters differ. */
const names: string[] = ["anneal/tiny"];

beforeAll(async () => {
  served = await Served.open({ adapter: { rank: 4 } });
  const { engine } = served;
  for (const name of ["one", "two"]) {
    const model = await engine.models.create({ project: "mixed", name, base_model: "anneal/tiny" });
    const session = await engine.training.open(model);
    names.push(`local/mixed/${name}:step0`);
    for (const step of [1, 2]) {
      const tokens = Int32Array.from({ length: 24 }, (_, i) => 20 + ((i * (name === "one" ? 7 : 11) + step) % 600));
      const trained = new Uint8Array(24).fill(1, 1);
      await session.forwardBackward([{ tokens, trained }], { loss: "cross_entropy" });
      await session.optimStep({ learningRate: 0.02 });
      await session.saveState();
      names.push(`local/mixed/${name}:step${step}`);
    }
    await session.close();
  }
});
afterAll(() => served?.close());

const ask = (i: number) =>
  served.chat({
    ...{ model: names[i % names.length], seed: i, temperature: 1.2, max_tokens: 16, ignore_eos: true },
    ...{ messages: [{ role: "user", content: "tell ".repeat(i % 13) }], logprobs: true, top_logprobs: 2 },
  });

test("64 seeded requests over a base model and six adapter versions give the bytes that each gives alone", async () => {
  const among = await Promise.all(Array.from({ length: 64 }, (_, i) => ask(i)));
  for (let i = 0; i < names.length; i++) expect(drawn(await ask(i + 7)), names[i]).toBe(drawn(among[i + 7]!));
  // The versions do differ: the same request gives each its own logprobs.
  const replies = await Promise.all(
    names.map((model) => served.chat({ model, temperature: 0, max_tokens: 4, logprobs: true })),
  );
  const first = replies.map(({ choices }) => choices[0]!.logprobs!.content[0]!.logprob);
  expect(new Set(first).size).toBeGreaterThanOrEqual(5);
});

test("memory stays where it is over many requests", async () => {
  const bytes = async () => {
    for (let i = 0; i < 300; i += 60) await Promise.all(Array.from({ length: 60 }, (_, k) => ask(i + k)));
    const { arrayBuffers, external } = process.memoryUsage();
    return { arrayBuffers, external, rss: process.memoryUsage.rss() };
  };
  await bytes();
  const before = await bytes();
  await bytes();
  const after = await bytes();
  expect(after.rss - before.rss).toBeLessThan(150 * 2 ** 20);
  expect(after.external - before.external).toBeLessThan(50 * 2 ** 20);
});
