// config.json of a Hugging Face folder as the spec of a model: one table of families, and what each makes of its fields. What a folder asks
// for and cannot be said in a spec, or is not computed yet, is refused by name.

import type { LayerSpec, ModelSpec } from "../runtime/runtime.js";
import type { JsonFields } from "./jsonFields.js";
import { NO_ROPE, type RopeDefaults, ropeSpec } from "./ropeSpec.js";

/** What differs between families beside their sizes, as the Hugging Face classes of these names define it. */
interface Family {
  architecture: string;
  /** "always": has the biases whatever config.json says; "option": where `attention_bias` is true; "never" has none. */
  qkvBias: "always" | "option" | "never";
  oBias: "option" | "never";
  mlpBias: "option" | "never";
  qkNorm: boolean;
  /** Width of a head when config.json does not say; absent: hidden / heads. */
  headDim?: number;
  /** Where its layers may see a window only. */
  windows?: Windows;
  /** Rope where config.json does not say, and what it may ask for. */
  rope?: RopeDefaults;
  /** Where `tie_word_embeddings` is absent. */
  tiedHead?: boolean;
  /** Has `no_rope_layers`: layers that do not see positions. */
  layersWithoutRope?: boolean;
  /** Has Granite's four: `embedding_multiplier`, `attention_multiplier`, `residual_multiplier`, `logits_scaling`. */
  multipliers?: boolean;
}

interface Windows {
  /** Where `sliding_window` is absent; null: none. */
  size: number | null;
  /** Off unless `use_sliding_window` is true. */
  switched?: boolean;
  /** Which layers have one where `layer_types` does not say: all; those from `max_window_layers` on; those without rope. */
  layers: "all" | "last" | "without rope";
  /** Has `layer_types`. */
  layerTypes?: boolean;
}

const FAMILIES: Record<string, Family> = {
  llama: {
    architecture: "LlamaForCausalLM",
    qkvBias: "option",
    oBias: "option",
    mlpBias: "option",
    qkNorm: false,
  },
  mistral: {
    architecture: "MistralForCausalLM",
    qkvBias: "never",
    oBias: "never",
    mlpBias: "never",
    qkNorm: false,
    windows: { size: 4096, layers: "all" },
  },
  ministral: {
    architecture: "MinistralForCausalLM",
    qkvBias: "never",
    oBias: "never",
    mlpBias: "never",
    qkNorm: false,
    windows: { size: 4096, layers: "all", layerTypes: true },
  },
  qwen2: {
    architecture: "Qwen2ForCausalLM",
    qkvBias: "always",
    oBias: "never",
    mlpBias: "never",
    qkNorm: false,
    windows: { size: 4096, switched: true, layers: "last", layerTypes: true },
  },
  qwen3: {
    architecture: "Qwen3ForCausalLM",
    qkvBias: "option",
    oBias: "option",
    mlpBias: "never",
    qkNorm: true,
    headDim: 128,
    windows: { size: 4096, switched: true, layers: "last", layerTypes: true },
  },
  smollm3: {
    architecture: "SmolLM3ForCausalLM",
    qkvBias: "option",
    oBias: "option",
    mlpBias: "option",
    qkNorm: false,
    windows: { size: null, switched: true, layers: "without rope", layerTypes: true },
    rope: { theta: 2_000_000 },
    tiedHead: true,
    layersWithoutRope: true,
  },
  granite: {
    architecture: "GraniteForCausalLM",
    qkvBias: "option",
    oBias: "option",
    mlpBias: "option",
    qkNorm: false,
    multipliers: true,
  },
};

/** @throws ModelFileError naming the field that is missing, out of range, or asks for something that is not computed. */
export function modelSpec(fields: JsonFields): ModelSpec {
  const family = familyOf(fields);
  refuseUnsupported(fields, family);
  const hidden = fields.integer("hidden_size", 1, 2 ** 17);
  const maxPositions = fields.integer("max_position_embeddings", 1, 2 ** 24);
  const layer = layerSpec(fields, family, hidden, maxPositions);
  const alike = Array<LayerSpec>(fields.integer("num_hidden_layers", 1, 1024)).fill(layer);
  const layers = withWindows(
    fields,
    family,
    family.layersWithoutRope ? withoutRope(fields, alike) : alike,
    maxPositions,
  );
  return {
    hidden,
    vocab: fields.integer("vocab_size", 1, 2 ** 22),
    maxPositions,
    layers,
    rmsEps: fields.number("rms_norm_eps", 1e-12, 1, 1e-6),
    normAddsOne: false,
    tiedHead: fields.boolean("tie_word_embeddings", family.tiedHead ?? false),
    embeddingScale: multiplier(fields, family, "embedding_multiplier"),
    logitScale: 1 / multiplier(fields, family, "logits_scaling"),
    logitSoftCap: 0,
  };
}

