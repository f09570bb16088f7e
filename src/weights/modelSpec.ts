// config.json of a Hugging Face folder as the spec of a model. What a folder asks for and cannot be said in a spec, or is not computed
// yet, is refused by name.

import type { ExpertsSpec, LayerSpec, ModelSpec } from "../runtime/runtime.js";
import { ACTIVATION_NAMES, type Family, familyNamed, MODEL_TYPES, towerNamed, type Windows } from "./families.js";
import { tokenInputs, withLayerTypes, withSharedKeys } from "./gemma4.js";
import type { JsonFields } from "./jsonFields.js";
import { layerTypesOf } from "./layerTypes.js";
import { withShortConvolutions, withUsualFields } from "./lfm2.js";
import { headDimOf, NO_ROPE, ropeSpec } from "./ropeSpec.js";

/** Of a layer, and of a token. */
const MAX_EXPERTS = 1024;
const MAX_CHOSEN = 64;
/** Of all layers together: each is three tensors, which are listed before the first is looked for. */
const MAX_EXPERTS_TOGETHER = 2 ** 16;
/** Of an expert. */
const MAX_WIDTH = 2 ** 17;
/** Of the activation, as it is computed. */
const CLAMPED_SWIGLU = { swiglu_alpha: 1.702, swiglu_limit: 7 };

/** @throws ModelFileError naming the field that is missing, out of range, or asks for something that is not computed. */
export function modelSpec(folderFields: JsonFields): ModelSpec {
  const { fields: told, family } = textOf(folderFields);
  const fields =
    family.names === "lfm2" ? withUsualFields(told, family) : family.sharedKeys ? withLayerTypes(told) : told;
  refuseUnsupported(fields, family);
  const hidden = fields.integer("hidden_size", 1, 2 ** 17);
  const maxPositions = fields.integer("max_position_embeddings", 1, 2 ** 24);
  const layer = layerSpec(fields, family, hidden, maxPositions);
  const alike = Array<LayerSpec>(fields.integer("num_hidden_layers", 1, 1024)).fill(layer);
  const roped = family.layersWithoutRope ? withoutRope(fields, alike) : alike;
  const convolving = family.shortConvolution ? withShortConvolutions(fields, roped, hidden) : roped;
  const attending = family.deltaRule ? withDeltaRule(fields, convolving) : convolving;
  const mixed = family.sharedKeys ? withSharedKeys(fields, attending) : attending;
  const layers = family.experts ? withExperts(fields, family, mixed) : mixed;
  const vocab = fields.integer("vocab_size", 1, 2 ** 22);
  const inputs = family.sharedKeys ? tokenInputs(fields, vocab) : 0;
  return {
    hidden,
    vocab,
    maxPositions,
    layers: withWindows(fields, family, layers, maxPositions),
    rmsEps: fields.number("rms_norm_eps", 1e-12, 1, 1e-6),
    normAddsOne: family.normAddsOne ?? false,
    tiedHead: fields.boolean("tie_word_embeddings", family.tiedHead ?? false),
    embeddingScale: family.scaledEmbedding ? Math.sqrt(hidden) : multiplier(fields, family, "embedding_multiplier"),
    embeddingRounds: family.scaledEmbedding ?? false,
    logitScale: 1 / multiplier(fields, family, "logits_scaling"),
    logitSoftCap: softCap(fields, "final_logit_softcapping", family.logitCap),
    ...(inputs > 0 && { tokenInputs: inputs }),
  };
}

/** Of a folder that is more than text, the part that is. */
function textOf(fields: JsonFields): { fields: JsonFields; family: Family } {
  const type = fields.string("model_type");
  const tower = towerNamed(type);
  if (!tower) {
    const family = familyOf(fields, type);
    return { fields: fields.withDefaults(family.defaults ?? {}), family };
  }
  checkArchitecture(fields, tower.architecture);
  const text: JsonFields = fields.object("text_config") ?? fields.fail("text_config", "is missing");
  const named = text.string("model_type", tower.texts[0]);
  const family = familyOf(text.withDefaults({ model_type: named }), tower.texts.includes(named) ? named : "");
  // Older versions of transformers asked the text, newer ones ask the whole; a head of its own counts before either.
  const name = "tie_word_embeddings";
  const tied = fields.boolean(name, tower.tiedHead) || text.boolean(name, false);
  const whole = { ...tower.ignored, [name]: tied };
  return { fields: text.withDefaults(family.defaults ?? {}).withDefaults(whole, true), family };
}

