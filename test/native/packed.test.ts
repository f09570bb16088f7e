// Folders of quantised weights as compressed-tensors, GPTQ and AWQ have them, against what transformers computes with the dequantised
// weights: see test/reference/packed/make.py.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type DeviceModel, openRuntime } from "../../src/runtime/runtime.js";
import { openWeightFiles } from "../../src/weights/weightFolder.js";
import { PACKED, packedAdapter, packedFolder, packedReference, packedTokens } from "./packedModel.js";
import { loadWeights, promptLogprobs, relativeError } from "./referenceModel.js";

describe.each(PACKED)("%s", (name) => {
  let model: DeviceModel;
  let weights: Awaited<ReturnType<typeof openWeightFiles>>;
  const tokens = packedTokens;
  const wanted = (tensor: string) => packedReference(`${name}.${tensor}`).data;

  beforeAll(async () => {
    weights = await openWeightFiles(packedFolder(name));
    model = await loadWeights(weights);
  });
  afterAll(() => model.close());

  it("gives transformers' log-probabilities, on every instruction set", async () => {
    const logprobs = await promptLogprobs(model, tokens);
    expect(relativeError(logprobs, wanted("logprobs"))).toBeLessThan(1e-3);
    // Without the rounding of activations.
    expect(relativeError(logprobs, wanted("exact"))).toBeLessThan(2e-2);
    for (const kernelSet of openRuntime().kernelSets.filter((set) => set !== "portable")) {
      const other = await loadWeights(weights, kernelSet);
      expect([kernelSet, await promptLogprobs(other, tokens)]).toEqual([kernelSet, logprobs]);
      other.close();
    }
  });

  it("trains an adapter on the bits it samples with, by PyTorch's gradients", async () => {
    const { spec, tensors } = packedAdapter(name);
    const version = await model.loadAdapter(spec, tensors);
    const sampled = await promptLogprobs(model, tokens, version);
    expect(relativeError(sampled, wanted("adapted"))).toBeLessThan(1e-3);
    const trainer = await model.trainAdapter(spec, { seed: 1n, tensors });
    const pass = await trainer.forward([{ tokens }]);
    expect(pass.logprobs[0]!.subarray(0, -1)).toEqual(sampled);
    await pass.backward([new Float32Array(tokens.length).fill(-1 / (tokens.length - 1), 0, -1)]);
    for (const [tensor, { data }] of await trainer.read("gradient")) {
      expect([tensor, relativeError(data, wanted(`gradient.${tensor}`))]).toEqual([
        tensor,
        expect.toSatisfy((error: number) => error < 1e-3),
      ]);
    }
    trainer.close();
  });
});

describe("a packed tensor", () => {
  const loading = async (change: (tensor: Record<string, unknown>) => Record<string, unknown>) => {
    const { config, tensors } = await openWeightFiles(packedFolder("gptq"));
    const changed = tensors.map((tensor) => (tensor.packed ? change({ ...tensor }) : tensor));
    const device = await openRuntime().load({ config, tensors: changed as never, dtype: "float32", kvPages: 1 });
    device.close();
  };
  const packed = (change: object) => (tensor: Record<string, unknown>) => ({
    ...tensor,
    packed: { ...(tensor.packed as object), ...change },
  });
  const nowhere = { file: "/nowhere", offset: 0, bytes: 4, dtype: "F16" };

  it.each<[string, (tensor: Record<string, unknown>) => Record<string, unknown>]>([
    ["of a packing that is none", packed({ packing: "marlin" })],
    ["in groups that do not fit", packed({ group: 96 })],
    ["in huge groups", packed({ group: 2 ** 24 })],
    ["without scales", packed({ scales: undefined })],
    ["without zero points", packed({ zeros: undefined })],
    ["with scales of another size", packed({ scales: nowhere })],
    ["that is not packed", (tensor) => ({ ...tensor, packed: undefined })],
    ["with heads in pairs", (tensor) => ({ ...tensor, interleavedHeads: 4 })],
    ["in another format", (tensor) => ({ ...tensor, dtype: "Q4_0" })],
    ["of fewer bytes", (tensor) => ({ ...tensor, bytes: 64 })],
  ])("%s is refused", async (_, change) => {
    await expect(loading(change)).rejects.toMatchObject({
      code: "invalid_argument",
      param: expect.stringContaining("tensors"),
    });
  });
});