function layerSpec(fields: JsonFields, family: Family, hidden: number, maxPositions: number): LayerSpec {
  const heads = fields.integer("num_attention_heads", 1, 1024);
  const kvHeads = fields.integer("num_key_value_heads", 1, 1024, heads);
  if (heads % kvHeads !== 0) fields.fail("num_key_value_heads", `must divide num_attention_heads (${heads})`);
  if (fields.get("head_dim") === null && family.headDim === undefined && hidden % heads !== 0) {
    fields.fail("hidden_size", `must be a multiple of num_attention_heads (${heads}) where head_dim is absent`);
  }
  const headDim = fields.integer("head_dim", 2, 512, family.headDim ?? hidden / heads);
  if (headDim % 2 !== 0) fields.fail("head_dim", "must be even");
  const attentionBias = fields.boolean("attention_bias", family.qkvBias === "always");
  const qkvBias = family.qkvBias !== "never" && attentionBias;
  return {
    attention: {
      heads,
      kvHeads,
      headDim,
      rope: ropeSpec(fields, { headDim, maxPositions, ...family.rope }),
      scale: family.multipliers ? multiplier(fields, family, "attention_multiplier") : 0,
      window: 0,
      softCap: 0,
      qkNorm: family.qkNorm,
      qBias: qkvBias,
      kBias: qkvBias,
      vBias: qkvBias,
      oBias: family.oBias === "option" && attentionBias,
    },
    feedForward: {
      intermediate: fields.integer("intermediate_size", 1, 2 ** 19),
      activation: "silu",
      bias: fields.boolean("mlp_bias", false),
    },
    norms: "before",
    residualScale: multiplier(fields, family, "residual_multiplier"),
  };
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
    roped[i] === 1 ? layer : { ...layer, attention: { ...layer.attention, rope: NO_ROPE } },
  );
}

function familyOf(fields: JsonFields): Family {
  const type = fields.string("model_type");
  const family = Object.hasOwn(FAMILIES, type) ? FAMILIES[type] : undefined;
  if (!family) fields.fail("model_type", `is "${type}"; known are ${Object.keys(FAMILIES).join(", ")}`);
  if (fields.get("architectures") !== null) {
    const architectures = fields.strings("architectures");
    // Models of embeddings are the same without their head.
    const known = [family.architecture, family.architecture.replace("ForCausalLM", "Model")];
    if (architectures.length !== 1 || !known.includes(architectures[0]!)) {
      fields.fail(
        "architectures",
        `is ${JSON.stringify(architectures)}; known for "${type}" is ${family.architecture}`,
      );
    }
  }
  return family;
}

function refuseUnsupported(fields: JsonFields, family: Family): void {
  if (fields.get("quantization_config") !== null) {
    fields.fail("quantization_config", "asks for quantised weights; use the folder with the original weights");
  }
  const act = fields.string("hidden_act", "silu");
  if (act !== "silu") fields.fail("hidden_act", `is "${act}"; only silu is known`);
  if (fields.integer("pretraining_tp", 0, 1024, 1) > 1) fields.fail("pretraining_tp", "above 1 is not supported");
  if (fields.get("auto_map") !== null)
    fields.fail("auto_map", "asks for code that comes with the folder; it is not run");
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
function withWindows(fields: JsonFields, { windows }: Family, layers: LayerSpec[], maxPositions: number): LayerSpec[] {
  const types = layerTypes(fields, layers.length, windows);
  if (!windows || (windows.switched && !fields.boolean("use_sliding_window", false))) return layers;
  const given = fields.has("sliding_window") ? fields.get("sliding_window") : windows.size;
  const size = given === null ? 0 : fields.integer("sliding_window", 1, 2 ** 30, given as number);
  if (size === 0 || size >= maxPositions) return layers;
  const first = windows.layers === "last" ? fields.integer("max_window_layers", 0, 2 ** 20, 28) : 0;
  return layers.map((layer, i) => {
    const withoutRope = layer.attention.rope.type === "none";
    const sliding = types?.[i] ?? (i >= first && (windows.layers !== "without rope" || withoutRope));
    return sliding ? { ...layer, attention: { ...layer.attention, window: size } } : layer;
  });
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
