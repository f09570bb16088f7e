// What Gemma 4 says in config.json by fields of its own.

import type { LayerSpec } from "../runtime/runtime.js";
import type { JsonFields } from "./jsonFields.js";
import { layerTypesOf } from "./layerTypes.js";
import { headDimOf } from "./ropeSpec.js";

const FULL = "full_attention";
const SLIDING = "sliding_attention";
/** Layers to one that sees all, where `layer_types` does not say. */
const PATTERN = 6;

/** With the types of all layers, the last of which always sees all; without what other families mean otherwise. */
export function withLayerTypes(fields: JsonFields): JsonFields {
  const count = fields.integer("num_hidden_layers", 1, 1024);
  const usual = Array.from({ length: count }, (_, i) => ((i + 1) % PATTERN === 0 ? FULL : SLIDING));
  const types = [...(layerTypesOf(fields, count, [FULL, SLIDING]) ?? usual).slice(0, -1), FULL];
  // "vision": tokens of images see each other.
  const bidirectional = "use_bidirectional_attention";
  const causal = fields.get(bidirectional) === "vision" ? null : fields.get(bidirectional);
  if (causal === "all") fields.fail(bidirectional, 'is "all"; only causal attention is known');
  const moe = "enable_moe_block";
  if (fields.boolean(moe, false)) fields.fail(moe, "is true: experts beside a feed-forward are not computed");
  return fields.withDefaults({ layer_types: types, [bidirectional]: causal }, true);
}

/** Which layers attend to the keys and values of which, and what heads they have. `fields`: with all layers' types. */
export function withSharedKeys(fields: JsonFields, layers: LayerSpec[]): LayerSpec[] {
  const types = fields.strings("layer_types");
  const shared = "num_kv_shared_layers";
  const own = layers.length - fields.integer(shared, 0, layers.length - 1, 0);
  const doubled = fields.boolean("use_double_wide_mlp", false);
  const fromKeys = fields.boolean("attention_k_eq_v", false);
  const heads = headsOf(fields, types, fromKeys);
  return layers.map((layer, i) => {
    const { attention, feedForward } = { attention: layer.attention!, feedForward: layer.feedForward! };
    const common = { ...attention, ...heads(i), vNorm: true };
    if (attention.heads % common.kvHeads !== 0) {
      fields.fail("num_global_key_value_heads", `must divide num_attention_heads (${attention.heads})`);
    }
    if (i < own) {
      const valuesFromKeys = fromKeys && types[i] === FULL;
      return { ...layer, attention: { ...common, ...(valuesFromKeys && { valuesFromKeys }) }, scaled: true };
    }
    const keysOf = types.lastIndexOf(types[i]!, own - 1);
    if (keysOf < 0) fields.fail(shared, `leaves no layer of type ${types[i]} whose keys layer ${i} could attend to`);
    const { kvHeads, headDim } = { ...attention, ...heads(keysOf) };
    if (kvHeads !== common.kvHeads || headDim !== common.headDim) {
      fields.fail("per_layer_config", `gives layer ${i} other heads than layer ${keysOf}, whose keys it attends to`);
    }
    const intermediate = feedForward.intermediate * (doubled ? 2 : 1);
    return { ...layer, attention: { ...common, keysOf }, feedForward: { ...feedForward, intermediate }, scaled: true };
  });
}

/** Of layers that see all, in the words of published folders, or layer by layer in those of newer versions of transformers. */
function headsOf(
  fields: JsonFields,
  types: string[],
  fromKeys: boolean,
): (layer: number) => { headDim?: number; kvHeads?: number } {
  const told = fields.object("per_layer_config");
  if (told === null) {
    const headDim = headDimOf(fields, "global_head_dim", 512);
    const few = "num_global_key_value_heads";
    const kvHeads = fromKeys && fields.get(few) !== null ? { kvHeads: fields.integer(few, 1, 1024) } : {};
    return (layer) => (types[layer] === FULL ? { headDim, ...kvHeads } : {});
  }
  const outside = told.names.find((name) => !/^\d+$/.test(name) || Number(name) >= types.length);
  if (outside !== undefined) told.fail(outside, `is not the number of a layer, 0 to ${types.length - 1}`);
  // Written with zeros before, as wide as the largest.
  const names = new Map(told.names.map((name) => [Number(name), name]));
  return (layer) => {
    const own = names.has(layer) ? told.object(names.get(layer)!) : null;
    if (own === null) return {};
    const unknown = own.names.find((name) => name !== "head_dim" && name !== "num_key_value_heads");
    if (unknown !== undefined) own.fail(unknown, "is not known of a layer of its own");
    return {
      ...(own.has("head_dim") && { headDim: headDimOf(own, "head_dim") }),
      ...(own.has("num_key_value_heads") && { kvHeads: own.integer("num_key_value_heads", 1, 1024) }),
    };
  };
}

/** Width of what each layer is given of a token beside the residual stream; 0: nothing. */
export function tokenInputs(fields: JsonFields, vocab: number): number {
  const width = fields.integer("hidden_size_per_layer_input", 0, 2 ** 13);
  const rows = "vocab_size_per_layer_input";
  if (width > 0 && fields.integer(rows, 1, 2 ** 22) !== vocab) fields.fail(rows, `must be vocab_size (${vocab})`);
  return width;
}
