import { describe, expect, it } from "vitest";
import { ModelFileError } from "../errors.js";
import { architectureOf, ggufConfig, ggufTensorName, isFurtherToken } from "./ggufConfig.js";
import { GgufFields } from "./ggufFields.js";
import type { GgufTensor, GgufValue } from "./ggufFile.js";

const sizes: Record<string, GgufValue> = {
  "general.architecture": "qwen2",
  "qwen2.block_count": 2,
  "qwen2.context_length": 512,
  "qwen2.embedding_length": 64,
  "qwen2.feed_forward_length": 96,
  "qwen2.attention.head_count": 4,
  "qwen2.attention.layer_norm_rms_epsilon": 1e-6,
  "qwen2.rope.scaling.type": "yarn",
  "qwen2.rope.scaling.factor": 4,
};
const embedding: GgufTensor = { file: "model.gguf", type: "F32", shape: [100, 64], offset: 0, bytes: 25_600 };

function scaling(more: Record<string, GgufValue>): unknown {
  const metadata = new Map(Object.entries({ ...sizes, ...more }));
  const tensors = new Map([["token_embd.weight", embedding]]);
  return ggufConfig({ file: "model.gguf", metadata, tensors }, {}).rope_scaling;
}

it("reads all that a file says of YaRN, or refuses it", () => {
  expect(scaling({})).toEqual({ rope_type: "yarn", factor: 4 });
  const betas = { "qwen2.rope.scaling.yarn_beta_fast": 16, "qwen2.rope.scaling.yarn_beta_slow": 2 };
  expect(scaling(betas)).toMatchObject({ beta_fast: 16, beta_slow: 2 });
  expect(scaling({ "qwen2.rope.scaling.yarn_attn_factor": 1 })).toEqual({ rope_type: "yarn", factor: 4 });
  for (const key of ["attn_factor", "yarn_attn_factor", "yarn_ext_factor", "yarn_log_multiplier"]) {
    const param = `qwen2.rope.scaling.${key}`;
    const read = () => scaling({ [param]: 0.5 });
    expect(read).toThrow(ModelFileError);
    expect(read).toThrow(expect.objectContaining({ param }));
  }
});

it("refuses more layers than there can be before it lists them", () => {
  const own = Object.entries(sizes)
    .filter(([key]) => key.startsWith("qwen2.") && !key.includes("scaling"))
    .map(([key, value]) => [key.replace("qwen2", "gemma3"), value] as const);
  for (const layers of [2 ** 32 - 1, 2 ** 26, 0, -1, 1.5, Number.NaN]) {
    const keys = { "general.architecture": "gemma3", "gemma3.block_count": layers };
    const metadata = new Map<string, GgufValue>(Object.entries({ ...Object.fromEntries(own), ...keys }));
    const read = () =>
      ggufConfig({ file: "model.gguf", metadata, tensors: new Map([["token_embd.weight", embedding]]) }, {});
    expect(read).toThrow(expect.objectContaining({ name: "ModelFileError", param: "gemma3.block_count" }));
  }
});

it("reads layers with experts", () => {
  const keys = { "general.architecture": "qwen3moe", "qwen3moe.expert_count": 8, "qwen3moe.expert_used_count": 2 };
  const own = Object.entries(sizes)
    .filter(([key]) => key.startsWith("qwen2.") && !key.includes("scaling"))
    .map(([key, value]) => [key.replace("qwen2", "qwen3moe"), value] as const);
  const config = (more: Record<string, GgufValue>) => {
    const metadata = new Map(Object.entries({ ...Object.fromEntries(own), ...keys, ...more }));
    return ggufConfig({ file: "model.gguf", metadata, tensors: new Map([["token_embd.weight", embedding]]) }, {});
  };
  const width = "qwen3moe.expert_feed_forward_length";
  expect(config({ [width]: 48 })).toMatchObject({
    model_type: "qwen3_moe",
    num_experts: 8,
    num_experts_per_tok: 2,
    moe_intermediate_size: 48,
    norm_topk_prob: true,
  });
  expect(() => config({})).toThrow(expect.objectContaining({ name: "ModelFileError", param: width }));
  const place = "model.layers.3.mlp";
  expect(ggufTensorName(`${place}.experts.down_proj.weight`, {})).toBe("blk.3.ffn_down_exps.weight");
  expect(ggufTensorName(`${place}.gate.weight`, {})).toBe("blk.3.ffn_gate_inp.weight");
});

