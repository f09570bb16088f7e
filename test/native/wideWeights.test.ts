// Weights as integers of 16 bits, against what PyTorch computes in float32 with the weights that they are made of.

import { describe, expect, it } from "vitest";
import { type DeviceModel, openRuntime, WIDE_FORMAT } from "../../src/runtime/runtime.js";
import { openWeightFiles } from "../../src/weights/weightFolder.js";
import { isGpu } from "./device.js";
import {
  caseAdapter,
  caseFolder,
  expected,
  loadCase,
  loadWeights,
  promptLogprobs,
  relativeError,
} from "./referenceModel.js";

describe.skipIf(isGpu).each(["llama", "qwen3"] as const)("%s", (name) => {
  const { rows: tokens, floats } = expected(name);
  const rows = tokens.map((row) => ({ tokens: row }));
  const open = () => openWeightFiles(caseFolder(name), "int16");

  it("has every matrix of whole groups in 16 bits, and the others as they are", async () => {
    const { config, tensors } = await open();
    const wide = new Map(config.quantized!.map(({ tensor, format }) => [tensor, format]));
    for (const { name: tensor, shape } of tensors) {
      const isWhole = shape.length === 2 && shape[1]! % 64 === 0;
      expect([tensor, wide.get(tensor)]).toEqual([tensor, isWhole ? WIDE_FORMAT : undefined]);
    }
  });

  it("has gradients much nearer to PyTorch's than bfloat16", async () => {
    const error = async (model: DeviceModel) => {
      const adapter = await caseAdapter(name);
      const trainer = await model.trainAdapter(adapter.spec, { seed: 1n, tensors: adapter.tensors });
      const pass = await trainer.forward(rows);
      const predicted = tokens.reduce((sum, row) => sum + row.length - 1, 0);
      await pass.backward(pass.logprobs.map((row) => new Float32Array(row.length).fill(-1 / predicted, 0, -1)));
      const errors = [...(await trainer.read("gradient"))].map(([tensor, { data }]) =>
        relativeError(data, floats(`lora_grad.${tensor}`)),
      );
      trainer.close();
      model.close();
      return { mean: errors.reduce((sum, one) => sum + one, 0) / errors.length, most: Math.max(...errors) };
    };
    const wide = await error(await loadWeights(await open()));
    const rounded = await error(await loadCase(name, { dtype: "bfloat16" }));
    expect(wide.mean).toBeLessThan(rounded.mean / 10);
    expect(wide.most).toBeLessThan(5e-3);
  });

  it("has the same bits on every instruction set, and sampled as trained", async () => {
    let wanted: Float32Array | null = null;
    for (const kernelSet of openRuntime().kernelSets) {
      const model = await loadWeights(await open(), kernelSet);
      const adapter = await caseAdapter(name);
      const version = await model.loadAdapter(adapter.spec, adapter.tensors);
      const sampled = await promptLogprobs(model, tokens[0]!, version);
      const trainer = await model.trainAdapter(adapter.spec, { seed: 1n, tensors: adapter.tensors });
      const { logprobs } = await trainer.evaluate([rows[0]!]);
      expect([kernelSet, logprobs[0]!.subarray(0, -1)]).toEqual([kernelSet, sampled]);
      wanted ??= sampled;
      expect([kernelSet, sampled]).toEqual([kernelSet, wanted]);
      trainer.close();
      model.close();
    }
  });

  it("is refused beside other quantised weights, and by its own training", async () => {
    const weights = await open();
    const [first, ...others] = weights.config.quantized!;
    const config = { ...weights.config, quantized: [{ ...first!, format: "Q8_0" }, ...others] };
    await expect(loadWeights({ ...weights, config })).rejects.toMatchObject({ param: "config.quantized" });
    const model = await loadWeights(weights);
    await expect(model.trainWeights()).rejects.toMatchObject({ code: "invalid_argument", param: "config" });
    model.close();
  });
});
