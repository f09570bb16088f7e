// A GGUF file of Gemma 4, by the keys and names that llama.cpp gives, is the model of the folder that it holds the tensors of.

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, it } from "vitest";
import { type TypedValue, writeGguf } from "../../src/gguf/writeGguf.js";
import { readSafetensors } from "../../src/weights/safetensors.js";
import { openWeightFiles, openWeightFolder } from "../../src/weights/weightFolder.js";
import { type Case, caseFolder, expected, loadWeights, promptLogprobs, relativeError } from "./referenceModel.js";

const folder = mkdtempSync(join(tmpdir(), "anneal-gguf-shared-keys-"));
afterAll(() => rmSync(folder, { recursive: true, force: true }));

const NAMES: Record<string, string> = {
  "model.embed_tokens": "token_embd",
  "model.embed_tokens_per_layer": "per_layer_token_embd",
  "model.per_layer_model_projection": "per_layer_model_proj",
  "model.per_layer_projection_norm": "per_layer_proj_norm",
  "model.norm": "output_norm",
  "self_attn.q_proj": "attn_q",
  "self_attn.k_proj": "attn_k",
  "self_attn.v_proj": "attn_v",
  "self_attn.o_proj": "attn_output",
  "self_attn.q_norm": "attn_q_norm",
  "self_attn.k_norm": "attn_k_norm",
  "mlp.gate_proj": "ffn_gate",
  "mlp.up_proj": "ffn_up",
  "mlp.down_proj": "ffn_down",
  input_layernorm: "attn_norm",
  post_attention_layernorm: "post_attention_norm",
  pre_feedforward_layernorm: "ffn_norm",
  post_feedforward_layernorm: "post_ffw_norm",
  per_layer_input_gate: "inp_gate",
  per_layer_projection: "proj",
  post_per_layer_input_norm: "post_norm",
  layer_scalar: "layer_output_scale",
};

const floats = (values: Float32Array) => [new Uint8Array(values.slice().buffer)];

async function written(
  base: Case,
  name: string,
  metadata: Record<string, TypedValue>,
  factors: number[],
): Promise<string> {
  const { tensors } = await readSafetensors(join(caseFolder(base), "model.safetensors"));
  const file = join(folder, `${name}.gguf`);
  const list = [...tensors].map(([own, { data, shape }]) => {
    const [, layer, place] = /^(?:model\.layers\.(\d+)\.)?(.+?)(?:\.weight)?$/.exec(own)!;
    return {
      name: `${layer === undefined ? "" : `blk.${layer}.`}${NAMES[place!]!}.weight`,
      shape,
      type: "F32" as const,
      content: () => floats(Float32Array.from(data)),
    };
  });
  list.push({
    name: "rope_freqs.weight",
    shape: [factors.length],
    type: "F32" as const,
    content: () => floats(Float32Array.from(factors)),
  });
  // As files are made of folders that have what no layer looks at.
  if (base === "gemma4") {
    const shape = [32, 36];
    list.push({ name: "blk.4.attn_k.weight", shape, type: "F32", content: () => floats(new Float32Array(32 * 36)) });
  }
  await writeGguf(file, new Map(Object.entries(metadata)), list, () => {});
  return file;
}

const key = (name: string) => `gemma4.${name}`;
const COMMON: Record<string, TypedValue> = {
  "general.architecture": { string: "gemma4" },
  [key("attention.layer_norm_rms_epsilon")]: { float32: 1e-6 },
  [key("rope.freq_base")]: { float32: 1e6 },
  [key("rope.freq_base_swa")]: { float32: 1e4 },
};
const SMALL: Record<string, TypedValue> = {
  ...COMMON,
  [key("block_count")]: { uint32: 6 },
  [key("context_length")]: { uint32: 256 },
  [key("embedding_length")]: { uint32: 36 },
  [key("feed_forward_length")]: { int32s: [48, 48, 48, 96, 96, 96] },
  [key("attention.head_count")]: { uint32: 4 },
  [key("attention.head_count_kv")]: { uint32: 2 },
  [key("attention.key_length")]: { uint32: 24 },
  [key("attention.value_length")]: { uint32: 24 },
  [key("attention.key_length_swa")]: { uint32: 16 },
  [key("attention.value_length_swa")]: { uint32: 16 },
  [key("rope.dimension_count")]: { uint32: 24 },
  [key("rope.dimension_count_swa")]: { uint32: 16 },
  [key("attention.shared_kv_layers")]: { uint32: 3 },
  [key("attention.sliding_window")]: { uint32: 21 },
  [key("attention.sliding_window_pattern")]: { booleans: [true, false, true, false, true, false] },
  [key("embedding_length_per_layer_input")]: { uint32: 20 },
  [key("final_logit_softcapping")]: { float32: 30 },
};
const TURNING = [1, 1, 1, ...Array<number>(9).fill(1e30)];

