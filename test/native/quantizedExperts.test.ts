// Models with experts in quantised formats: GGUF files of another program against what PyTorch computes with their dequantised weights
// (see test/reference/quantized_experts/make.py), and folders of packed weights against the same without experts.

import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { Random } from "../../models/recipe/random.js";
import { type GgufValue, readGguf } from "../../src/gguf/ggufFile.js";
import { type TypedValue, writeGguf } from "../../src/gguf/writeGguf.js";
import { type DeviceModel, type NamedTensors, weightTensors } from "../../src/runtime/runtime.js";
import { readModelConfig } from "../../src/weights/modelConfig.js";
import { modelSpec } from "../../src/weights/modelSpec.js";
import { safetensorsHeader } from "../../src/weights/safetensors.js";
import { readSafetensorsHeader } from "../../src/weights/safetensorsHeader.js";
import { openWeightFiles } from "../../src/weights/weightFolder.js";
import { writeGgufModel } from "../../src/weights/writeGgufModel.js";
import { writeSafetensors } from "../fixtures/writeSafetensors.js";
import { vocabulary } from "./oneWordVocabulary.js";
import { PACKED, packedFolder, packedTokens } from "./packedModel.js";
import { adapted, farFrom, logprobsOfKernelSets, recorded } from "./recordedModel.js";
import { expected, loadWeights, promptLogprobs, relativeError } from "./referenceModel.js";

function typedValue(value: GgufValue): TypedValue {
  if (typeof value === "string") return { string: value };
  if (typeof value === "boolean") return { boolean: value };
  if (typeof value === "number") return Number.isInteger(value) ? { uint32: value } : { float32: value };
  return { strings: value as string[] };
}