/** Of a layer with attention. */
function layerSpec(fields: JsonFields, family: Family, hidden: number, maxPositions: number): LayerSpec {
  const heads = fields.integer("num_attention_heads", 1, 1024);
  const kvHeads = fields.integer("num_key_value_heads", 1, 1024, heads);
  if (heads % kvHeads !== 0) fields.fail("num_key_value_heads", `must divide num_attention_heads (${heads})`);
  if (fields.get("head_dim") === null && family.headDim === undefined && hidden % heads !== 0) {
    fields.fail("hidden_size", `must be a multiple of num_attention_heads (${heads}) where head_dim is absent`);
  }
  const headDim = headDimOf(fields, "head_dim", family.headDim ?? hidden / heads);
  const attentionBias = fields.boolean("attention_bias", family.qkvBias === "always");
  const qkvBias = family.qkvBias !== "never" && attentionBias;
  return {
    attention: {
      heads,
      kvHeads,
      headDim,
      rope: ropeSpec(fields, {
        headDim,
        maxPositions,
        scaling: scalingOf(fields, family, "full_attention"),
        ...family.rope,
      }),
      scale: attentionScale(fields, family),
      window: 0,
      softCap: softCap(fields, "attn_logit_softcapping", family.attentionCap),
      qkNorm: family.qkNorm,
      qBias: qkvBias,
      kBias: qkvBias,
      vBias: qkvBias,
      oBias: family.oBias === "option" && attentionBias,
      fusedQkv: family.fused ?? false,
      outputGate: family.outputGate ?? false,
      ...(family.sinks && { sinks: true }),
    },
    feedForward:
      family.experts && ["shared", "all", "biased"].includes(family.experts)
        ? null
        : {
            intermediate: fields.integer("intermediate_size", 1, 2 ** 19),
            activation: family.activation?.is ?? "silu",
            bias: fields.boolean("mlp_bias", false),
            fusedGateUp: family.fused ?? false,
          },
    norms: family.normsAfter ? "before_and_after" : "before",
    residualScale: multiplier(fields, family, "residual_multiplier"),
    ...(family.names && { names: family.names }),
  };
}

/** Which layers have a delta rule says `layer_types`; where that is absent, all but every n-th have one. */
function withDeltaRule(fields: JsonFields, layers: LayerSpec[]): LayerSpec[] {
  const interval = fields.integer("full_attention_interval", 1, 1024, 4);
  const types =
    layerTypesOf(fields, layers.length, ["full_attention", "linear_attention"]) ??
    layers.map((_, i) => ((i + 1) % interval === 0 ? "full_attention" : "linear_attention"));
  const size = (field: string, max: number) => fields.integer(`linear_${field}`, 1, max);
  const deltaRule = {
    keyHeads: size("num_key_heads", 1024),
    valueHeads: size("num_value_heads", 1024),
    keyDim: size("key_head_dim", 512),
    valueDim: size("value_head_dim", 512),
    kernel: size("conv_kernel_dim", 16),
  };
  if (deltaRule.valueHeads % deltaRule.keyHeads !== 0) {
    fields.fail("linear_num_value_heads", `must be a multiple of linear_num_key_heads (${deltaRule.keyHeads})`);
  }
  return layers.map((layer, i) => (types[i] === "full_attention" ? layer : { ...layer, attention: null, deltaRule }));
}

/** Which layers have experts, as transformers' classes find it. */
function withExperts(fields: JsonFields, family: Family, layers: LayerSpec[]): LayerSpec[] {
  if (family.experts === "shared") {
    const sharedIntermediate = fields.integer("shared_expert_intermediate_size", 1, MAX_WIDTH);
    const told = expertsSpec(fields, family, "num_experts", layers.length);
    const experts = { ...told, normalized: true, sharedIntermediate };
    return layers.map((layer) => ({ ...layer, experts }));
  }
  if (family.experts === "all") {
    const told = expertsSpec(fields, family, "num_local_experts", layers.length, "intermediate_size");
    return layers.map((layer) => ({ ...layer, experts: { ...told, normalized: true } }));
  }
  if (family.experts === "biased") {
    for (const [name, known] of Object.entries(CLAMPED_SWIGLU)) {
      if (fields.number(name, 0, 1e6, known) !== known) fields.fail(name, `must be ${known}: no other is computed`);
    }
    const told = expertsSpec(fields, family, "num_local_experts", layers.length, "intermediate_size");
    const experts = { ...told, activation: "clamped_swiglu" as const, normalized: true, bias: true };
    return layers.map((layer) => ({ ...layer, experts }));
  }
  if (family.experts === "logistic") {
    const experts: ExpertsSpec = {
      ...expertsSpec(fields, family, "num_experts", layers.length),
      normalized: fields.boolean("norm_topk_prob", true),
      scores: "logistic",
      scoreBias: fields.boolean("use_expert_bias", true),
      scale: fields.number("routed_scaling_factor", 1e-3, 1e3, 1),
    };
    const plain = fields.integer("num_dense_layers", 0, 1024, 2);
    return layers.map((layer, i) => (i < plain ? layer : { experts, ...layer, feedForward: null }));
  }
  // What the newer class calls it counts before the older name.
  const counted = fields.get("num_local_experts") === null ? "num_experts" : "num_local_experts";
  const told = expertsSpec(fields, family, counted, layers.length);
  const experts = { ...told, normalized: fields.boolean("norm_topk_prob", false) };
  const step = fields.integer("decoder_sparse_step", 1, 1024, 1);
  const plain = fields.get("mlp_only_layers") ?? [];
  if (!Array.isArray(plain) || !plain.every((layer) => Number.isInteger(layer) && layer >= 0)) {
    fields.fail("mlp_only_layers", "must be a list of layers' numbers, from 0 on");
  }
  return layers.map((layer, i) =>
    plain.includes(i) || (i + 1) % step !== 0 ? layer : { ...layer, feedForward: null, experts },
  );
}