describe("a GGUF file of Gemma 4", () => {
  it.each([
    ["gemma4", SMALL, TURNING],
    [
      "gemma4_odd",
      {
        ...COMMON,
        [key("block_count")]: { uint32: 3 },
        [key("context_length")]: { uint32: 128 },
        [key("embedding_length")]: { uint32: 33 },
        [key("feed_forward_length")]: { uint32: 57 },
        [key("attention.head_count")]: { uint32: 6 },
        [key("attention.head_count_kv")]: { int32s: [1, 3, 1] },
        [key("attention.key_length")]: { uint32: 18 },
        [key("attention.key_length_swa")]: { uint32: 10 },
        [key("attention.sliding_window")]: { uint32: 9 },
        [key("attention.sliding_window_pattern")]: { booleans: [false, true, false] },
        [key("embedding_length_per_layer_input")]: { uint32: 0 },
      },
      [...Array<number>(4).fill(1), ...Array<number>(5).fill(1e30)],
    ],
  ] satisfies [Case, Record<string, TypedValue>, number[]][])(
    "is the model of the folder that it was made of: %s",
    async (base, metadata, factors) => {
      const weights = await openWeightFiles(await written(base, base, metadata, factors));
      const { config } = await openWeightFolder(caseFolder(base));
      // Metadata has 24 bits; no published rope of this type has a factor, and no key tells of one.
      const layers = config.layers.map((layer) => {
        const { rope, ...attention } = layer.attention!;
        // Whole pairs turn.
        const rotaryShare = rope.rotaryShare === 0.5 ? 8 / 18 : rope.rotaryShare;
        return { ...layer, attention: { ...attention, rope: { ...rope, factor: 1, rotaryShare } } };
      });
      expect({ ...weights.config, rmsEps: config.rmsEps }).toEqual({ ...config, layers });
      if (base !== "gemma4") return;
      const model = await loadWeights(weights);
      const { rows, floats: wanted } = expected(base);
      for (const [r, row] of rows.entries()) {
        expect(relativeError(await promptLogprobs(model, row), wanted(`row${r}.logprobs`))).toBeLessThan(1e-4);
      }
      model.close();
    },
  );

  it.each([
    ["expert_count", { uint32: 8 }],
    ["feed_forward_length", { int32s: [48, 48, 96, 96, 96, 96] }],
    ["attention.sliding_window_pattern", { uint32: 6 }],
    ["attention.head_count_kv", { int32s: [2, 2] }],
    ["attention.value_length", { uint32: 16 }],
    ["rope.dimension_count_swa", { uint32: 8 }],
  ] satisfies [string, TypedValue][])("is refused by name for its %s", async (name, value) => {
    const file = await written("gemma4", `refused-${name}`, { ...SMALL, [key(name)]: value }, TURNING);
    await expect(openWeightFiles(file)).rejects.toMatchObject({ param: key(name) });
  });

  it("is refused for frequencies of another kind", async () => {
    const lists = [TURNING.slice(1), TURNING.toReversed(), TURNING.map((factor) => factor * 2)];
    for (const [i, factors] of lists.entries()) {
      const file = await written("gemma4", `factors-${i}`, SMALL, factors);
      await expect(openWeightFiles(file)).rejects.toMatchObject({ param: "rope_freqs.weight" });
    }
  });
});
