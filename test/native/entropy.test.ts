// Entropy gradients and temperatures of training passes: against PyTorch (test/reference/entropy), and the sampler bit for bit.

import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { DeviceModel, ElementType, NamedTensors, Trainer } from "../../src/runtime/runtime.js";
import { readSafetensors } from "../../src/weights/safetensors.js";
import { isGpu, someOnGpu, TYPES } from "./device.js";
import { caseAdapter, expected, loadCase, pagesFrom, plainSlot, relativeError } from "./referenceModel.js";

/** Entry t of a pass is about token t + 1; the last one about none. */
const toEntries = (values: Float32Array, last = 0) => Float32Array.of(...values, last);

describe.each(someOnGpu(["llama", "qwen3", "gemma2"] as const, (name) => name === "qwen3"))("%s", (name) => {
  const { rows: tokens } = expected(name);
  let model: DeviceModel;
  let adapter: Awaited<ReturnType<typeof caseAdapter>>;
  let wanted: NamedTensors;
  const rowValues = (what: string) => tokens.map((_, r) => wanted.get(`row${r}.${what}`)!.data);
  const rows = () =>
    rowValues("temperatures").map((temperatures, r) => ({
      tokens: tokens[r]!,
      temperatures: toEntries(temperatures, 1),
    }));

  beforeAll(async () => {
    model = await loadCase(name);
    adapter = await caseAdapter(name);
    const file = fileURLToPath(new URL(`../reference/entropy/${name}.safetensors`, import.meta.url));
    wanted = (await readSafetensors(file)).tensors;
  });
  afterAll(() => model.close());

  async function gradient(trainer: Trainer, byLogprob: number, keepBytes = 0) {
    await trainer.zeroGrad();
    const pass = await trainer.forward(rows(), { entropyGradient: true, keepBytes });
    const ofLogprobs = rowValues("by_logprob").map((row) => toEntries(row.map((value) => value * byLogprob)));
    const ofEntropies = rowValues("by_entropy").map((row) => toEntries(row));
    await pass.backward(ofLogprobs, ofEntropies);
    return { pass, tensors: await trainer.read("gradient") };
  }

  it("has logprobs, entropies and an adapter's gradients at temperatures", async () => {
    const trainer = await model.trainAdapter(adapter.spec, { seed: 1n, tensors: adapter.tensors });
    const { pass, tensors } = await gradient(trainer, 1);
    const evaluated = await trainer.evaluate(rows());
    for (const what of ["logprobs", "entropies"] as const) {
      expect(evaluated[what]).toEqual(pass[what]);
      for (const [r, values] of rowValues(what).entries()) {
        expect(pass[what][r]!.length).toBe(values.length + 1);
        for (const [t, value] of values.entries()) expect(Math.abs(pass[what][r]![t]! - value)).toBeLessThan(1e-4);
      }
    }
    for (const [tensor, { data }] of tensors) {
      expect(relativeError(data, wanted.get(`lora_grad.${tensor}`)!.data), tensor).toBeLessThan(1e-4);
    }
    const ofEntropy = await gradient(trainer, 0);
    for (const [tensor, { data }] of ofEntropy.tensors) {
      expect(relativeError(data, wanted.get(`entropy_grad.${tensor}`)!.data), tensor).toBeLessThan(1e-4);
    }
    expect((await gradient(trainer, 1, 1)).tensors).toEqual(tensors);
    trainer.close();
  });

  it.skipIf(isGpu)("has the gradients of all weights", async () => {
    const own = await loadCase(name);
    const trainer = await own.trainWeights();
    const { tensors } = await gradient(trainer, 1);
    const compared = [...wanted.keys()].filter((key) => key.startsWith("grad."));
    expect(compared.length).toBeGreaterThanOrEqual(4);
    for (const key of compared) {
      expect(relativeError(tensors.get(key.slice("grad.".length))!.data, wanted.get(key)!.data), key).toBeLessThan(
        1e-4,
      );
    }
    own.close();
  });

  it("takes derivatives by entropies only where they were asked for", async () => {
    const trainer = await model.trainAdapter(adapter.spec, { seed: 1n, tensors: adapter.tensors });
    const row = { tokens: tokens[2]!, trained: Uint8Array.of(1, 1, 0, 1, 0) };
    const zeros = new Float32Array(5);
    const plain = await trainer.forward([row]);
    await expect(plain.backward([zeros], [zeros])).rejects.toThrow(/dEntropies.*entropyGradient/);
    const pass = await trainer.forward([row], { entropyGradient: true });
    const outside = Float32Array.of(0, 0, 1, 0, 0);
    await expect(pass.backward([zeros], [outside])).rejects.toThrow(/dEntropies\[0\]\[2\]/);
    await expect(pass.backward([zeros], [])).rejects.toThrow(/dEntropies/);
    for (const temperature of [0, -1, 1e7, Number.NaN]) {
      const temperatures = new Float32Array(5).fill(1).fill(temperature, 3, 4);
      await expect(trainer.forward([{ ...row, temperatures }])).rejects.toThrow(/rows\[0\]\.temperatures\[3\]/);
    }
    trainer.close();
  });
});

describe.each<ElementType>(TYPES)("in %s", (dtype) => {
  it("a token's logprob at its temperature is the same 32 bits in sampler and trainer", async () => {
    const model = await loadCase("qwen3", { dtype });
    const adapter = await caseAdapter("qwen3");
    const trainer = await model.trainAdapter(adapter.spec, { seed: 1n, tensors: adapter.tensors });
    const version = await trainer.publish();
    const prompt = expected("qwen3").rows[0]!;
    for (const temperature of [0.3, 0.7, 1, 1.3, 5]) {
      const slot = model.openSlot(plainSlot({ temperature, topP: 0.95, seed: 7n, topLogprobs: 0 }));
      const drawn: number[] = [];
      const [raw, tempered]: number[][] = [[], []];
      const blocks = pagesFrom(0, prompt.length + 24, model);
      for (let i = 0; i < 24; i++) {
        const position = i === 0 ? 0 : prompt.length + i - 1;
        const step = { slot, tokens: i === 0 ? prompt : null, position, blocks, adapter: version, sample: true };
        const output = await model.step([{ ...step, outputIndex: i, promptLogprobs: -1, next: null }]);
        drawn.push(output.tokens[0]!);
        raw!.push(output.logprobs[0]!);
        tempered!.push(output.temperatureLogprobs[0]!);
      }
      model.closeSlot(slot);
      const tokens = Int32Array.of(...prompt, ...drawn);
      const from = prompt.length - 1;
      const plain = await trainer.evaluate([{ tokens }]);
      expect([...plain.logprobs[0]!.subarray(from, -1)]).toEqual(raw);
      const temperatures = new Float32Array(tokens.length).fill(temperature);
      const { logprobs } = await trainer.evaluate([{ tokens, temperatures }]);
      expect([...logprobs[0]!.subarray(from, -1)]).toEqual(temperature === 1 ? raw : tempered);
      if (temperature === 1) expect(tempered!.every(Number.isNaN)).toBe(true);
    }
    trainer.close();
    model.close();
  });
});
