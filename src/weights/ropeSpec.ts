// Rotary embeddings in config.json, in both spellings: `rope_theta` + `rope_scaling`, and `rope_parameters`.

import type { RopeSpec } from "../runtime/runtime.js";
import { JsonFields } from "./jsonFields.js";

const ANY_TYPE = ["rope_type", "type", "rope_theta", "partial_rotary_factor"];
/** Notes for other programs, and what only images need. */
const IGNORED = ["finetuned", "max_position_embeddings", "mrope_section", "mrope_interleaved"];
/** What config.json can ask for by name; "dynamic" is default within max_position_embeddings, beyond which no sequence goes. */
const FIELDS: Record<string, string[]> = {
  default: [],
  dynamic: ["factor", "original_max_position_embeddings"],
  linear: ["factor", "original_max_position_embeddings"],
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
  proportional: ["factor"],
  longrope: ["factor", "original_max_position_embeddings", "attention_factor", "short_factor", "long_factor"],
};
const QUERY_SCALE = "llama_4_scaling_beta";
/** Other names of the same. "mrope" tells images' rows and columns; of a text all three of its positions are one. */
const ALIASES: Record<string, string> = { su: "longrope", mrope: "default" };

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
  queryScale: 0,
  shortFactors: [],
  longFactors: [],
};

/** Of a layer that does not see positions. */
export const NO_ROPE: RopeSpec = { ...PLAIN, type: "none" };

export interface RopeDefaults {
  theta?: number;
  /** Of a head that turns, where config.json does not say; absent: the whole head, and no other is known. */
  share?: number;
  /** Of a folder that says nothing of rope at all. */
  parameters?: Record<string, unknown>;
  /** Rope types that the family means by other names. */
  aliases?: Record<string, string>;
  /** Has `llama_4_scaling_beta`, with YaRN. */
  queryScale?: boolean;
  /** Has the type "proportional". */
  proportional?: boolean;
}

interface RopeContext extends RopeDefaults {
  headDim: number;
  maxPositions: number;
  /** Of the layers that this is about; absent: what config.json says of all. */
  scaling?: JsonFields | null;
}

/** Width of a head, whose elements turn in pairs. */
export function headDimOf(fields: JsonFields, name: string, fallback?: number): number {
  const width = fields.integer(name, 2, 512, fallback);
  if (width % 2 !== 0) fields.fail(name, "must be even");
  return width;
}

export function ropeSpec(config: JsonFields, context: RopeContext): RopeSpec {
  const given = context.scaling === undefined ? toldOfAll(config) : context.scaling;
  const scaling = given ?? new JsonFields(config.file, context.parameters ?? {}, "rope_scaling");
  const named = scaling.string("rope_type", scaling.string("type", "default"));
  const aliases = { ...ALIASES, ...context.aliases };
  const type = Object.hasOwn(aliases, named) ? aliases[named]! : named;
  const types = Object.keys(FIELDS).filter((name) => name !== "proportional" || context.proportional);
  if (!types.includes(type)) {
    scaling.fail("rope_type", `is "${named}"; known are ${types.join(", ")}`);
  }
  const known = [...ANY_TYPE, ...IGNORED, ...FIELDS[type]!];
  if (context.queryScale && type === "yarn") known.push(QUERY_SCALE);
  for (const name of scaling.names) {
    // Plain rotary embeddings do not look at what a scaling would need.
    const counts = type !== "default" || name === QUERY_SCALE;
    if (counts && !known.includes(name) && scaling.get(name) !== null) {
      scaling.fail(name, `is not known for the rope type "${type}" of this family`);
    }
  }
  const theta = scaling.has("rope_theta") ? scaling : config;
  const rope: RopeSpec = {
    ...PLAIN,
    type: type === "dynamic" ? "default" : (type as RopeSpec["type"]),
    theta: theta.number("rope_theta", 1, 1e15, context.theta ?? PLAIN.theta),
    rotaryShare: rotaryShare(config, scaling, context, type),
  };
  if (type === "default") return rope;
  if (type === "yarn") return yarn(rope, config, scaling, context);
  if (type === "longrope") return longRope(rope, config, scaling, context);
  const factor = scaling.number("factor", 1e-3, 1e6, type === "proportional" ? 1 : undefined);
  if (type === "dynamic") return rope;
  rope.factor = factor;
  if (type === "llama3") {
    rope.lowFreqFactor = scaling.number("low_freq_factor", 1e-6, 1e6);
    rope.highFreqFactor = scaling.number("high_freq_factor", 1e-6, 1e6);
    rope.originalMaxPositions = originalMaxPositions(config, scaling, context);
    if (rope.highFreqFactor <= rope.lowFreqFactor) {
      scaling.fail("high_freq_factor", `must be greater than low_freq_factor (${rope.lowFreqFactor})`);
    }
  }
  return rope;
}