const folder = mkdtempSync(join(tmpdir(), "anneal-experts-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

async function logprobsOf(path: string, tokens: Int32Array, quantization?: "q8" | "q4"): Promise<Float32Array> {
  const device = await loadWeights(await openWeightFiles(path, quantization));
  try {
    return await promptLogprobs(device, tokens);
  } finally {
    device.close();
  }
}

describe("a GGUF file", () => {
  const {
    facts,
    path,
    tensor: wanted,
    adapter,
  } = recorded<{ tokens: number[]; rank: number; alpha: number }>("quantized_experts");
  const tokens = Int32Array.from(facts.tokens);
  const spec = {
    rank: facts.rank,
    alpha: facts.alpha,
    rslora: false,
    targets: ["q_proj", "k_proj", "v_proj", "o_proj"],
  };
  let weights: Awaited<ReturnType<typeof openWeightFiles>>;
  let model: DeviceModel;
  beforeAll(async () => {
    weights = await openWeightFiles(path("model.gguf"));
    model = await loadWeights(weights);
  });
  afterAll(() => model.close());

  it("is computed in bfloat16 whatever its routers are stored in", () => {
    expect(weights.dtype).toBe("bfloat16");
    expect(weights.config.layers[0]).toMatchObject({ feedForward: null, experts: { count: 5, perToken: 2 } });
  });

  it("may have the rows of gate and up in one tensor, expert by expert", async () => {
    const { metadata, tensors } = await readGguf(path("model.gguf"));
    const bytes = readFileSync(path("model.gguf"));
    const dataOf = (name: string) => {
      const { offset, bytes: size } = tensors.get(name)!;
      return bytes.subarray(offset, offset + size);
    };
    const isWhole = (name: string) => {
      const [gate, up] = ["gate", "up"].map((part) => tensors.get(name.replace(/(gate|up)_exps/, `${part}_exps`))!);
      return /ffn_(gate|up)_exps/.test(name) && gate!.type === up!.type;
    };
    const written = [...tensors].flatMap(([name, { shape, type }]) => {
      if (isWhole(name) && name.includes("ffn_up_exps")) return [];
      if (!isWhole(name)) return [{ name, shape, type, content: () => [dataOf(name)] }];
      const [gate, up] = [dataOf(name), dataOf(name.replace("gate", "up"))];
      const size = gate.length / shape[0]!;
      const parts = Array.from({ length: shape[0]! }, (_, expert) =>
        [gate, up].map((half) => half.subarray(expert * size, (expert + 1) * size)),
      );
      const whole = [shape[0]!, 2 * shape[1]!, shape[2]!];
      return [{ name: name.replace("gate", "gate_up"), shape: whole, type, content: () => parts.flat() }];
    });
    const file = join(folder, "fused.gguf");
    const typed = [...metadata].map(([key, value]): [string, TypedValue] => [key, typedValue(value)]);
    await writeGguf(file, new Map(typed), written, () => {});
    expect((await readGguf(file)).tensors.has("blk.0.ffn_gate_up_exps.weight")).toBe(true);
    expect(await logprobsOf(file, tokens)).toEqual(await promptLogprobs(model, tokens));
    const short = written.map((tensor) =>
      tensor.name.includes("gate_up")
        ? { ...tensor, shape: [tensor.shape[0]!, tensor.shape[1]! / 2, 2 * tensor.shape[2]!] }
        : tensor,
    );
    await writeGguf(join(folder, "short.gguf"), new Map(typed), short, () => {});
    await expect(openWeightFiles(join(folder, "short.gguf"))).rejects.toMatchObject({
      param: "blk.0.ffn_gate_up_exps.weight",
    });
  });

  it("in bfloat16 has the log-probabilities of the model that it was made of", async () => {
    const { rows, floats } = expected("qwen3_moe");
    for (const [r, row] of rows.entries()) {
      const found = await logprobsOf(path("bfloat16.gguf"), row);
      expect(relativeError(found, floats(`row${r}.logprobs`))).toBeLessThan(1e-5);
    }
  });

  it("gives PyTorch's log-probabilities, on every instruction set", async () => {
    const logprobs = await logprobsOfKernelSets(weights, model, tokens);
    expect(relativeError(logprobs, wanted("logprobs").data)).toBeLessThan(1e-3);
  });

  it("trains an adapter on the bits it samples with, by PyTorch's gradients", async () => {
    const { logprobs, gradients } = await adapted(model, { spec, tensors: adapter }, tokens);
    expect(relativeError(logprobs, wanted("adapted.logprobs").data)).toBeLessThan(1e-3);
    // PyTorch's own in float64 are twice as far: what is rounded to 8 bits falls to other sides.
    expect(farFrom(gradients, (name) => wanted(`gradient.${name}`).data, 1e-2)).toEqual([]);
  });

  it("is refused by the tensor whose shape or type does not fit", async () => {
    const whole = readFileSync(path("model.gguf"));
    const changed = async (name: string, change: (entry: Buffer) => void) => {
      const bytes = Buffer.from(whole);
      change(bytes.subarray(bytes.indexOf(name) + name.length));
      const file = join(folder, "changed.gguf");
      writeFileSync(file, bytes);
      return openWeightFiles(file).then(
        () => null,
        (error) => error,
      );
    };
    // Dimensions, sizes from the last one on, type. Half of the experts, and a router in F16.
    const stacked = "blk.1.ffn_down_exps.weight";
    const fewer = await changed(stacked, (entry) => entry.writeBigUInt64LE(4n, 4 + 16));
    expect(fewer).toMatchObject({ param: stacked, message: expect.stringContaining("[4,256,32]") });
    const router = "blk.0.ffn_gate_inp.weight";
    expect(await changed(router, (entry) => entry.writeUInt32LE(8, 4 + 16))).toMatchObject({
      param: router,
      message: expect.stringContaining("routers cannot have"),
    });
  });
});

const sizes = {
  model_type: "qwen3_moe",
  vocab_size: 264,
  hidden_size: 64,
  intermediate_size: 96,
  num_hidden_layers: 2,
  num_attention_heads: 4,
  num_key_value_heads: 2,
  max_position_embeddings: 512,
  torch_dtype: "float32",
  num_experts: 5,
  num_experts_per_tok: 2,
  moe_intermediate_size: 96,
  norm_topk_prob: true,
};

it("written as GGUF in 8 bits has the bits of --quantize q8", async () => {
  const source = join(folder, "floats");
  mkdirSync(source);
  writeFileSync(join(source, "config.json"), JSON.stringify(sizes));
  const random = new Random(7);
  const tensors = weightTensors(modelSpec(await readModelConfig(source))).map(({ name, shape }) => {
    const length = shape.reduce((a, b) => a * b);
    const isNorm = shape.length === 1;
    return [
      name,
      { shape, data: Float32Array.from({ length }, () => Number(isNorm) + 0.4 * (random.next() - 0.5)) },
    ] as const;
  });
  await writeSafetensors(join(source, "model.safetensors"), new Map(tensors));
  const none = { spec: { rank: 1, alpha: 1, rslora: false, targets: ["q_proj"] }, tensors: new Map() };
  const file = join(folder, "q8.gguf");
  await writeGgufModel(file, source, none, { dtype: "q8_0", name: "n", vocabulary });
  const quantized = (await openWeightFiles(file)).config.quantized!.map(({ tensor }) => tensor);
  expect(quantized).toContain("model.layers.1.mlp.experts.4.down_proj.weight");
  expect(quantized).not.toContain("model.layers.1.mlp.gate.weight");
  expect((await openWeightFiles(source, "q8")).config.quantized!.map(({ tensor }) => tensor)).toEqual(quantized);
  expect(await logprobsOf(file, packedTokens)).toEqual(await logprobsOf(source, packedTokens, "q8"));
});

/** A folder of packed weights as Qwen3, or with every feed-forward twice: as two experts of which a token has both. */
async function qwen(name: (typeof PACKED)[number], experts: boolean): Promise<string> {
  const target = join(folder, `${name}-${experts}`);
  cpSync(packedFolder(name), target, { recursive: true });
  const config = JSON.parse(readFileSync(join(target, "config.json"), "utf8"));
  const {
    num_hidden_layers: layers,
    hidden_size: hidden,
    intermediate_size: width,
    num_attention_heads: heads,
  } = config;
  const own = { num_experts: 2, num_experts_per_tok: 2, moe_intermediate_size: width, norm_topk_prob: true };
  const type = experts ? { model_type: "qwen3_moe", ...own } : { model_type: "qwen3" };
  const head_dim = hidden / heads;
  writeFileSync(
    join(target, "config.json"),
    JSON.stringify({ ...config, ...type, head_dim, architectures: undefined }),
  );
  const file = join(target, "model.safetensors");
  const whole = readFileSync(file);
  const tensors: { name: string; shape: readonly number[]; dtype: string; bytes: number; data: Buffer }[] = [];
  for (const [tensor, { shape, dtype, offset, bytes }] of (await readSafetensorsHeader(file)).tensors) {
    const data = whole.subarray(offset, offset + bytes);
    const names =
      experts && tensor.includes(".mlp.") ? [0, 1].map((e) => tensor.replace(".mlp.", `.mlp.experts.${e}.`)) : [tensor];
    for (const name of names) tensors.push({ name, shape, dtype, bytes, data });
  }
  const add = (name: string, shape: number[], values: Float32Array) =>
    tensors.push({ name, shape, dtype: "F32", bytes: values.byteLength, data: Buffer.from(values.buffer) });
  for (let layer = 0; layer < layers; layer++) {
    const at = `model.layers.${layer}`;
    for (const norm of ["q_norm", "k_norm"])
      add(`${at}.self_attn.${norm}.weight`, [head_dim], new Float32Array(head_dim).fill(1));
    const router = Float32Array.from({ length: 2 * hidden }, (_, i) => Math.sin(i));
    if (experts) add(`${at}.mlp.gate.weight`, [2, hidden], router);
  }
  writeFileSync(file, Buffer.concat([safetensorsHeader(tensors), ...tensors.map(({ data }) => data)]));
  return target;
}

it.each(PACKED)("packed as %s has its experts quantised, and its router not", async (name) => {
  const [one, two] = [await qwen(name, false), await qwen(name, true)];
  const { quantized } = (await openWeightFiles(two)).config;
  expect(quantized!.some(({ tensor }) => tensor.includes(".mlp.experts.1.down_proj."))).toBe(true);
  const [plain, chosen] = [await logprobsOf(one, packedTokens), await logprobsOf(two, packedTokens)];
  expect(relativeError(chosen, plain)).toBeLessThan(1e-4);
});

it.each(PACKED)("packed as %s is refused where the router is quantised too", async (name) => {
  const codes = name === "compressed_tensors" ? "weight_packed" : "qweight";
  await refusesCodes(await qwen(name, true), "model.layers.0.mlp.gate", codes);
});

/** Of the folder, were the module's weight made of codes. */
async function refusesCodes(target: string, module: string, codes: string): Promise<void> {
  const file = join(target, "model.safetensors");
  const whole = readFileSync(file);
  const length = Number(whole.readBigUInt64LE());
  const header = JSON.parse(whole.subarray(8, 8 + length).toString());
  header[`${module}.${codes}`] = header[`${module}.weight`];
  delete header[`${module}.weight`];
  const text = Buffer.from(JSON.stringify(header));
  const size = Buffer.alloc(8);
  size.writeBigUInt64LE(BigInt(text.length));
  writeFileSync(file, Buffer.concat([size, text, whole.subarray(8 + length)]));
  await expect(openWeightFiles(target)).rejects.toMatchObject({
    name: "ModelFileError",
    param: `${module}.${codes}`,
    message: expect.stringContaining("quantised router"),
  });
}

describe("an expert that every token has", () => {
  const shared = {
    ...sizes,
    model_type: "qwen3_5_moe_text",
    intermediate_size: undefined,
    layer_types: ["linear_attention", "full_attention"],
    head_dim: 32,
    linear_num_key_heads: 1,
    linear_num_value_heads: 2,
    linear_key_head_dim: 32,
    linear_value_head_dim: 32,
    // All are chosen: none is for what was rounded.
    num_experts_per_tok: 5,
    shared_expert_intermediate_size: 32,
  };
  const GROUP = 32;
  const ROUTER = /\.mlp\.(gate|shared_expert_gate)\./;

  /** Of every matrix codes of 8 bits, a scale for every group, and the numbers that they stand for. */
  async function write(): Promise<{ floats: string; packed: string }> {
    const [floats, packed] = [join(folder, "shared-floats"), join(folder, "shared-packed")];
    for (const path of [floats, packed]) mkdirSync(path);
    writeFileSync(join(floats, "config.json"), JSON.stringify(shared));
    const weights = { num_bits: 8, type: "int", strategy: "group", group_size: GROUP, symmetric: true };
    const quantization_config = {
      quant_method: "compressed-tensors",
      format: "pack-quantized",
      config_groups: { group_0: { targets: ["Linear"], weights } },
    };
    writeFileSync(join(packed, "config.json"), JSON.stringify({ ...shared, quantization_config }));
    const random = new Random(11);
    const numbers: NamedTensors = new Map();
    const stored: { name: string; shape: number[]; dtype: string; bytes: number; data: Buffer }[] = [];
    const store = (name: string, shape: number[], dtype: string, values: Float32Array | Int32Array) =>
      stored.push({ name, shape, dtype, bytes: values.byteLength, data: Buffer.from(values.buffer) });
    for (const { name, shape } of weightTensors(modelSpec(await readModelConfig(floats)))) {
      const length = shape.reduce((a, b) => a * b);
      const isMatrix = shape.length === 2 && !ROUTER.test(name) && !/embed_tokens|lm_head/.test(name);
      if (!isMatrix) {
        const data = Float32Array.from({ length }, () => 0.8 * (random.next() - 0.5));
        numbers.set(name, { shape, data });
        store(name, shape, "F32", data);
        continue;
      }
      const [outputs, inputs] = shape as [number, number];
      const scales = Float32Array.from({ length: length / GROUP }, () => 2 ** -Math.floor(8 + 2 * random.next()));
      const codes = Int32Array.from({ length }, () => Math.floor(255 * random.next()) - 127);
      const words = new Int32Array(length / 4);
      for (const [i, code] of codes.entries()) words[i >> 2]! |= (code + 128) << (8 * (i & 3));
      numbers.set(name, { shape, data: Float32Array.from(codes, (code, i) => code * scales[Math.floor(i / GROUP)]!) });
      store(`${name}_packed`, [outputs, inputs / 4], "I32", words);
      store(`${name}_scale`, [outputs, inputs / GROUP], "F32", scales);
      store(`${name}_shape`, [2], "I32", Int32Array.from(shape));
    }
    await writeSafetensors(join(floats, "model.safetensors"), numbers);
    const file = Buffer.concat([safetensorsHeader(stored), ...stored.map(({ data }) => data)]);
    writeFileSync(join(packed, "model.safetensors"), file);
    return { floats, packed };
  }

  let paths: Awaited<ReturnType<typeof write>>;
  beforeAll(async () => {
    paths = await write();
  });

  it("is read packed, and what it is multiplied with as it is", async () => {
    const { config } = await openWeightFiles(paths.packed);
    const quantized = config.quantized!.map(({ tensor }) => tensor);
    for (const name of ["experts.4.up_proj", "shared_expert.gate_proj", "shared_expert.down_proj"]) {
      expect(quantized).toContain(`model.layers.1.mlp.${name}.weight`);
    }
    expect(quantized.filter((name) => ROUTER.test(name))).toEqual([]);
    const found = await logprobsOf(paths.packed, packedTokens);
    expect(relativeError(found, await logprobsOf(paths.floats, packedTokens))).toBeLessThan(0.02);
  });

  it("is refused where what it is multiplied with is quantised too", async () => {
    const target = join(folder, "shared-gate");
    cpSync(paths.packed, target, { recursive: true });
    await refusesCodes(target, "model.layers.1.mlp.shared_expert_gate", "weight_packed");
  });

  it.each(["q8", "q4"] as const)("becomes %s when it is loaded, and what it is multiplied with stays", async (kind) => {
    const { config } = await openWeightFiles(paths.floats, kind);
    const quantized = config.quantized!.map(({ tensor }) => tensor);
    expect(quantized).toContain("model.layers.0.mlp.shared_expert.down_proj.weight");
    expect(quantized).toContain("model.layers.0.mlp.experts.0.down_proj.weight");
    expect(quantized.filter((name) => ROUTER.test(name))).toEqual([]);
    const found = await logprobsOf(paths.floats, packedTokens, kind);
    const limit = kind === "q8" ? 0.03 : 0.1;
    expect(relativeError(found, await logprobsOf(paths.floats, packedTokens))).toBeLessThan(limit);
  });
});
