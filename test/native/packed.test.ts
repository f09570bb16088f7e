// Folders of quantised weights as compressed-tensors, GPTQ and AWQ have them, against what transformers computes with the dequantised
// weights: see test/reference/packed/make.py.

import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type DeviceModel, openRuntime } from "../../src/runtime/runtime.js";
import { openWeightFiles } from "../../src/weights/weightFolder.js";
import { PACKED, packedAdapter, packedFolder, packedReference, packedTokens } from "./packedModel.js";
import { adapted, farFrom, logprobsOfKernelSets } from "./recordedModel.js";
import { loadWeights, relativeError } from "./referenceModel.js";

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
    const logprobs = await logprobsOfKernelSets(weights, model, tokens);
    expect(relativeError(logprobs, wanted("logprobs"))).toBeLessThan(1e-3);
    // Without the rounding of activations.
    expect(relativeError(logprobs, wanted("exact"))).toBeLessThan(2e-2);
  });

  it("trains an adapter on the bits it samples with, by PyTorch's gradients", async () => {
    const { logprobs, gradients } = await adapted(model, packedAdapter(name), tokens);
    expect(relativeError(logprobs, wanted("adapted"))).toBeLessThan(1e-3);
    expect(farFrom(gradients, (tensor) => wanted(`gradient.${tensor}`), 1e-3)).toEqual([]);
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