/** `rope_scaling` counts before `rope_parameters`, beside which it is added to ask for a longer context. */
function toldOfAll(config: JsonFields): JsonFields | null {
  const scaling = config.object("rope_scaling");
  return scaling?.names.length ? scaling : config.object("rope_parameters");
}

/** Told of the whole model, it counts before what `scaling` tells. */
function originalMaxPositions(config: JsonFields, scaling: JsonFields, context: RopeContext): number {
  const name = "original_max_position_embeddings";
  const isWhole = context.scaling === undefined && config.get(name) !== null;
  return (isWhole ? config : scaling).integer(name, 1, 1e9, context.maxPositions);
}

function rotaryShare(config: JsonFields, scaling: JsonFields, { share, headDim }: RopeContext, type: string): number {
  const name = "partial_rotary_factor";
  const fields = scaling.get(name) !== null ? scaling : config;
  const found = fields.number(name, 0, 1, share ?? 1);
  if (share === undefined && found !== 1) fields.fail(name, "other than 1 is not supported for this family");
  // As much of a head's width as it is: the rest turns by nothing.
  if (type === "proportional" && found > 0) return found;
  const width = Math.trunc(headDim * found);
  if (width < 2 || width % 2 !== 0)
    fields.fail(name, `leaves ${width} of a head's ${headDim} elements; it must be even`);
  return found;
}

/**
 * LongRoPE (Ding et al. 2024). Which factors count is fixed when a model is loaded, by its context: long ones where that is beyond
 * the original. (transformers decides by every text's length, so that a text changes all its keys when it grows past it.)
 */
function longRope(rope: RopeSpec, config: JsonFields, scaling: JsonFields, context: RopeContext): RopeSpec {
  const original = originalMaxPositions(config, scaling, context);
  const pairs = Math.trunc(context.headDim * rope.rotaryShare) / 2;
  const factors = (name: string) => {
    const list = scaling.get(name);
    if (!Array.isArray(list) || list.length !== pairs || !list.every((x) => typeof x === "number" && x > 1e-6)) {
      scaling.fail(name, `must be a list of ${pairs} numbers above 0, one for every two elements that turn`);
    }
    return list as number[];
  };
  const factor = scaling.number("factor", 1e-3, 1e6, context.maxPositions / original);
  const derived = factor <= 1 ? 1 : Math.sqrt(1 + Math.log(factor) / Math.log(original));
  return {
    ...rope,
    originalMaxPositions: original,
    attentionFactor: scaling.number("attention_factor", 1e-3, 1e3, derived),
    shortFactors: factors("short_factor"),
    longFactors: factors("long_factor"),
  };
}

/** YaRN (Peng et al. 2023), with the defaults of transformers. */
function yarn(rope: RopeSpec, config: JsonFields, scaling: JsonFields, context: RopeContext): RopeSpec {
  const original = originalMaxPositions(config, scaling, context);
  const truncate = scaling.boolean("truncate", true);
  // transformers looks for it beside the types of layers.
  if (!truncate && context.scaling !== undefined)
    scaling.fail("truncate", "is false, which is not known of a type of layers");
  return {
    ...rope,
    originalMaxPositions: original,
    factor: scaling.number("factor", 1e-3, 1e6, context.maxPositions / original),
    attentionFactor: scaling.number("attention_factor", 0, 1e3, 0),
    betaFast: scaling.number("beta_fast", 1e-6, 1e6, 32),
    betaSlow: scaling.number("beta_slow", 1e-6, 1e6, 1),
    mscale: scaling.number("mscale", 0, 1e3, 0),
    mscaleAllDim: scaling.number("mscale_all_dim", 0, 1e3, 0),
    truncate,
    queryScale: scaling.number(QUERY_SCALE, 0, 1e3, 0),
  };
}
