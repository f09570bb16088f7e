// The modules that adapters adapt, by PEFT's names.

/** Of all models; the places of each within layers. */
export const ADAPTER_MODULES = {
  q_proj: ["self_attn"],
  k_proj: ["self_attn"],
  v_proj: ["self_attn"],
  qkv_proj: ["self_attn"],
  o_proj: ["self_attn"],
  gate_proj: ["mlp"],
  up_proj: ["mlp"],
  gate_up_proj: ["mlp"],
  down_proj: ["mlp"],
  in_proj_qkv: ["linear_attn"],
  in_proj_z: ["linear_attn"],
  in_proj_b: ["linear_attn"],
  in_proj_a: ["linear_attn"],
  out_proj: ["linear_attn", "conv", "self_attn"],
  in_proj: ["conv"],
  w1: ["feed_forward"],
  w3: ["feed_forward"],
  w2: ["feed_forward"],
} as const satisfies Record<string, readonly string[]>;

export type AdapterModule = keyof typeof ADAPTER_MODULES;

/** The seven that most models have; asked for together they stand for all modules of a model. */
export const PLAIN_MODULES = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"] as const;

export const adapterModuleNames = Object.keys(ADAPTER_MODULES) as AdapterModule[];
