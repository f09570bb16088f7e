// A GGUF file of another program, all types of blocks in it, against what PyTorch computes with its dequantised weights: see
// test/reference/quantized/make.py.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type DeviceModel, openRuntime } from "../../src/runtime/runtime.js";
import { openWeightFiles } from "../../src/weights/weightFolder.js";
import { adapted, farFrom, logprobsOfKernelSets, recorded } from "./recordedModel.js";
import { loadWeights, relativeError } from "./referenceModel.js";

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
    const logprobs = await logprobsOfKernelSets(weights, model, tokens);
    expect(relativeError(logprobs, wanted("logprobs").data)).toBeLessThan(1e-3);
  });

  it("trains an adapter on the bits it samples with, by PyTorch's gradients", async () => {
    const { logprobs, gradients } = await adapted(model, adapter, tokens);
    expect(relativeError(logprobs, wanted("adapted.logprobs").data)).toBeLessThan(1e-3);
    expect(farFrom(gradients, (name) => wanted(`gradient.${name}`).data, 1e-3)).toEqual([]);
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
