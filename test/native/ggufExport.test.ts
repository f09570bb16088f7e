// The reference models with their adapters written as GGUF, beside the same as Hugging Face folders.

import { cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { Random } from "../../models/recipe/random.js";
import { readGguf } from "../../src/gguf/ggufFile.js";
import { widenFloat16 } from "../../src/halfFloats.js";
import { quantizeNumbers, weightTensors } from "../../src/runtime/runtime.js";
import { readGgufWeights } from "../../src/weights/ggufWeights.js";
import { writeMergedFolder } from "../../src/weights/mergedFolder.js";
import { readModelConfig } from "../../src/weights/modelConfig.js";
import { modelSpec } from "../../src/weights/modelSpec.js";
import { openWeightFiles, openWeightFolder } from "../../src/weights/weightFolder.js";
import { type GgufDtype, writeGgufAdapter, writeGgufModel } from "../../src/weights/writeGgufModel.js";
import { writeSafetensors } from "../fixtures/writeSafetensors.js";
import { vocabulary } from "./oneWordVocabulary.js";
import {
  CASES,
  type Case,
  caseAdapter,
  caseFolder,
  expected,
  loadWeights,
  promptLogprobs,
  relativeError,
} from "./referenceModel.js";

const folder = mkdtempSync(join(tmpdir(), "anneal-gguf-export-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const WRITTEN: readonly Case[] = [
  ...(["llama", "llama_linear", "mistral", "qwen2", "qwen3", "qwen3_moe", "smollm3", "granite"] as const),
  ...(["gemma2", "gemma3_odd", "gemma4", "phi3", "phi3_odd", "phi3_plain", "lfm2", "lfm2_moe", "granite_moe"] as const),
  ...(["qwen3_5", "qwen3_5_odd", "qwen3_5_tower", "qwen3_5_moe", "qwen3_5_moe_tower"] as const),
];

/** Log-probabilities of the tokens of a prompt. */
async function logprobs(path: string, tokens: Int32Array): Promise<number[]> {
  const device = await loadWeights(await openWeightFiles(path));
  try {
    return [...(await promptLogprobs(device, tokens))];
  } finally {
    device.close();
  }
}

async function written(name: Case, dtype: GgufDtype): Promise<string> {
  const file = join(folder, `${name}-${dtype}.gguf`);
  if (!existsSync(file))
    await writeGgufModel(file, caseFolder(name), await caseAdapter(name), { dtype, name, vocabulary });
  return file;
}

/** A copy of a case's folder, named `as`, whose config.json is what `change` makes of it. */
// biome-ignore lint/suspicious/noExplicitAny: config.json
function changedCase(name: Case, as: string, change: (config: any) => object): string {
  const source = join(folder, as);
  cpSync(caseFolder(name), source, { recursive: true });
  const config = JSON.parse(readFileSync(join(source, "config.json"), "utf8"));
  writeFileSync(join(source, "config.json"), JSON.stringify(change(config)));
  return source;
}

const NO_ADAPTER = { spec: { rank: 1, alpha: 1, rslora: false, targets: ["q_proj"] }, tensors: new Map() };

describe.each(WRITTEN)("%s", (name) => {
  const tokens = expected(name).rows[0]!;

  it("says what its folder says, to the bit", async () => {
    const merged = join(folder, `${name}-merged`);
    mkdirSync(merged);
    await writeMergedFolder(merged, caseFolder(name), await caseAdapter(name), { dtype: "float32" });
    const [told, wanted] = [await logprobs(await written(name, "float32"), tokens), await logprobs(merged, tokens)];
    // Factors of LongRoPE have fewer bits in GGUF than in JSON.
    if (name === "phi3" || name === "phi3_odd")
      expect(relativeError(Float32Array.from(told), Float32Array.from(wanted))).toBeLessThan(1e-6);
    else expect(told).toEqual(wanted);
  });

  it("has its adapter in the order of its rows", async () => {
    const { config } = await openWeightFolder(caseFolder(name));
    const adapter = await caseAdapter(name);
    const file = join(folder, `${name}-adapter.gguf`);
    await writeGgufAdapter(file, caseFolder(name), config, adapter);
    const { metadata, tensors } = await readGguf(file);
    const { rank, alpha } = adapter.spec;
    expect([metadata.get("general.type"), metadata.get("adapter.type")]).toEqual(["adapter", "lora"]);
    expect(metadata.get("adapter.lora.alpha")).toBe(alpha);
    expect(tensors.size).toBe(adapter.tensors.size);
    const bytes = readFileSync(file);
    const isInPairs = ["llama", "smollm3", "granite", "granitemoe"].includes(
      String(metadata.get("general.architecture")),
    );
    const layer = config.layers.findIndex(({ attention }) => attention);
    const { fusedQkv, headDim } = config.layers[layer]!.attention!;
    for (const projection of fusedQkv ? ["qkv"] : ["q", "v"]) {
      const values = adapter.tensors.get(
        `base_model.model.model.layers.${layer}.self_attn.${projection}_proj.lora_B.weight`,
      )!.data;
      const { offset, shape, type } = tensors.get(`blk.${layer}.attn_${projection}.weight.lora_b`)!;
      expect([type, shape[1]]).toEqual(["F32", rank]);
      const half = headDim / 2;
      for (let row = 0; row < shape[0]!; row++) {
        const head = Math.floor(row / (2 * half));
        const [pair, second] = [Math.floor((row % (2 * half)) / 2), row % 2];
        const from = projection === "q" && isInPairs ? head * 2 * half + second * half + pair : row;
        expect(bytes.readFloatLE(offset + 4 * row * rank)).toBe(values[from * rank]);
      }
    }
  });
});

it("has the adapters of a delta rule in the order of its value heads", async () => {
  const { config } = await openWeightFolder(caseFolder("qwen3_5"));
  const adapter = await caseAdapter("qwen3_5");
  const file = join(folder, "delta-adapter.gguf");
  await writeGgufAdapter(file, caseFolder("qwen3_5"), config, adapter);
  const { tensors } = await readGguf(file);
  const bytes = readFileSync(file);
  const layer = config.layers.findIndex(({ deltaRule }) => deltaRule);
  const { keyHeads, valueHeads, keyDim, valueDim } = config.layers[layer]!.deltaRule!;
  expect(valueHeads).toBe(2 * keyHeads);
  const { rank } = adapter.spec;
  const of = (module: string, matrix: "A" | "B") =>
    adapter.tensors.get(`base_model.model.model.layers.${layer}.linear_attn.${module}.lora_${matrix}.weight`)!.data;
  const at = (name: string, index: number) =>
    bytes.readFloatLE(tensors.get(`blk.${layer}.${name}`)!.offset + 4 * index);
  // The first of every key head's value heads, then the second.
  const inFolder = (head: number) => 2 * (head % keyHeads) + Math.floor(head / keyHeads);
  const keys = 2 * keyHeads * keyDim;
  for (let row = 0; row < keys; row++) {
    expect(at("attn_qkv.weight.lora_b", row * rank)).toBe(of("in_proj_qkv", "B")[row * rank]);
  }
  for (let head = 0; head < valueHeads; head++) {
    expect(at("ssm_alpha.weight.lora_b", head * rank + 1)).toBe(of("in_proj_a", "B")[inFolder(head) * rank + 1]);
    for (let i = 0; i < valueDim; i++) {
      const [to, from] = [head * valueDim + i, inFolder(head) * valueDim + i];
      expect(at("attn_qkv.weight.lora_b", (keys + to) * rank)).toBe(of("in_proj_qkv", "B")[(keys + from) * rank]);
      expect(at("attn_gate.weight.lora_b", to * rank)).toBe(of("in_proj_z", "B")[from * rank]);
      const columns = valueHeads * valueDim;
      expect(at("ssm_out.weight.lora_a", columns + to)).toBe(of("out_proj", "A")[columns + from]);
    }
  }
});

it("writes an adapter where the model itself is not written", async () => {
  const { config } = await openWeightFolder(caseFolder("gpt_oss"));
  const adapter = await caseAdapter("gpt_oss");
  const file = join(folder, "gpt-oss-adapter.gguf");
  await writeGgufAdapter(file, caseFolder("gpt_oss"), config, adapter);
  const { metadata, tensors } = await readGguf(file);
  expect(metadata.get("general.architecture")).toBe("gpt-oss");
  expect(tensors.size).toBe(adapter.tensors.size);
  expect(tensors.has("blk.0.attn_q.weight.lora_a")).toBe(true);
});

it("keeps a model near its numbers, the nearer the more bits there are", async () => {
  const tokens = expected("qwen3").rows[0]!;
  const exact = await logprobs(await written("qwen3", "float32"), tokens);
  const errors: number[] = [];
  for (const dtype of ["float16", "bfloat16", "q8_0", "q4_0"] as const) {
    const near = await logprobs(await written("qwen3", dtype), tokens);
    errors.push(exact.reduce((sum, value, i) => sum + Math.abs(value - near[i]!), 0) / exact.length);
  }
  expect(errors).toEqual(errors.toSorted((a, b) => a - b));
  expect(errors[0]).toBeGreaterThan(0);
});

/** Sizes of whole blocks, so that every matrix is quantised. */
const whole = {
  vocab_size: 288,
  hidden_size: 64,
  intermediate_size: 128,
  num_hidden_layers: 2,
  num_attention_heads: 4,
  num_key_value_heads: 2,
  max_position_embeddings: 512,
  rms_norm_eps: 1e-5,
  rope_theta: 10_000,
  torch_dtype: "float32",
};
const caps = { attn_logit_softcapping: 2, final_logit_softcapping: 3 };

it.each<[string, object]>([
  ["phi3", { partial_rotary_factor: 0.5, hidden_act: "silu", sliding_window: null }],
  [
    "gemma2",
    { head_dim: 32, query_pre_attn_scalar: 32, sliding_window: 64, hidden_activation: "gelu_pytorch_tanh", ...caps },
  ],
])("%s in 8 bits errs by the rounding of its activations alone", async (type, own) => {
  const source = join(folder, `${type}-whole`);
  mkdirSync(source);
  const architectures = [type === "phi3" ? "Phi3ForCausalLM" : "Gemma2ForCausalLM"];
  writeFileSync(join(source, "config.json"), JSON.stringify({ ...whole, ...own, architectures, model_type: type }));
  const random = new Random(5);
  const draw = () => random.next() + random.next() + random.next() + random.next() - 2;
  // Numbers that 8 bits hold: then nothing is lost in writing them so.
  const tensors = new Map<string, { shape: number[]; data: Float32Array }>();
  for (const { name, shape } of weightTensors(modelSpec(await readModelConfig(source)))) {
    const values = Float32Array.from({ length: shape.reduce((a, b) => a * b) }, () =>
      shape.length === 1 ? (type === "phi3" ? 1 : 0) + 0.3 * draw() : 0.2 * draw(),
    );
    const data = shape.length === 1 ? values : fromQ8(await quantizeNumbers("Q8_0", values));
    tensors.set(name, { shape, data });
  }
  await writeSafetensors(join(source, "model.safetensors"), tensors, {});
  const { spec } = await caseAdapter("llama");
  const file = join(folder, `${type}-whole.gguf`);
  await writeGgufModel(file, source, { spec, tensors: new Map() }, { dtype: "q8_0", name: type, vocabulary });
  expect((await readGgufWeights(file)).config.quantized?.length).toBeGreaterThanOrEqual(10);
  const tokens = Int32Array.from({ length: 60 }, (_, i) => (i * 7919) % whole.vocab_size);
  const [told, wanted] = [await logprobs(file, tokens), await logprobs(source, tokens)];
  const error = relativeError(Float32Array.from(told), Float32Array.from(wanted));
  expect(error).toBeGreaterThan(0);
  expect(error).toBeLessThan(0.01);
});

function fromQ8(blocks: Uint8Array): Float32Array {
  const numbers = new Float32Array((blocks.length / 34) * 32);
  for (const [i] of numbers.entries()) {
    const at = Math.floor(i / 32) * 34;
    const [scale] = widenFloat16(Uint16Array.of(blocks[at]! | (blocks[at + 1]! << 8)));
    numbers[i] = scale! * ((blocks[at + 2 + (i % 32)]! << 24) >> 24);
  }
  return numbers;
}

it.each<[string, object, boolean]>([
  [
    "llama3",
    { factor: 32, low_freq_factor: 1, high_freq_factor: 4, original_max_position_embeddings: 8192 },
    true, // its factors are a tensor
  ],
  ["yarn", { factor: 4, beta_fast: 16, beta_slow: 2, original_max_position_embeddings: 64 }, false],
])("says how %s scales positions", async (type, scaling, hasFactors) => {
  const rope = { rope_parameters: undefined, rope_theta: 500_000, rope_scaling: { rope_type: type, ...scaling } };
  const source = changedCase("llama3_rope", type, (config) => ({ ...config, ...rope }));
  const file = join(folder, `${type}.gguf`);
  await writeGgufModel(file, source, await caseAdapter("llama3_rope"), { dtype: "float32", name: "n", vocabulary });
  const merged = join(folder, `${type}-merged`);
  mkdirSync(merged);
  await writeMergedFolder(merged, source, await caseAdapter("llama3_rope"), { dtype: "float32" });
  const tokens = expected("llama3_rope").rows[0]!;
  expect(await logprobs(file, tokens)).toEqual(await logprobs(merged, tokens));
  expect((await readGguf(file)).tensors.has("rope_freqs.weight")).toBe(hasFactors);
});

it("gives matrices of whole blocks the types that were asked for", async () => {
  const file = await written("qwen3", "q4_k_m");
  const { tensors } = await readGguf(file);
  const { config } = await readGgufWeights(file);
  for (const { tensor, format } of config.quantized ?? [])
    expect(["Q5_0", "Q8_0", "Q4_K", "Q6_K"], tensor).toContain(format);
  expect([...tensors.values()].filter(({ shape }) => shape.length === 1).every(({ type }) => type === "F32")).toBe(
    true,
  );
});

it.each(CASES.filter((name) => !WRITTEN.includes(name)))("refuses %s or says it whole", async (name) => {
  const file = join(folder, `${name}.gguf`);
  const write = writeGgufModel(file, caseFolder(name), await caseAdapter(name), { dtype: "float32", name, vocabulary });
  const outcome = await write.then(
    () => "written",
    (error) => error,
  );
  if (outcome === "written") {
    const { config } = await openWeightFolder(caseFolder(name));
    expect((await readGgufWeights(file)).config.layers.length).toBe(config.layers.length);
  } else {
    expect(outcome).toMatchObject({ name: "ValidationError", param: "format" });
  }
});

it.each([
  ["lfm2", "conv", "none of its layers attends"],
  ["lfm2", "full_attention", "lfm2.shortconv.l_cache"],
  ["qwen3_5", "linear_attention", "none of its layers attends"],
  ["qwen3_5", "full_attention", "qwen35.ssm.time_step_rank"],
] as const)("refuses a model of the kind of %s whose layers are all %s", async (base, type, reason) => {
  const source = join(folder, `${base}-${type}`);
  mkdirSync(source);
  const config = JSON.parse(readFileSync(join(caseFolder(base), "config.json"), "utf8"));
  config.layer_types = config.layer_types.map(() => type);
  writeFileSync(join(source, "config.json"), JSON.stringify(config));
  const zeros = weightTensors(modelSpec(await readModelConfig(source))).map(({ name, shape }) => {
    return [name, { shape, data: new Float32Array(shape.reduce((a, b) => a * b)) }] as const;
  });
  await writeSafetensors(join(source, "model.safetensors"), new Map(zeros), {});
  const write = writeGgufModel(`${source}.gguf`, source, NO_ADAPTER, { dtype: "float32", name: "n", vocabulary });
  const message = expect.stringContaining(reason);
  await expect(write).rejects.toMatchObject({ name: "ValidationError", param: "format", message });
});

it("says of Gemma 4 without a cap of its logits that it has none, where llama.cpp would cap at 30", async () => {
  const source = changedCase("gemma4", "uncapped", (config) => ({ ...config, final_logit_softcapping: null }));
  const file = join(folder, "uncapped.gguf");
  await writeGgufModel(file, source, await caseAdapter("gemma4"), { dtype: "float32", name: "n", vocabulary });
  expect((await readGguf(file)).metadata.get("gemma4.final_logit_softcapping")).toBe(0);
  expect((await readGgufWeights(file)).config.logitSoftCap).toBe(0);
});

it.each([
  [2, [1, 0, 0, 0]],
  [4, [1, 1, 0, 0]],
  [8, [2, 1, 1, 0]],
  [16, [3, 3, 2, 0]],
] as const)("gives every pair of %i elements that turn a position", async (turning, sections) => {
  const source = changedCase("qwen3_5", `turning-${turning}`, (config) => {
    config.rope_parameters.partial_rotary_factor = turning / config.head_dim;
    return config;
  });
  await writeGgufModel(`${source}.gguf`, source, NO_ADAPTER, { dtype: "float32", name: "n", vocabulary });
  const { metadata } = await readGguf(`${source}.gguf`);
  expect(metadata.get("qwen35.rope.dimension_sections")).toEqual(sections);
});

it("refuses at its format what could not be read again", async () => {
  const halves = { factor: 2.5, original_max_position_embeddings: 8192 };
  const source = changedCase("llama3_rope", "halves", (config) => {
    return { ...config, rope_parameters: { ...config.rope_parameters, ...halves } };
  });
  const write = writeGgufModel(join(folder, "halves.gguf"), source, NO_ADAPTER, {
    dtype: "float32",
    name: "n",
    vocabulary,
  });
  await expect(write).rejects.toMatchObject({
    name: "ValidationError",
    param: "format",
    message: expect.stringContaining("rope_freqs.weight"),
  });
});

it.each<[string, unknown, unknown, string]>([
  ["a format that is none", "Q9_9", new Float32Array(32), "format"],
  ["a format that is only read", "Q5_K", new Float32Array(256), "format"],
  ["half a block", "Q8_0", new Float32Array(16), "numbers"],
  ["what is no number", "Q8_0", new Float32Array(32).fill(Number.NaN), "numbers"],
  ["a list", "Q8_0", [1, 2], "numbers"],
])("makes no blocks of %s", async (_, format, numbers, param) => {
  const quantized = quantizeNumbers(format as "Q8_0", numbers as Float32Array);
  const problem = { code: "invalid_argument", param: expect.stringContaining(param) };
  await expect(quantized).rejects.toMatchObject(problem);
});
