// Rotary embeddings in config.json, in both spellings: `rope_theta` + `rope_scaling`, and `rope_parameters`.

import type { RopeSpec } from "../runtime/runtime.js";
import { JsonFields } from "./jsonFields.js";

const ANY_TYPE = ["rope_type", "type", "rope_theta", "partial_rotary_factor"];
/** What config.json can ask for by name. */
type RopeType = Exclude<RopeSpec["type"], "none">;
const FIELDS: Record<RopeType, string[]> = {
  default: [],
  linear: ["factor"],
  llama3: ["factor", "low_freq_factor", "high_freq_factor", "original_max_position_embeddings"],
  yarn: [
    "factor",
    "original_max_position_embeddings",
    "attention_factor",
    "beta_fast",
    "beta_slow",
    "mscale",
    "mscale_all_dim",
    "truncate",
  ],
};

const PLAIN: RopeSpec = {
  type: "default",
  theta: 10_000,
  rotaryShare: 1,
  factor: 1,
  lowFreqFactor: 1,
  highFreqFactor: 4,
  originalMaxPositions: 0,
  attentionFactor: 0,
  betaFast: 32,
  betaSlow: 1,
  mscale: 0,
  mscaleAllDim: 0,
  truncate: true,
};

/** Of a layer that does not see positions. */
export const NO_ROPE: RopeSpec = { ...PLAIN, type: "none" };

/** `plainTheta`: where config.json does not say. */
export function ropeSpec(config: JsonFields, maxPositions: number, plainTheta = PLAIN.theta): RopeSpec {
  const given = config.object("rope_parameters") ?? config.object("rope_scaling");
  const scaling = given ?? new JsonFields(config.file, {}, "rope_scaling");
  const type = scaling.string("rope_type", scaling.string("type", "default"));
  if (!Object.hasOwn(FIELDS, type)) {
    scaling.fail("rope_type", `is "${type}"; known are ${Object.keys(FIELDS).join(", ")}`);
  }
  const known = [...ANY_TYPE, ...FIELDS[type as RopeType]];
  for (const name of scaling.names) {
    // Plain rotary embeddings do not look at what a scaling would need.
    if (type !== "default" && !known.includes(name) && scaling.get(name) !== null) {
      scaling.fail(name, `is not known for the rope type "${type}"`);
    }
  }
  for (const fields of [config, scaling]) {
    if (fields.number("partial_rotary_factor", 0, 1, 1) !== 1) {
      fields.fail("partial_rotary_factor", "other than 1 is not supported");
    }
  }
  const theta = scaling.has("rope_theta") ? scaling : config;
  const rope: RopeSpec = {
    ...PLAIN,
    type: type as RopeType,
    theta: theta.number("rope_theta", 1, 1e15, plainTheta),
  };
  if (type === "default") return rope;
  if (type === "yarn") return yarn(rope, scaling, maxPositions);
  rope.factor = scaling.number("factor", 1e-3, 1e6);
  if (type === "llama3") {
    rope.lowFreqFactor = scaling.number("low_freq_factor", 1e-6, 1e6);
    rope.highFreqFactor = scaling.number("high_freq_factor", 1e-6, 1e6);
    rope.originalMaxPositions = scaling.integer("original_max_position_embeddings", 1, 1e9);
    if (rope.highFreqFactor <= rope.lowFreqFactor) {
      scaling.fail("high_freq_factor", `must be greater than low_freq_factor (${rope.lowFreqFactor})`);
    }
  }
  return rope;
}

/** YaRN (Peng et al. 2023), with the defaults of transformers. */
function yarn(rope: RopeSpec, scaling: JsonFields, maxPositions: number): RopeSpec {
  const originalMaxPositions = scaling.integer("original_max_position_embeddings", 1, 1e9, maxPositions);
  return {
    ...rope,
    originalMaxPositions,
    factor: scaling.number("factor", 1e-3, 1e6, maxPositions / originalMaxPositions),
    attentionFactor: scaling.number("attention_factor", 0, 1e3, 0),
    betaFast: scaling.number("beta_fast", 1e-6, 1e6, 32),
    betaSlow: scaling.number("beta_slow", 1e-6, 1e6, 1),
    mscale: scaling.number("mscale", 0, 1e3, 0),
    mscaleAllDim: scaling.number("mscale_all_dim", 0, 1e3, 0),
    truncate: scaling.boolean("truncate", true),
  };
}