/** `counted`: the field that says how many there are. */
function expertsSpec(
  fields: JsonFields,
  family: Family,
  counted: string,
  layers: number,
  width = "moe_intermediate_size",
): Omit<ExpertsSpec, "normalized"> {
  const count = fields.integer(counted, 1, MAX_EXPERTS);
  if (count * layers > MAX_EXPERTS_TOGETHER) {
    fields.fail(counted, `is ${count} in each of ${layers} layers, more than ${MAX_EXPERTS_TOGETHER} together`);
  }
  const perToken = fields.integer("num_experts_per_tok", 1, MAX_CHOSEN);
  if (perToken > count) fields.fail("num_experts_per_tok", `is ${perToken}, more than ${counted} (${count})`);
  const intermediate = fields.integer(width, 1, MAX_WIDTH);
  return { count, perToken, intermediate, activation: family.activation?.is ?? "silu" };
}

/** 0: 1 / sqrt(head_dim). */
function attentionScale(fields: JsonFields, family: Family): number {
  if (family.sharedKeys) return 1;
  if (family.multipliers) return multiplier(fields, family, "attention_multiplier");
  return family.queryScalar ? 1 / Math.sqrt(fields.number("query_pre_attn_scalar", 1e-3, 1e6)) : 0;
}

/** 0: none. */
function softCap(fields: JsonFields, name: string, fallback: number | null | undefined): number {
  if (fallback === undefined) return 0;
  const cap = fields.has(name) ? fields.get(name) : fallback;
  return cap === null ? 0 : fields.number(name, 1e-3, 1e6, cap as number);
}

/** What is said of the rope of layers of a type; null: nothing; absent: it is said of all. */
function scalingOf(fields: JsonFields, { localRope }: Family, type: string): JsonFields | null | undefined {
  if (!localRope) return undefined;
  const parameters = fields.object("rope_parameters");
  const told = parameters?.object(type) ?? null;
  const scaling = type === "full_attention" ? fields.object("rope_scaling") : null;
  return told && scaling ? scaling.withDefaults(parameters!.get(type) as Record<string, unknown>) : (told ?? scaling);
}

function multiplier(fields: JsonFields, family: Family, name: string): number {
  return family.multipliers ? fields.number(name, 1e-3, 1e3, 1) : 1;
}

/** `no_rope_layers` has a 1 for every layer with rope and a 0 for every other; where absent, every n-th layer has none. */
function withoutRope(fields: JsonFields, layers: LayerSpec[]): LayerSpec[] {
  const name = "no_rope_layers";
  const interval = fields.integer("no_rope_layer_interval", 1, 1024, 4);
  const roped = fields.get(name) ?? layers.map((_, i) => ((i + 1) % interval === 0 ? 0 : 1));
  if (!Array.isArray(roped) || roped.length !== layers.length || roped.some((value) => value !== 0 && value !== 1)) {
    fields.fail(name, `must be a list of ${layers.length} numbers (num_hidden_layers), each 0 or 1`);
  }
  return layers.map((layer, i) =>
    roped[i] === 1 ? layer : { ...layer, attention: { ...layer.attention!, rope: NO_ROPE } },
  );
}

/** `type`: what the fields must be of. */
function familyOf(fields: JsonFields, type: string): Family {
  const family = familyNamed(type);
  if (!family || fields.string("model_type") !== type) {
    fields.fail("model_type", `is "${fields.string("model_type")}"; known are ${MODEL_TYPES.join(", ")}`);
  }
  checkArchitecture(fields, family.architecture);
  return family;
}

