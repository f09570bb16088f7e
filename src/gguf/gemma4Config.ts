// The metadata of a GGUF file of Gemma 4, as the config.json that its model came from.

import type { GgufFields } from "./ggufFields.js";

const NAME = "gemma4";
const FACTORS = "rope_freqs.weight";
/** What frequencies that turn by nothing are divided by: at least, and where they are written. */
const NOTHING = 1e20;
const WRITTEN_NOTHING = 1e30;

/** Of `layers` layers; `ropeFactors`: what frequencies of layers that see all are divided by. */
export function gemma4Config(
  fields: GgufFields,
  layers: number,
  ropeFactors: Float32Array | undefined,
): Record<string, unknown> {
  const number = (key: string) => fields.number(`${NAME}.${key}`);
  const required = (key: string) => fields.required(`${NAME}.${key}`, number(key));
  if (number("expert_count"))
    fields.fail(`${NAME}.expert_count`, "is not 0: experts beside a feed-forward are not known");
  const sliding = listed(fields, "attention.sliding_window_pattern", layers, "boolean");
  const kvHeads = listed(fields, "attention.head_count_kv", layers, "number");
  const shared = number("attention.shared_kv_layers") ?? 0;
  const widths = listed(fields, "feed_forward_length", layers, "number");
  const doubled = widths.some((width) => width !== widths[0]);
  if (doubled && widths.some((width, i) => width !== widths[0]! * (i < layers - shared ? 1 : 2))) {
    fields.fail(`${NAME}.feed_forward_length`, "must be one number, or twice that in layers without keys of their own");
  }
  const headDim = required("attention.key_length_swa");
  const globalHeadDim = required("attention.key_length");
  for (const [key, width] of [
    ["attention.value_length", globalHeadDim],
    ["attention.value_length_swa", headDim],
    ["rope.dimension_count", globalHeadDim],
    ["rope.dimension_count_swa", headDim],
  ] as const) {
    if ((number(key) ?? width) !== width) fields.fail(`${NAME}.${key}`, `must be ${width}, the length of keys`);
  }
  const firstFull = sliding.indexOf(false);
  const windowed = sliding.indexOf(true);
  const ofWindowed = kvHeads[windowed < 0 ? 0 : windowed]!;
  return {
    intermediate_size: widths[0],
    use_double_wide_mlp: doubled,
    num_key_value_heads: ofWindowed,
    head_dim: headDim,
    per_layer_config: Object.fromEntries(
      sliding.flatMap((isSliding, i) => {
        if (isSliding) return kvHeads[i] === ofWindowed ? [] : [[i, { num_key_value_heads: kvHeads[i] }]];
        return [[i, { head_dim: globalHeadDim, num_key_value_heads: kvHeads[i] }]];
      }),
    ),
    layer_types: sliding.map((isSliding) => (isSliding ? "sliding_attention" : "full_attention")),
    attention_k_eq_v: firstFull >= 0 && !fields.gguf.tensors.has(`blk.${firstFull}.attn_v.weight`),
    num_kv_shared_layers: shared,
    hidden_size_per_layer_input: number("embedding_length_per_layer_input") ?? 0,
    sliding_window: required("attention.sliding_window"),
    final_logit_softcapping: number("final_logit_softcapping") || null,
    rope_parameters: {
      sliding_attention: { rope_type: "default", rope_theta: number("rope.freq_base_swa") ?? 10_000 },
      full_attention: {
        rope_type: "proportional",
        rope_theta: number("rope.freq_base") ?? 10_000,
        partial_rotary_factor: turningShare(fields, globalHeadDim, ropeFactors),
      },
    },
  };
}

/** One of each layer, or one for all. */
function listed(fields: GgufFields, key: string, layers: number, type: "boolean"): boolean[];
function listed(fields: GgufFields, key: string, layers: number, type: "number"): number[];
function listed(fields: GgufFields, key: string, layers: number, type: "boolean" | "number"): unknown[] {
  const name = `${NAME}.${key}`;
  const told = fields.required(name, fields.get(name));
  const list: unknown[] = Array.isArray(told) ? told : Array<unknown>(layers).fill(told);
  if (list.length < layers || list.some((entry) => typeof entry !== type)) {
    fields.fail(name, `must be a ${type}, or one for each of ${layers} layers`);
  }
  return list.slice(0, layers);
}

/** Of a head that turns: frequencies are divided by 1 there, and behind by so much that nothing is left of them. */
function turningShare(fields: GgufFields, width: number, factors: Float32Array | undefined): number {
  if (!factors) return 1;
  const turning = factors.findIndex((factor) => factor >= NOTHING);
  const count = turning < 0 ? factors.length : turning;
  const known = factors.every((factor, i) => (i < count ? factor === 1 : factor >= NOTHING));
  if (factors.length !== width / 2 || !known) {
    fields.fail(FACTORS, `must be ${width / 2} numbers: ones, and then such that nothing turns by`);
  }
  const share = (2 * count) / width;
  return Math.trunc((share * width) / 2) === count ? share : (2 * count + 1) / width;
}

/** What frequencies of a head of this width are divided by where `share` of it turns. */
export const turningFactors = (width: number, share: number): Float32Array =>
  Float32Array.from({ length: width / 2 }, (_, i) => (i < Math.trunc((share * width) / 2) ? 1 : WRITTEN_NOTHING));
