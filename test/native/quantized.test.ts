// A GGUF file of another program, all types of blocks in it, against what PyTorch computes with its dequantised weights: see
// test/reference/quantized/make.py.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type DeviceModel, openRuntime } from "../../src/runtime/runtime.js";
import { openWeightFiles } from "../../src/weights/weightFolder.js";
import { loadWeights, promptLogprobs, recorded, relativeError } from "./referenceModel.js";

const {
  facts,
  path,
  tensor: wanted,
  adapter: tensors,
} = recorded<{ tokens: number[]; greedy: number[]; rank: number; alpha: number }>("quantized");
const tokens = Int32Array.from(facts.tokens);

const adapter = {
  spec: {
    rank: facts.rank,
    alpha: facts.alpha,
    rslora: false,
    targets: ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"],
  },
  tensors,
};

describe("a GGUF file with all types of blocks", () => {
  let model: DeviceModel;
  let weights: Awaited<ReturnType<typeof openWeightFiles>>;

  const logprobsOf = (device: DeviceModel, version = 0) => promptLogprobs(device, tokens, version);

  beforeAll(async () => {
    weights = await openWeightFiles(path("model.gguf"));
    model = await loadWeights(weights);
  });
  afterAll(() => model.close());

  it("takes no more memory than the file, but for padding", () => {
    const { weights: bytes } = openRuntime().memory(weights.config, "float32");
    const stored = weights.tensors.reduce((sum, tensor) => sum + tensor.bytes, 0);
    expect(bytes).toBeGreaterThanOrEqual(stored);
    expect(bytes).toBeLessThan(stored * 1.01);
  });

  it("gives PyTorch's log-probabilities, on every instruction set", async () => {
    const logprobs = await logprobsOf(model);
    expect(relativeError(logprobs, wanted("logprobs").data)).toBeLessThan(1e-3);
    for (const kernelSet of openRuntime().kernelSets.filter((set) => set !== "portable")) {
      const other = await loadWeights(weights, kernelSet);
      expect([kernelSet, await logprobsOf(other)]).toEqual([kernelSet, logprobs]);
      other.close();
    }
  });

  it("trains an adapter on the bits it samples with, by PyTorch's gradients", async () => {
    const version = await model.loadAdapter(adapter.spec, adapter.tensors);
    const sampled = await logprobsOf(model, version);
    expect(relativeError(sampled, wanted("adapted.logprobs").data)).toBeLessThan(1e-3);
    const trainer = await model.trainAdapter(adapter.spec, { seed: 1n, tensors: adapter.tensors });
    const pass = await trainer.forward([{ tokens }]);
    expect(pass.logprobs[0]!.subarray(0, -1)).toEqual(sampled);
    await pass.backward([new Float32Array(tokens.length).fill(-1 / (tokens.length - 1), 0, -1)]);
    const gradients = await trainer.read("gradient");
    for (const [name, { data }] of gradients) {
      expect([name, relativeError(data, wanted(`gradient.${name}`).data)]).toEqual([
        name,
        expect.toSatisfy((e: number) => e < 1e-3),
      ]);
    }
    trainer.close();
  });

  it("refuses to train the quantised weights themselves", async () => {
    const other = await loadWeights(weights);
    await expect(other.trainWeights()).rejects.toMatchObject({ param: "config", code: "invalid_argument" });
    other.close();
  });

  it.each([
    ["a format for what is no matrix", { tensor: "model.norm.weight", format: "Q8_0" }],
    ["an unknown format", { tensor: "lm_head.weight", format: "Q3_K" }],
    ["an unknown tensor", { tensor: "nothing", format: "Q8_0" }],
  ])("refuses %s", async (_, entry) => {
    const config = { ...weights.config, quantized: [entry as never] };
    const loading = openRuntime().load({ config, tensors: weights.tensors, dtype: "float32", kvPages: 16 });
    await expect(loading).rejects.toMatchObject({ code: "invalid_argument" });
  });
});
