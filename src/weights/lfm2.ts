// What LFM2, with experts or without, says in config.json by fields of its own.

import type { LayerSpec } from "../runtime/runtime.js";
import type { Family } from "./families.js";
import type { JsonFields } from "./jsonFields.js";
import { layerTypesOf } from "./layerTypes.js";

const MAX_WIDTH = 2 ** 19;

/** With the fields that other families have, of the same meaning. */
export function withUsualFields(fields: JsonFields, { experts }: Family): JsonFields {
  const tied = fields.boolean("tie_embedding", fields.boolean("tie_word_embeddings", true));
  const usual = {
    ...(!experts && { intermediate_size: intermediate(fields) }),
    rms_norm_eps: fields.number("norm_eps", 1e-12, 1),
    tie_word_embeddings: tied,
  };
  return fields.withDefaults(usual, true);
}

/** The width that `block_ff_dim` or `intermediate_size` stands for: of a plain feed-forward, where it is to be adjusted to a gated one. */
function intermediate(fields: JsonFields): number {
  const name = fields.get("block_ff_dim") === null ? "intermediate_size" : "block_ff_dim";
  const told = fields.integer(name, 1, MAX_WIDTH);
  if (!fields.boolean("block_auto_adjust_ff_dim", true)) return told;
  const adjusted = Math.trunc((2 * told) / 3);
  const multiplier = "block_ffn_dim_multiplier";
  const step = fields.integer("block_multiple_of", 1, MAX_WIDTH, 256);
  const width =
    fields.has(multiplier) && fields.get(multiplier) === null
      ? adjusted
      : Math.ceil(Math.trunc(fields.number(multiplier, 1e-3, 1e3, 1) * adjusted) / step) * step;
  if (width < 1 || width > MAX_WIDTH)
    fields.fail(name, `makes feed-forwards ${width} wide; known are 1 to ${MAX_WIDTH}`);
  return width;
}

/** Which layers attend says `layer_types`, or `full_attn_idxs`; where neither does, all do. */
export function withShortConvolutions(fields: JsonFields, layers: LayerSpec[], hidden: number): LayerSpec[] {
  const shortConvolution = {
    width: hidden,
    kernel: fields.integer("conv_L_cache", 1, 16, 3),
    bias: fields.boolean("conv_bias", false),
  };
  const attends = attendingLayers(fields, layers.length);
  return layers.map((layer, i) => (attends(i) ? layer : { shortConvolution, ...layer, attention: null }));
}

function attendingLayers(fields: JsonFields, count: number): (layer: number) => boolean {
  const types = layerTypesOf(fields, count, ["full_attention", "conv"]);
  if (types !== null) return (layer) => types[layer] === "full_attention";
  const told = fields.get("full_attn_idxs");
  if (told === null) return () => true;
  if (!Array.isArray(told) || !told.every((layer) => Number.isInteger(layer) && layer >= 0 && layer < count)) {
    fields.fail("full_attn_idxs", `must be a list of layers' numbers, from 0 to ${count - 1}`);
  }
  return (layer) => told.includes(layer);
}