describe("layers with a delta rule", () => {
  const keys: Record<string, GgufValue> = {
    "general.architecture": "qwen35",
    "qwen35.block_count": 5,
    "qwen35.nextn_predict_layers": 1,
    "qwen35.context_length": 512,
    "qwen35.embedding_length": 64,
    "qwen35.feed_forward_length": 96,
    "qwen35.attention.head_count": 2,
    "qwen35.attention.key_length": 64,
    "qwen35.attention.layer_norm_rms_epsilon": 1e-6,
    "qwen35.rope.dimension_count": 16,
    "qwen35.ssm.conv_kernel": 4,
    "qwen35.ssm.state_size": 12,
    "qwen35.ssm.group_count": 2,
    "qwen35.ssm.time_step_rank": 6,
    "qwen35.ssm.inner_size": 48,
  };
  const file = (more: Record<string, GgufValue>) => ({
    file: "model.gguf",
    metadata: new Map(Object.entries({ ...keys, ...more })),
    tensors: new Map([["token_embd.weight", embedding]]),
  });

  it("are read without the head of a further token, which is counted with them", () => {
    expect(ggufConfig(file({}), {})).toMatchObject({
      model_type: "qwen3_5_text",
      num_hidden_layers: 4,
      partial_rotary_factor: 0.25,
      linear_num_key_heads: 2,
      linear_num_value_heads: 6,
      linear_key_head_dim: 12,
      linear_value_head_dim: 8,
      linear_conv_kernel_dim: 4,
      full_attention_interval: 4,
    });
    expect(ggufConfig(file({ "qwen35.rope.dimension_count": 64 }), {})).toMatchObject({ partial_rotary_factor: 1 });
    const fields = new GgufFields(file({}));
    const isFurther = (layer: number) => isFurtherToken(`blk.${layer}.attn_q.weight`, fields, architectureOf(fields));
    expect([3, 4, 5].map(isFurther)).toEqual([false, true, false]);
  });

  it("are those that a file names, where it does", () => {
    const key = "qwen35.attention.recurrent_layers";
    const [linear, full] = ["linear_attention", "full_attention"];
    const told = (value: GgufValue) => ggufConfig(file({ [key]: value }), {}).layer_types;
    expect(told([false, true, true, false, false])).toEqual([full, linear, linear, full]);
    for (const wrong of [[true, true], [1, 1, 1, 1], 3])
      expect(() => told(wrong)).toThrow(expect.objectContaining({ param: key }));
  });

  it("have names of their own, and the norm before the feed-forward another", () => {
    const names = [
      "linear_attn.A_log",
      "linear_attn.dt_bias",
      "linear_attn.out_proj.weight",
      "post_attention_layernorm.weight",
    ];
    expect(names.map((name) => ggufTensorName(`model.layers.3.${name}`, { deltaRule: true }))).toEqual([
      "blk.3.ssm_a",
      "blk.3.ssm_dt.bias",
      "blk.3.ssm_out.weight",
      "blk.3.post_attention_norm.weight",
    ]);
    expect(ggufTensorName("model.layers.3.post_attention_layernorm.weight", {})).toBe("blk.3.ffn_norm.weight");
    const biased = ["self_attn.sinks", "post_attention_layernorm.weight", "mlp.gate.bias", "mlp.experts.up_proj.bias"];
    expect(biased.map((name) => ggufTensorName(`model.layers.3.${name}`, { experts: "biased" }))).toEqual([
      "blk.3.attn_sinks.weight",
      "blk.3.post_attention_norm.weight",
      "blk.3.ffn_gate_inp.bias",
      "blk.3.ffn_up_exps.bias",
    ]);
  });

  it("have experts beside one that every token has, and no feed-forward", () => {
    const { "qwen35.feed_forward_length": _, ...dense } = keys;
    const own = Object.entries(dense).map(([key, value]) => [key.replace("qwen35", "qwen35moe"), value] as const);
    const metadata = new Map<string, GgufValue>([
      ...own,
      ["general.architecture", "qwen35moe"],
      ["qwen35moe.expert_count", 8],
      ["qwen35moe.expert_used_count", 2],
      ["qwen35moe.expert_feed_forward_length", 48],
    ]);
    const config = () => ggufConfig({ ...file({}), metadata }, {});
    const width = "qwen35moe.expert_shared_feed_forward_length";
    expect(config).toThrow(expect.objectContaining({ name: "ModelFileError", param: width }));
    metadata.set(width, 32);
    expect(config()).toMatchObject({
      model_type: "qwen3_5_moe_text",
      num_experts: 8,
      moe_intermediate_size: 48,
      shared_expert_intermediate_size: 32,
    });
    const names = ["shared_expert_gate", "shared_expert.down_proj"].map((name) => `model.layers.3.mlp.${name}.weight`);
    const stored = ["blk.3.ffn_gate_inp_shexp.weight", "blk.3.ffn_down_shexp.weight"];
    expect(names.map((name) => ggufTensorName(name, {}))).toEqual(stored);
  });
});
