// Inference and training on the same threads: who waits for whom, and how long.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type DeviceModel, openRuntime, type Trainer } from "../../src/runtime/runtime.js";
import { openWeightFolder } from "../../src/weights/weightFolder.js";
import { caseAdapter, caseFolder } from "./referenceModel.js";

const runtime = openRuntime();
let model: DeviceModel;
let trainer: Trainer;

beforeAll(async () => {
  const { config, tensors } = await openWeightFolder(caseFolder("qwen3"));
  model = await runtime.load({ config: { ...config, maxPositions: 8192 }, tensors, dtype: "float32", kvPages: 140 });
  trainer = await model.trainAdapter((await caseAdapter("qwen3")).spec, { seed: 1n });
});
afterAll(() => model.close());

const blocks = Int32Array.from({ length: 128 }, (_, page) => page);
const step = (position: number, count: number) =>
  model.step([
    {
      slot: -1,
      tokens: new Int32Array(count),
      position,
      blocks,
      adapter: 0,
      sample: false,
      outputIndex: 0,
      promptLogprobs: -1,
      next: null,
    },
  ]);

/** Long enough that several steps fit into its forward pass. */
const longRow = { tokens: new Int32Array(3000) };

describe("while training runs", () => {
  it("a step interrupts it, and training still gets on", async () => {
    const rows = [longRow, longRow, longRow];
    const start = performance.now();
    (await trainer.forward(rows)).close();
    const alone = performance.now() - start;

    let ended = false;
    const training = trainer.forward(rows).finally(() => {
      ended = true;
    });
    let steps = 0;
    const begin = performance.now();
    while (!ended) {
      await step(steps % 1000, 1);
      if (!ended) steps++;
    }
    (await training).close();
    const together = performance.now() - begin;
    // Without interruption one step at most would have ended before training; without training's share of two thirds it would take many times longer.
    expect(steps).toBeGreaterThan(1);
    expect(together).toBeLessThan(alone * 4 + 200);
  });

  it("an aborted pass ends at once and leaves the gradient as it was", async () => {
    const row = { tokens: new Int32Array(300) };
    const ones = [new Float32Array(300).fill(1, 0, -1)];
    await (await trainer.forward([row])).backward(ones);
    const before = await trainer.read("gradient");
    const abort = new AbortController();
    const start = performance.now();
    const pass = trainer.forward([longRow], { signal: abort.signal });
    await step(0, 1);
    abort.abort(new Error("stop"));
    await expect(pass).rejects.toThrow("stop");
    expect(performance.now() - start).toBeLessThan(5000);
    expect(await trainer.read("gradient")).toEqual(before);
    await trainer.zeroGrad();
  });
});

it("reports progress while it loads, and loading can be aborted", async () => {
  const { config, tensors } = await openWeightFolder(caseFolder("llama"));
  const seen: number[] = [];
  const loaded = await runtime.load({ config, tensors, dtype: "float32", kvPages: 1, onProgress: (f) => seen.push(f) });
  expect(seen.at(-1)).toBe(1);
  loaded.close();
  const abort = new AbortController();
  const loading = runtime.load({ config, tensors, dtype: "float32", kvPages: 1, signal: abort.signal });
  abort.abort(new Error("never mind"));
  await expect(loading).rejects.toThrow("never mind");
});

it("refuses before it takes memory that is not there", async () => {
  const { config, tensors } = await openWeightFolder(caseFolder("llama"));
  const load = runtime.load({ config, tensors, dtype: "float32", kvPages: 1 << 24 });
  await expect(load).rejects.toMatchObject({ code: "insufficient_memory", param: "kvPages" });
  const { attention, ...layer } = config.layers[0]!;
  const wide = { ...layer, attention, feedForward: { ...layer.feedForward, intermediate: 1 << 19 } };
  const huge = { ...config, hidden: 1 << 17, vocab: 1 << 22, layers: Array(1024).fill(wide) };
  const weights = runtime.load({ config: huge, tensors, dtype: "float32", kvPages: 1 });
  await expect(weights).rejects.toMatchObject({ code: "insufficient_memory", param: "dtype" });
});

it("uses the threads it is told to", () => {
  const threads = runtime.threads;
  runtime.setThreads(3);
  expect(openRuntime().threads).toBe(3);
  expect(openRuntime({ threads }).threads).toBe(threads);
});
