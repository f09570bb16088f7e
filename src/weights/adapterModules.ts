// The modules of a model that adapters adapt, by PEFT's names.

import type { ModelSpec } from "../runtime/runtime.js";

/** Of all models; the place of each within a layer. */
export const ADAPTER_MODULES = {
  q_proj: "self_attn",
  k_proj: "self_attn",
  v_proj: "self_attn",
  qkv_proj: "self_attn",
  o_proj: "self_attn",
  gate_proj: "mlp",
  up_proj: "mlp",
  gate_up_proj: "mlp",
  down_proj: "mlp",
  in_proj_qkv: "linear_attn",
  in_proj_z: "linear_attn",
  in_proj_b: "linear_attn",
  in_proj_a: "linear_attn",
  out_proj: "linear_attn",
} as const;

export type AdapterModule = keyof typeof ADAPTER_MODULES;

/** The seven that most models have; asked for together they stand for all modules of a model. */
export const PLAIN_MODULES = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"] as const;

const SEPARATE = ["q_proj", "k_proj", "v_proj", "o_proj"] as const;
const FUSED = ["qkv_proj", "o_proj"] as const;
const DELTA = ["in_proj_qkv", "in_proj_z", "in_proj_b", "in_proj_a", "out_proj"] as const;

/** Those that a model has. */
function modulesOf(spec: ModelSpec): AdapterModule[] {
  const found = new Set<AdapterModule>();
  for (const { attention, feedForward } of spec.layers) {
    for (const name of attention === null ? DELTA : attention.fusedQkv ? FUSED : SEPARATE) found.add(name);
    for (const name of feedForward.fusedGateUp ? (["gate_up_proj"] as const) : (["gate_proj", "up_proj"] as const))
      found.add(name);
    found.add("down_proj");
  }
  return [...found];
}

/**
 * What an adapter of a model targets where these are asked for: a part of a module that the model has as a whole stands for
 * that, and all plain modules together for all of the model's.
 */
export function targetsOf(spec: ModelSpec, wanted: readonly string[]): string[] {
  const own = modulesOf(spec);
  if (PLAIN_MODULES.every((name) => wanted.includes(name))) return own;
  const whole = (name: string) => {
    if ((own as string[]).includes(name)) return name;
    if (/^[qkv]_proj$/.test(name) && own.includes("qkv_proj")) return "qkv_proj";
    if (/^(gate|up)_proj$/.test(name) && own.includes("gate_up_proj")) return "gate_up_proj";
    return name;
  };
  return [...new Set(wanted.map(whole))];
}
