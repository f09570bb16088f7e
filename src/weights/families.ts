// The table of families: what differs between them, as transformers' classes define it. A family that is like another is one entry.

import type { RopeDefaults } from "./ropeSpec.js";

/** What differs between families beside their sizes, as the Hugging Face classes of these names define it. */
export interface Family {
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
  /** Its activation, and the field that names it; absent: silu in `hidden_act`. */
  activation?: { field: string; is: "gelu_tanh" };
  /** Norms after attention and feed-forward too. */
  normsAfter?: boolean;
  /** Norms multiply by 1 + weight. */
  normAddsOne?: boolean;
  /** Embeddings are multiplied with the root of their width, in the compute type. */
  scaledEmbedding?: boolean;
  /** q.k is divided by the root of `query_pre_attn_scalar`. */
  queryScalar?: boolean;
  /** What `attn_logit_softcapping` and `final_logit_softcapping` are where absent (null: none); no field: never. */
  attentionCap?: number | null;
  logitCap?: number | null;
  /** q, k and v are one tensor, gate and up another. */
  fused?: boolean;
  /** Of layers with a window, another rope: `rope_parameters.sliding_attention`, or plain at `rope_local_base_freq`. */
  localRope?: { theta: number };
  /** Fields that its folders may leave out. */
  defaults?: Record<string, unknown>;
  /** `auto_map` names code that transformers has itself. */
  codeIsKnown?: boolean;
  /** Every head of q is followed by a gate of what it puts out. */
  outputGate?: boolean;
  /** Has layers with a gated delta rule: those that `layer_types` says, or all but every `full_attention_interval`-th. */
  deltaRule?: boolean;
  /** Its layers that do not attend, as `layer_types` or `full_attn_idxs` says, have a gated short convolution. */
  shortConvolution?: boolean;
  /** Calls its tensors, and some fields of config.json, otherwise than most. */
  names?: "lfm2";
  /**
   * Has experts in the place of feed-forwards. "some": all layers but `mlp_only_layers` that are a multiple of `decoder_sparse_step`,
   * their shares as `norm_topk_prob` says; "shared": all layers, with shares that sum to one and a further expert that every token has;
   * "all": all layers, of `intermediate_size` each, with shares that sum to one; "biased": likewise, with biases and clamped
   * activations; "logistic": all but the first `num_dense_layers`, scored by logistics.
   */
  experts?: "some" | "shared" | "all" | "biased" | "logistic";
  /** Heads have sinks. */
  sinks?: boolean;
  /** Has what Gemma 4 brought, see gemma4.ts: layers that attend to the keys of others, with heads of their own, and token inputs. */
  sharedKeys?: boolean;
  /** Has Granite's four: `embedding_multiplier`, `attention_multiplier`, `residual_multiplier`, `logits_scaling`. */
  multipliers?: boolean;
}

export interface Windows {
  /** Where `sliding_window` is absent; null: none. */
  size: number | null;
  /** Off unless `use_sliding_window` is true. */
  switched?: boolean;
  /**
   * Which layers have one where `layer_types` does not say: all; those from `max_window_layers` on; those without rope; all but
   * every n-th, `sliding_window_pattern` or this number.
   */
  layers: "all" | "last" | "without rope" | number;
  /** Has `layer_types`. */
  layerTypes?: boolean;
}

/** What transformers calls activations, the usual name first. */
export const ACTIVATION_NAMES = {
  silu: ["silu", "swish"],
  gelu_tanh: ["gelu_pytorch_tanh", "gelu_new", "gelu_python_tanh", "gelu_accurate", "gelu_fast"],
} as const;

/** What Gemma 2, 3 and 4 have in common, or all but the last. */
const GEMMA = {
  qkvBias: "option",
  oBias: "option",
  mlpBias: "never",
  activation: { field: "hidden_activation", is: "gelu_tanh" },
  normsAfter: true,
  normAddsOne: true,
  scaledEmbedding: true,
  queryScalar: true,
  tiedHead: true,
} as const;

/** What Qwen3.5 with experts and without have in common. */
const QWEN3_5 = {
  qkvBias: "option",
  oBias: "option",
  mlpBias: "never",
  qkNorm: true,
  normAddsOne: true,
  outputGate: true,
  deltaRule: true,
  rope: { share: 0.25 },
  defaults: {
    vocab_size: 248_320,
    num_attention_heads: 16,
    head_dim: 256,
    max_position_embeddings: 32_768,
    linear_conv_kernel_dim: 4,
    linear_key_head_dim: 128,
    linear_value_head_dim: 128,
    linear_num_key_heads: 16,
    linear_num_value_heads: 32,
  },
} as const;

/** What Granite 3 with experts and without have in common. */
const GRANITE = { qkvBias: "option", oBias: "option", qkNorm: false, multipliers: true } as const;

