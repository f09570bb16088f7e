// Which modules of a model an adapter adapts.

import { type AdapterModule, PLAIN_MODULES } from "../adapterModules.js";
import type { ModelSpec } from "../runtime/runtime.js";

const SEPARATE = ["q_proj", "k_proj", "v_proj", "o_proj"] as const;
const FUSED = ["qkv_proj", "o_proj"] as const;
const DELTA = ["in_proj_qkv", "in_proj_z", "in_proj_b", "in_proj_a", "out_proj"] as const;

/** Those that a model has. */
export function modulesOf(spec: ModelSpec): AdapterModule[] {
  const found = new Set<AdapterModule>();
  for (const { attention, feedForward } of spec.layers) {
    for (const name of attention === null ? DELTA : attention.fusedQkv ? FUSED : SEPARATE) found.add(name);
    // Experts have projections of the same names, which no adapter adapts.
    if (feedForward === null) continue;
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