function checkArchitecture(fields: JsonFields, known: string): void {
  if (fields.get("architectures") === null) return;
  const architectures = fields.strings("architectures");
  const type = fields.string("model_type");
  // Models of embeddings are the same without their head.
  const headless = known.replace("ForCausalLM", type.endsWith("_text") ? "TextModel" : "Model");
  if (architectures.length === 1 && [known, headless].includes(architectures[0]!)) return;
  fields.fail("architectures", `is ${JSON.stringify(architectures)}; known for "${type}" is ${known}`);
}

function refuseUnsupported(fields: JsonFields, family: Family): void {
  const { field, is } = family.activation ?? { field: "hidden_act", is: "silu" };
  const names: readonly string[] = ACTIVATION_NAMES[is];
  const act = fields.string(field, names[0]);
  if (!names.includes(act)) fields.fail(field, `is "${act}"; only ${names[0]} is known`);
  const bidirectional = "use_bidirectional_attention";
  if (fields.boolean(bidirectional, false)) fields.fail(bidirectional, "is true; only causal attention is known");
  if (fields.get("auto_map") !== null && !family.codeIsKnown) {
    fields.fail("auto_map", "asks for code that comes with the folder; it is not run");
  }
  const attentionBias = fields.get("attention_bias");
  if (attentionBias === true && family.qkvBias === "never") {
    fields.fail("attention_bias", `is true, which ${family.architecture} does not have`);
  }
  if (attentionBias === false && family.qkvBias === "always") {
    fields.fail("attention_bias", `is false, but ${family.architecture} always has biases on q, k and v`);
  }
  if (fields.boolean("mlp_bias", false) && family.mlpBias === "never") {
    fields.fail("mlp_bias", `is true, which ${family.architecture} does not have`);
  }
}

/** A window that no sequence can outgrow changes nothing, and is none. */
function withWindows(fields: JsonFields, family: Family, layers: LayerSpec[], maxPositions: number): LayerSpec[] {
  const { windows, localRope } = family;
  if (family.deltaRule || family.shortConvolution) return layers;
  const types = layerTypes(fields, layers.length, windows);
  if (!windows || (windows.switched && !fields.boolean("use_sliding_window", false))) return layers;
  const given = fields.has("sliding_window") ? fields.get("sliding_window") : windows.size;
  if (given === null) return layers;
  const size = fields.integer("sliding_window", 1, 2 ** 30, given as number);
  const window = size < maxPositions ? size : 0;
  return layers.map((layer, i) => {
    if (!(types?.[i] ?? hasWindow(fields, windows, layer, i))) return layer;
    const attention = layer.attention!;
    if (!localRope) return { ...layer, attention: { ...attention, window } };
    const scaling = scalingOf(fields, family, "sliding_attention");
    const theta = fields.number("rope_local_base_freq", 1, 1e15, localRope.theta);
    const plain = fields.withDefaults({ rope_theta: null }, true);
    const rope = ropeSpec(plain, { headDim: attention.headDim, maxPositions, scaling, theta });
    return { ...layer, attention: { ...attention, window, rope } };
  });
}

/** Where `layer_types` does not say. */
function hasWindow(fields: JsonFields, { layers }: Windows, layer: LayerSpec, index: number): boolean {
  if (layers === "all") return true;
  if (layers === "last") return index >= fields.integer("max_window_layers", 0, 2 ** 20, 28);
  if (layers === "without rope") return layer.attention!.rope.type === "none";
  return (index + 1) % fields.integer("sliding_window_pattern", 1, 1024, layers) !== 0;
}

/** Whether each layer has a window, as `layer_types` says; null: it does not. */
function layerTypes(fields: JsonFields, count: number, windows: Windows | undefined): boolean[] | null {
  const name = "layer_types";
  if (fields.get(name) === null) return null;
  const types = fields.strings(name);
  if (types.length !== count) fields.fail(name, `must have ${count} entries (num_hidden_layers)`);
  const known = windows?.layerTypes ? ["full_attention", "sliding_attention"] : ["full_attention"];
  const other = types.find((type) => !known.includes(type));
  // Families without it give all layers what sliding_window says.
  if (windows && !windows.layerTypes && types.every((type) => type === types[0] && /^(full|sliding)_/.test(type))) {
    return null;
  }
  if (other !== undefined) fields.fail(name, `contains "${other}"; known for this family are ${known.join(", ")}`);
  if (windows?.switched && types.includes("sliding_attention") && !fields.boolean("use_sliding_window", false)) {
    fields.fail(name, 'contains "sliding_attention", but use_sliding_window is not true');
  }
  return types.map((type) => type === "sliding_attention");
}