/** What LFM2 with experts and without have in common. */
const LFM2 = {
  qkvBias: "never",
  oBias: "never",
  mlpBias: "never",
  qkNorm: true,
  shortConvolution: true,
  names: "lfm2",
  tiedHead: true,
  rope: { theta: 1_000_000 },
  defaults: {
    vocab_size: 65_536,
    num_hidden_layers: 32,
    num_attention_heads: 32,
    num_key_value_heads: 8,
    max_position_embeddings: 128_000,
    norm_eps: 1e-5,
  },
} as const;

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
    defaults: { num_key_value_heads: 8 },
  },
  ministral: {
    architecture: "MinistralForCausalLM",
    qkvBias: "never",
    oBias: "never",
    mlpBias: "never",
    qkNorm: false,
    windows: { size: 4096, layers: "all", layerTypes: true },
    defaults: { num_key_value_heads: 8 },
  },
  ministral3: {
    architecture: "Ministral3ForCausalLM",
    qkvBias: "never",
    oBias: "never",
    mlpBias: "never",
    qkNorm: false,
    windows: { size: null, layers: "all" },
    defaults: {
      vocab_size: 131_072,
      hidden_size: 4096,
      intermediate_size: 14_336,
      num_hidden_layers: 34,
      num_attention_heads: 32,
      num_key_value_heads: 8,
      head_dim: 128,
      max_position_embeddings: 262_144,
      rms_norm_eps: 1e-5,
    },
    rope: {
      queryScale: true,
      parameters: {
        type: "yarn",
        rope_theta: 1e6,
        factor: 16,
        original_max_position_embeddings: 16_384,
        mscale: 1,
        mscale_all_dim: 1,
        llama_4_scaling_beta: 0.1,
      },
    },
  },
  qwen2: {
    architecture: "Qwen2ForCausalLM",
    qkvBias: "always",
    oBias: "never",
    mlpBias: "never",
    qkNorm: false,
    windows: { size: 4096, switched: true, layers: "last", layerTypes: true },
    defaults: { num_key_value_heads: 32 },
  },
  qwen3: {
    architecture: "Qwen3ForCausalLM",
    qkvBias: "option",
    oBias: "option",
    mlpBias: "never",
    qkNorm: true,
    headDim: 128,
    windows: { size: 4096, switched: true, layers: "last", layerTypes: true },
    defaults: { num_key_value_heads: 32 },
  },
  qwen3_moe: {
    architecture: "Qwen3MoeForCausalLM",
    qkvBias: "option",
    oBias: "option",
    mlpBias: "never",
    qkNorm: true,
    windows: { size: 4096, switched: true, layers: "all" },
    experts: "some",
    defaults: {
      vocab_size: 151_936,
      hidden_size: 2048,
      intermediate_size: 6144,
      num_hidden_layers: 24,
      num_attention_heads: 32,
      num_key_value_heads: 4,
      max_position_embeddings: 32_768,
      moe_intermediate_size: 768,
      num_experts: 128,
      num_experts_per_tok: 8,
    },
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
    defaults: { num_key_value_heads: 4 },
  },
  granite: {
    ...GRANITE,
    architecture: "GraniteForCausalLM",
    mlpBias: "option",
  },
  granitemoe: {
    ...GRANITE,
    architecture: "GraniteMoeForCausalLM",
    mlpBias: "never",
    experts: "all",
    defaults: {
      vocab_size: 32_000,
      hidden_size: 4096,
      intermediate_size: 11_008,
      num_hidden_layers: 32,
      num_attention_heads: 32,
      max_position_embeddings: 2048,
      num_local_experts: 8,
      num_experts_per_tok: 2,
    },
  },
  phi3: {
    architecture: "Phi3ForCausalLM",
    qkvBias: "never",
    oBias: "never",
    mlpBias: "never",
    qkNorm: false,
    windows: { size: null, layers: "all" },
    // Older folders have these names for what became longrope.
    rope: { share: 1, aliases: { su: "longrope", yarn: "longrope" } },
    fused: true,
    codeIsKnown: true,
    defaults: { rms_norm_eps: 1e-5, original_max_position_embeddings: 4096 },
  },
  gemma2: {
    ...GEMMA,
    architecture: "Gemma2ForCausalLM",
    qkNorm: false,
    windows: { size: 4096, layers: 2, layerTypes: true },
    attentionCap: 50,
    logitCap: 30,
    defaults: { num_key_value_heads: 4, head_dim: 256, query_pre_attn_scalar: 256, max_position_embeddings: 8192 },
  },
  gemma3_text: {
    ...GEMMA,
    architecture: "Gemma3ForCausalLM",
    qkNorm: true,
    windows: { size: 4096, layers: 6, layerTypes: true },
    rope: { theta: 1_000_000 },
    localRope: { theta: 10_000 },
    logitCap: null,
    defaults: {
      vocab_size: 262_208,
      hidden_size: 2304,
      intermediate_size: 9216,
      num_hidden_layers: 26,
      num_attention_heads: 8,
      num_key_value_heads: 4,
      head_dim: 256,
      max_position_embeddings: 131_072,
      query_pre_attn_scalar: 256,
    },
  },
  gemma4_text: {
    ...GEMMA,
    architecture: "Gemma4ForCausalLM",
    qkNorm: true,
    normAddsOne: false,
    queryScalar: false,
    sharedKeys: true,
    windows: { size: 512, layers: 6, layerTypes: true },
    rope: {
      theta: 1_000_000,
      share: 1,
      proportional: true,
      parameters: { rope_type: "proportional", partial_rotary_factor: 0.25, rope_theta: 1_000_000 },
    },
    localRope: { theta: 10_000 },
    logitCap: null,
    defaults: {
      vocab_size: 262_144,
      hidden_size: 2304,
      intermediate_size: 9216,
      num_hidden_layers: 30,
      num_attention_heads: 8,
      num_key_value_heads: 4,
      head_dim: 256,
      max_position_embeddings: 131_072,
      hidden_size_per_layer_input: 256,
      vocab_size_per_layer_input: 262_144,
    },
  },
  qwen3_5_text: {
    ...QWEN3_5,
    architecture: "Qwen3_5ForCausalLM",
    defaults: {
      ...QWEN3_5.defaults,
      hidden_size: 4096,
      intermediate_size: 12_288,
      num_hidden_layers: 32,
      num_key_value_heads: 4,
    },
  },
  qwen3_5_moe_text: {
    ...QWEN3_5,
    architecture: "Qwen3_5MoeForCausalLM",
    experts: "shared",
    defaults: {
      ...QWEN3_5.defaults,
      hidden_size: 2048,
      num_hidden_layers: 40,
      num_key_value_heads: 2,
      moe_intermediate_size: 512,
      shared_expert_intermediate_size: 512,
      num_experts: 256,
      num_experts_per_tok: 8,
    },
  },
  gpt_oss: {
    architecture: "GptOssForCausalLM",
    qkvBias: "option",
    oBias: "option",
    mlpBias: "never",
    qkNorm: false,
    sinks: true,
    experts: "biased",
    windows: { size: 128, layers: 2, layerTypes: true },
    rope: {
      theta: 150_000,
      parameters: { rope_type: "yarn", factor: 32, original_max_position_embeddings: 4096, truncate: false },
    },
    defaults: {
      vocab_size: 201_088,
      hidden_size: 2880,
      intermediate_size: 2880,
      num_hidden_layers: 36,
      num_attention_heads: 64,
      num_key_value_heads: 8,
      head_dim: 64,
      max_position_embeddings: 131_072,
      rms_norm_eps: 1e-5,
      attention_bias: true,
      num_local_experts: 128,
      num_experts_per_tok: 4,
    },
  },
  lfm2: {
    ...LFM2,
    architecture: "Lfm2ForCausalLM",
    defaults: { ...LFM2.defaults, hidden_size: 2560, intermediate_size: 12_288 },
  },
  lfm2_moe: {
    ...LFM2,
    architecture: "Lfm2MoeForCausalLM",
    experts: "logistic",
    defaults: {
      ...LFM2.defaults,
      hidden_size: 2048,
      intermediate_size: 7168,
      moe_intermediate_size: 1792,
      num_experts: 32,
      num_experts_per_tok: 4,
    },
  },
};

