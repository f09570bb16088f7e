// GPT-OSS with experts in MXFP4, as a GGUF file and as a folder of blocks and scales, against what PyTorch computes with their dequantised
// weights: see test/reference/quantized_biased_experts/make.py.

import { cpSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import type { DeviceModel } from "../../src/runtime/runtime.js";
import { openWeightFiles, openWeightFolder } from "../../src/weights/weightFolder.js";
import { adapted, farFrom, logprobsOfKernelSets, recorded } from "./recordedModel.js";
import { loadWeights, promptLogprobs, relativeError } from "./referenceModel.js";

const {
  facts,
  path,
  tensor: wanted,
  adapter,
} = recorded<{ tokens: number[]; rank: number; alpha: number }>("quantized_biased_experts");
const tokens = Int32Array.from(facts.tokens);
const spec = {
  ...{ rank: facts.rank, alpha: facts.alpha, rslora: false },
  targets: ["q_proj", "k_proj", "v_proj", "o_proj"],
};

describe.each(["model.gguf", "folder"])("%s", (name) => {
  let weights: Awaited<ReturnType<typeof openWeightFiles>>;
  let model: DeviceModel;
  beforeAll(async () => {
    weights = await openWeightFiles(path(name));
    model = await loadWeights(weights);
  });
  afterAll(() => model.close());

  it("has experts in MXFP4, and is computed in bfloat16", () => {
    expect(weights.dtype).toBe("bfloat16");
    const formats = new Set(weights.config.quantized!.map(({ format }) => format));
    expect([...formats]).toEqual(["MXFP4"]);
    expect(weights.config.quantized).toHaveLength(2 * 5 * 3);
    expect(weights.config.layers[0]).toMatchObject({
      attention: { sinks: true, window: 20, rope: { type: "yarn", factor: 8, truncate: false } },
      experts: { count: 5, perToken: 2, bias: true, activation: "clamped_swiglu" },
    });
  });

  it("gives PyTorch's log-probabilities, on every instruction set", async () => {
    const logprobs = await logprobsOfKernelSets(weights, model, tokens);
    expect(relativeError(logprobs, wanted("logprobs").data)).toBeLessThan(1e-3);
  });

  it("trains an adapter on the bits it samples with, by PyTorch's gradients", async () => {
    const { logprobs, gradients } = await adapted(model, { spec, tensors: adapter }, tokens);
    expect(relativeError(logprobs, wanted("adapted.logprobs").data)).toBeLessThan(1e-3);
    expect(farFrom(gradients, (name) => wanted(`gradient.${name}`).data, 1e-2)).toEqual([]);
  });
});

it("the file and the folder are one model", async () => {
  const [file, folder] = await Promise.all(["model.gguf", "folder"].map((name) => openWeightFiles(path(name))));
  expect({ ...file!.config, rmsEps: folder!.config.rmsEps }).toEqual(folder!.config);
  const logprobs = [file!, folder!].map(async (weights) => {
    const model = await loadWeights(weights);
    const found = await promptLogprobs(model, tokens);
    model.close();
    return found;
  });
  expect(await logprobs[0]).toEqual(await logprobs[1]);
});

it("the folder is refused by the tensor that does not fit, and by scales that are none", async () => {
  const folder = mkdtempSync(join(tmpdir(), "anneal-microscaled-"));
  cpSync(path("folder"), folder, { recursive: true });
  const weights = join(folder, "model.safetensors");
  const whole = readFileSync(weights);
  const changed = async (change: (bytes: Buffer) => void) => {
    const bytes = Buffer.from(whole);
    change(bytes);
    writeFileSync(weights, bytes);
    return openWeightFiles(folder).then(loadWeights, (error) => error);
  };
  const at = "model.layers.1.mlp.experts.down_proj";
  // What is told of a tensor, with another text of the same length.
  const told = (name: string, from: string, to: string) => (bytes: Buffer) => {
    bytes.write(to, bytes.indexOf(from, bytes.indexOf(`"${name}"`)));
  };
  expect(await changed(told(`${at}_scales`, "scales", "scalex"))).toMatchObject({
    param: `${at}_scales`,
    message: expect.stringContaining("is missing"),
  });
  expect(await changed(told(`${at}_blocks`, "U8", "I8"))).toMatchObject({
    param: `${at}_blocks`,
    message: expect.stringContaining("has dtype I8"),
  });
  expect(await changed(told(`${at}_scales`, "[5,64,3]", "[5,32,6]"))).toMatchObject({
    param: `${at}_scales`,
    message: expect.stringContaining("has shape [5,32,6], config.json asks for [5,64,3]"),
  });
  for (const [name, from, to] of [
    [`${at}_bias`, "bias", "bixs"],
    [`${at}_blocks`, "blocks", "blokcs"],
    ["model.layers.1.mlp.router.bias", "router", "routre"],
  ] as const) {
    const missing = name.replace("_blocks", "");
    const refused = { param: missing, message: expect.stringContaining(`lacks the tensor ${missing}`) };
    expect(await changed(told(name, from, to))).toMatchObject(refused);
  }
  const header = whole.readUInt32LE(0);
  const { data_offsets } = JSON.parse(whole.subarray(8, 8 + header).toString())[`${at}_scales`];
  const none = await changed((bytes) => {
    bytes[8 + header + data_offsets[0] + 64 * 3 + 7] = 255;
  }).catch((error) => error);
  expect(none).toMatchObject({ name: "ModelFileError", file: weights });
  expect(none.message).toContain(
    "model.layers.1.mlp.experts.1.down_proj.weight has scales that are not finite numbers",
  );
  rmSync(folder, { recursive: true, force: true });
});

it("the folder is not quantised again, and not merged", async () => {
  await expect(openWeightFiles(path("folder"), "q4")).rejects.toMatchObject({ param: "quantize" });
  await expect(openWeightFolder(path("folder"))).rejects.toThrow(/quantised weights/);
});
