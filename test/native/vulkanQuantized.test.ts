// Quantised models on a GPU: the processor's bits, of every format, in what is drawn and in what is learnt. Skipped where there is no
// Vulkan device.

import { mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { type DeviceModel, type ElementType, listGpus, openRuntime } from "../../src/runtime/runtime.js";
import { openWeightFiles } from "../../src/weights/weightFolder.js";
import { packedFolder, packedTokens } from "./packedModel.js";
import { plainSlot } from "./plainSlot.js";
import { recorded } from "./recordedModel.js";
import { promptLogprobs } from "./referenceModel.js";

const gpu = (await listGpus()).find(({ problem, exact }) => problem === "" && exact);
const { facts, path } = recorded<{ tokens: number[] }>("quantized");
const folder = mkdtempSync(join(tmpdir(), "anneal-gpu-quantized-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));
const bits = (values: Iterable<number>) => [...new Uint32Array(Float32Array.from(values).buffer)];

/** Compiling shaders for a processor takes seconds for every format: all of it with ANNEAL_TEST_VULKAN=all. */
const isAll = process.env.ANNEAL_TEST_VULKAN === "all";

/** What a prompt, tokens drawn after it by several sequences, and steps of training an adapter come to. */
async function compute(model: DeviceModel, tokens: Int32Array, trains: boolean) {
  const found: Record<string, unknown> = {
    weightOnly: model.weightOnly,
    prompt: bits(await promptLogprobs(model, tokens)),
  };
  const slots = [0n, 1n, 2n].map((seed) => model.openSlot(plainSlot({ seed })));
  const prompt = tokens.slice(0, 20);
  for (let output = 0; output < 4; output++) {
    const drawn = await model.step(
      slots.map((slot, i) => ({
        slot,
        sample: true,
        outputIndex: output,
        promptLogprobs: -1,
        next: null,
        adapter: 0,
        tokens: output === 0 ? prompt : null,
        position: output === 0 ? 0 : prompt.length + output - 1,
        blocks: Int32Array.of(2 * i, 2 * i + 1),
      })),
    );
    found[`drawn ${output}`] = [...drawn.tokens, ...bits(drawn.logprobs)];
  }
  for (const slot of slots) model.closeSlot(slot);
  if (!trains) return found;
  const targets = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"];
  const trainer = await model.trainAdapter({ rank: 4, alpha: 8, rslora: false, targets }, { seed: 3n });
  const settings = { learningRate: 1e-2, beta1: 0.9, beta2: 0.99, eps: 1e-8, weightDecay: 0.1, maxGradNorm: 0.1 };
  for (let step = 0; step < 2; step++) {
    const pass = await trainer.forward([{ tokens }]);
    found[`trained ${step}`] = bits(pass.logprobs[0]!);
    await pass.backward([Float32Array.from(tokens, (_, t) => (t + 1 < tokens.length ? Math.sin(t) : 0))]);
    for (const [name, { data }] of await trainer.read("gradient")) found[`${name} ${step}`] = bits(data);
    found[`norm ${step}`] = (await trainer.optimStep(settings)).gradNorm;
  }
  const version = await trainer.publish();
  const sampled = await promptLogprobs(model, tokens, version);
  expect(bits(sampled)).toEqual(bits((await trainer.evaluate([{ tokens }])).logprobs[0]!.subarray(0, -1)));
  found.adapted = bits(sampled);
  trainer.close();
  return found;
}

const differing = (a: Record<string, unknown>, b: Record<string, unknown>) =>
  Object.keys(a).filter((key) => JSON.stringify(a[key]) !== JSON.stringify(b[key]));

/**
 * The GGUF file with a number that is larger than the 31 beside it by far, and weights of Q8_0 and Q4_0 that are zero for it: what codes of
 * 8 bits lose of the others counts.
 */
async function withOutliers(): Promise<string> {
  const bytes = readFileSync(path("model.gguf"));
  const { tensors } = await openWeightFiles(path("model.gguf"));
  const at = (tensor: string) => tensors.find(({ name }) => name === `model.layers.${tensor}.weight`)!;
  for (const norm of ["0.input_layernorm", "1.post_attention_layernorm"])
    bytes.writeFloatLE(3000 * bytes.readFloatLE(at(norm).offset), at(norm).offset);
  for (const matrix of ["0.self_attn.q_proj", "0.self_attn.k_proj", "1.mlp.up_proj"]) {
    const { offset, dtype, shape, bytes: size } = at(matrix);
    for (let row = 0; row < shape[0]!; row++) {
      // Behind the scale, of a row's first block; code 8 of Q4_0 is zero.
      const first = offset + (row * size) / shape[0]! + 2;
      bytes[first] = dtype === "Q8_0" ? 0 : (bytes[first]! & 0xf0) | 8;
    }
  }
  const file = join(folder, "outliers.gguf");
  writeFileSync(file, bytes);
  return file;
}

interface Tried {
  name: string;
  file: string;
  tokens: Int32Array;
  dtype: ElementType;
  trains: boolean;
  /** Whether some weights are multiplied with activations as they are. */
  isGated?: boolean;
  /** Also with the first layers on the processor. */
  isSplit?: boolean;
}
const gguf = { file: path("model.gguf"), tokens: Int32Array.from(facts.tokens) };
const tried: Tried[] = [
  { name: "all types of a GGUF file's blocks", ...gguf, dtype: "bfloat16", trains: isAll },
  {
    name: "weights that need activations as they are",
    ...gguf,
    file: await withOutliers(),
    dtype: "bfloat16",
    trains: isAll,
    isGated: true,
    isSplit: true,
  },
  { name: "GPTQ", file: packedFolder("gptq"), tokens: packedTokens, dtype: "float32", trains: true, isSplit: isAll },
];
if (isAll) {
  tried.push({ name: "all types of a GGUF file's blocks", ...gguf, dtype: "float32", trains: true });
  for (const name of ["compressed_tensors", "awq"] as const)
    tried.push({ name, file: packedFolder(name), tokens: packedTokens, dtype: "bfloat16", trains: true });
}

describe.skipIf(gpu === undefined)("quantised models on a GPU", { timeout: 240_000 }, () => {
  it.each(tried)(
    "compute $name in $dtype with the processor's bits",
    async ({ file, tokens, dtype, trains, isGated, isSplit }) => {
      const { config, tensors } = await openWeightFiles(file);
      const on = async (device: string, gpuLayers?: number) => {
        const gateText = tokens.subarray(0, 40);
        const model = await openRuntime({ device, gpuLayers }).load({ config, tensors, dtype, kvPages: 16, gateText });
        const found = await compute(model, tokens, trains);
        model.close();
        return found;
      };
      const wanted = await on("cpu");
      expect((wanted.weightOnly as string[]).length > 0).toBe(isGated === true);
      const found = await on(gpu!.id);
      expect([found.weightOnly, differing(found, wanted)]).toEqual([wanted.weightOnly, []]);
      if (!isSplit) return;
      const split = await on(gpu!.id, 1);
      expect([split.weightOnly, differing(split, wanted)]).toEqual([wanted.weightOnly, []]);
    },
  );
});
