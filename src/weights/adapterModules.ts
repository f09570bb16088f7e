// Which modules of a model an adapter adapts.

import { type AdapterModule, PLAIN_MODULES } from "../adapterModules.js";
import type { AttentionSpec, ModelSpec } from "../runtime/runtime.js";

const SEPARATE = ["q_proj", "k_proj", "v_proj", "o_proj"] as const;
const FUSED = ["qkv_proj", "o_proj"] as const;
const DELTA = ["in_proj_qkv", "in_proj_z", "in_proj_b", "in_proj_a", "out_proj"] as const;
const CONVOLUTION = ["in_proj", "out_proj"] as const;
/** What LFM2 has in the place of those of others. */
const LFM2_NAMES: Partial<Record<string, AdapterModule>> = {
  o_proj: "out_proj",
  gate_proj: "w1",
  up_proj: "w3",
  down_proj: "w2",
};

/** Those that a model has. */
export function modulesOf(spec: ModelSpec): AdapterModule[] {
  const found = new Set<AdapterModule>();
  for (const { attention, deltaRule, feedForward, names } of spec.layers) {
    const add = (name: AdapterModule) => found.add((names === "lfm2" && LFM2_NAMES[name]) || name);
    const recurrent = deltaRule ? DELTA : CONVOLUTION;
    for (const name of attention === null ? recurrent : attention.fusedQkv ? FUSED : separate(attention)) add(name);
    // Experts have projections of the same names, which no adapter adapts.
    if (feedForward === null) continue;
    for (const name of feedForward.fusedGateUp ? (["gate_up_proj"] as const) : (["gate_proj", "up_proj"] as const))
      add(name);
    add("down_proj");
  }
  return [...found];
}

/** Without those of keys and values that are others'. */
function separate({ keysOf, valuesFromKeys }: AttentionSpec): readonly AdapterModule[] {
  if (keysOf !== undefined) return ["q_proj", "o_proj"];
  return valuesFromKeys ? SEPARATE.filter((name) => name !== "v_proj") : SEPARATE;
}

/**
 * What an adapter of a model targets where these are asked for: a part of a module that the model has as a whole stands for
 * that, a module that it has by another name for that one, and all plain modules together for all of the model's.
 */
export function targetsOf(spec: ModelSpec, wanted: readonly string[]): string[] {
  const own = modulesOf(spec);
  if (PLAIN_MODULES.every((name) => wanted.includes(name))) return own;
  const whole = (name: string) => {
    if ((own as string[]).includes(name)) return name;
    if (/^[qkv]_proj$/.test(name) && own.includes("qkv_proj")) return "qkv_proj";
    if (/^(gate|up)_proj$/.test(name) && own.includes("gate_up_proj")) return "gate_up_proj";
    if (spec.layers.some(({ names }) => names === "lfm2")) return LFM2_NAMES[name] ?? name;
    return name;
  };
  return [...new Set(wanted.map(whole))];
}
