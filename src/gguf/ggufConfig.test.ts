import { expect, it } from "vitest";
import { ModelFileError } from "../errors.js";
import { ggufConfig, ggufTensorName } from "./ggufConfig.js";
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
