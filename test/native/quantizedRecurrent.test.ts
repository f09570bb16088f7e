// GGUF files of Qwen3.5, dense and with experts, whose value heads stand in another order than in its folders, against what PyTorch
// computes with their dequantised weights: see make.py in test/reference/quantized_recurrent and quantized_shared_experts.

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { DeviceModel } from "../../src/runtime/runtime.js";
import { loadTokenizer } from "../../src/text/tokenizer.js";
import { openWeightFiles, openWeightFolder } from "../../src/weights/weightFolder.js";
import { adapted, farFrom, logprobsOfKernelSets, recorded } from "./recordedModel.js";
import { caseFolder, expected, loadWeights, promptLogprobs, relativeError } from "./referenceModel.js";

const folder = mkdtempSync(join(tmpdir(), "anneal-gguf-recurrent-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

interface Facts {
  tokens: number[];
  rank: number;
  alpha: number;
  texts: { text: string; ids: number[] }[];
}

describe.each([
  ["quantized_recurrent", "qwen3_5"],
  ["quantized_shared_experts", "qwen3_5_moe_tower"],
] as const)("%s in bfloat16", (name, source) => {
  const { path } = recorded(name);

  it("is the model of the folder that it was made of, without the head of a further token", async () => {
    const { config, dtype } = await openWeightFiles(path("bfloat16.gguf"));
    const { config: own } = await openWeightFolder(caseFolder(source));
    expect(dtype).toBe("bfloat16");
    // Metadata has 24 bits.
    expect({ ...config, rmsEps: own.rmsEps }).toEqual({ ...own, normAddsOne: false });
  });

  it("has its log-probabilities", async () => {
    const model = await loadWeights(await openWeightFiles(path("bfloat16.gguf")));
    const { rows, floats } = expected(source);
    for (const [r, row] of rows.entries()) {
      expect(relativeError(await promptLogprobs(model, row), floats(`row${r}.logprobs`))).toBeLessThan(1e-4);
    }
    model.close();
  });
});

// What is rounded to 8 bits falls to other sides: PyTorch's own in float64 are as far as these limits, or half of it.
describe.each([
  ["quantized_recurrent", { near: 1e-2, steep: 0.4 }],
  ["quantized_shared_experts", { near: 2e-3, steep: 2e-2 }],
] as const)("%s in formats of blocks", (name, rounded) => {
  const { facts, path, tensor: wanted, adapter } = recorded<Facts>(name);
  const tokens = Int32Array.from(facts.tokens);
  const targets = [...new Set([...adapter.keys()].map((name) => /\.(\w+)\.lora_/.exec(name)![1]!))];
  const spec = { rank: facts.rank, alpha: facts.alpha, rslora: false, targets };
  let weights: Awaited<ReturnType<typeof openWeightFiles>>;
  let model: DeviceModel;
  beforeAll(async () => {
    weights = await openWeightFiles(path("model.gguf"));
    model = await loadWeights(weights);
  });
  afterAll(() => model.close());

  it("keeps codes but where blocks are of several value heads, which would have to be taken apart", () => {
    const kept = new Map(weights.config.quantized!.map(({ tensor, format }) => [tensor, format]));
    const outputs = [0, 1].map((layer) => kept.get(`model.layers.${layer}.linear_attn.out_proj.weight`));
    expect(outputs).toEqual(["Q8_0", undefined]);
    expect(kept.get("model.layers.1.linear_attn.in_proj_qkv.weight")).toBe("Q6_K");
    // Small matrices in float32 do not decide what it is computed in.
    expect(weights.dtype).toBe("bfloat16");
  });

  it("gives PyTorch's log-probabilities, on every instruction set", async () => {
    const logprobs = await logprobsOfKernelSets(weights, model, tokens);
    expect(relativeError(logprobs, wanted("rounded.logprobs").data)).toBeLessThan(rounded.near);
  });

  it.each([
    ["codes", "rounded.", rounded],
    ["numbers", "", { near: 1e-5, steep: 1e-4 }],
  ] as const)(
    "as %s trains an adapter on the bits it samples with, by PyTorch's gradients",
    async (how, kind, limit) => {
      const { quantized, ...floats } = weights.config;
      const device = how === "codes" ? model : await loadWeights({ ...weights, config: floats });
      const plain = await promptLogprobs(device, tokens);
      expect(relativeError(plain, wanted(`${kind}logprobs`).data)).toBeLessThan(limit.near);
      const { logprobs, gradients } = await adapted(device, { spec, tensors: adapter }, tokens);
      expect(relativeError(logprobs, wanted(`${kind}adapted.logprobs`).data)).toBeLessThan(limit.near);
      expect(farFrom(gradients, (name) => wanted(`${kind}gradient.${name}`).data, limit.steep)).toEqual([]);
      if (device !== model) device.close();
    },
  );
});

it("splits texts as transformers' tokenizer does, marks with the letters that they are on", async () => {
  const { facts, path } = recorded<Facts>("quantized_recurrent");
  const tokenizer = await loadTokenizer(path("model.gguf"));
  expect(facts.texts.map(({ text }) => tokenizer.encode(text))).toEqual(facts.texts.map(({ ids }) => ids));
  await tokenizer.close();
});

it.each([
  ["quantized_recurrent", "blk.1.ssm_out.weight", 128],
  ["quantized_recurrent", "blk.0.ssm_conv1d.weight", 3],
  ["quantized_recurrent", "blk.2.ssm_a", 4],
  ["quantized_recurrent", "blk.2.ssm_dt.bias", 4],
  ["quantized_shared_experts", "blk.1.ffn_gate_inp_shexp.weight", 128],
  ["quantized_shared_experts", "blk.2.ffn_up_shexp.weight", 128],
])("%s with %s of another shape is refused by its name", async (name, tensor, size) => {
  const bytes = readFileSync(recorded(name).path("model.gguf"));
  // After its dimensions: the size of the last.
  bytes.writeBigUInt64LE(BigInt(size), bytes.indexOf(tensor) + tensor.length + 4);
  const file = join(folder, "changed.gguf");
  writeFileSync(file, bytes);
  await expect(openWeightFiles(file)).rejects.toMatchObject({ name: "ModelFileError", param: tensor });
});