/** Folders of models that see, whose text is a family's, described in `text_config`. */
export interface Tower {
  architecture: string;
  /** The first where `text_config` does not say which. */
  texts: readonly string[];
  /** Where `tie_word_embeddings` is absent. */
  tiedHead: boolean;
  /** What of its text's fields the whole does not look at, as it counts then. */
  ignored?: Record<string, unknown>;
  /** Has no class for its text alone (AutoModelForCausalLM gives the whole or none): adapters go by the names in the whole. */
  isWhole?: boolean;
}

const TOWERS: Record<string, Tower> = {
  gemma3: {
    architecture: "Gemma3ForConditionalGeneration",
    texts: ["gemma3_text"],
    tiedHead: true,
    ignored: { final_logit_softcapping: null },
    isWhole: true,
  },
  gemma4: { architecture: "Gemma4ForConditionalGeneration", texts: ["gemma4_text"], tiedHead: true, isWhole: true },
  qwen3_5: { architecture: "Qwen3_5ForConditionalGeneration", texts: ["qwen3_5_text"], tiedHead: false },
  qwen3_5_moe: {
    architecture: "Qwen3_5MoeForConditionalGeneration",
    texts: ["qwen3_5_moe_text"],
    tiedHead: false,
  },
  mistral3: {
    architecture: "Mistral3ForConditionalGeneration",
    texts: ["mistral", "ministral3"],
    tiedHead: true,
    isWhole: true,
  },
};

/** By what `model_type` says. */
export function familyNamed(type: string): Family | undefined {
  return Object.hasOwn(FAMILIES, type) ? FAMILIES[type] : undefined;
}

export function towerNamed(type: string): Tower | undefined {
  return Object.hasOwn(TOWERS, type) ? TOWERS[type] : undefined;
}

export const MODEL_TYPES: readonly string[] = [...Object.keys(FAMILIES), ...Object.keys(TOWERS)];
