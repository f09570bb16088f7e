// The metadata of a GGUF file as the config.json and generation_config.json that its model came from.

import { ModelFileError } from "../errors.js";
import { gemma4Config } from "./gemma4Config.js";
import { GgufFields } from "./ggufFields.js";
import type { GgufFile } from "./ggufFile.js";

interface Architecture {
  modelType: string;
  /** Rows of q and k stand in the order of rotary pairs, and not of their halves. */
  interleaved: boolean;
  /**
   * All its layers have experts, whose shares are divided by their sum; "shared": and one that every token has; "all": as wide as
   * feed-forwards are said to be; "biased": as GPT-OSS's, and every other layer has a window; "logistic": all but the first ones,
   * scored by logistics.
   */
  experts?: boolean | "shared" | "all" | "biased" | "logistic";
  /** Has Granite's four. */
  multipliers?: boolean;
  /** Only a part of a head turns. */
  turnsPart?: boolean;
  /** Its layers have a delta rule, but every n-th. */
  deltaRule?: boolean;
  /** Layers without key-value heads have a gated short convolution. */
  shortConvolution?: boolean;
  /** As {@link gemma4Config} has it, with norms after attention and feed-forward too. */
  sharedKeys?: boolean;
  /** Has norms after attention and feed-forward too, and windows, caps and scales as Gemma has them. */
  gemma?: Gemma;
}

interface Gemma {
  /** Where the file does not say: every n-th layer sees all, others a window. */
  pattern: number;
  window: number | null;
  attentionCap?: number;
  logitCap: number | null;
  /** With as many layers q.k is scaled by the width of all heads together, which no key tells. */
  widest: number;
}

const ARCHITECTURES: Readonly<Record<string, Architecture>> = {
  llama: { modelType: "llama", interleaved: true },
  qwen2: { modelType: "qwen2", interleaved: false },
  qwen3: { modelType: "qwen3", interleaved: false },
  qwen3moe: { modelType: "qwen3_moe", interleaved: false, experts: true },
  qwen35: { modelType: "qwen3_5_text", interleaved: false, turnsPart: true, deltaRule: true },
  qwen35moe: {
    modelType: "qwen3_5_moe_text",
    interleaved: false,
    turnsPart: true,
    deltaRule: true,
    experts: "shared",
  },
  "gpt-oss": { modelType: "gpt_oss", interleaved: false, experts: "biased" },
  lfm2: { modelType: "lfm2", interleaved: false, shortConvolution: true },
  lfm2moe: { modelType: "lfm2_moe", interleaved: false, shortConvolution: true, experts: "logistic" },
  smollm3: { modelType: "smollm3", interleaved: true },
  granite: { modelType: "granite", interleaved: true, multipliers: true },
  granitemoe: { modelType: "granitemoe", interleaved: true, multipliers: true, experts: "all" },
  phi3: { modelType: "phi3", interleaved: false, turnsPart: true },
  gemma2: {
    modelType: "gemma2",
    interleaved: false,
    gemma: { pattern: 2, window: 4096, attentionCap: 50, logitCap: 30, widest: 46 },
  },
  gemma3: {
    modelType: "gemma3_text",
    interleaved: false,
    gemma: { pattern: 6, window: null, logitCap: null, widest: 62 },
  },
  gemma4: { modelType: "gemma4_text", interleaved: false, sharedKeys: true },
};

/** Types of config.json that are written as another's. */
const WRITTEN_AS: Readonly<Record<string, string>> = {
  mistral: "llama",
  gemma3: "gemma3_text",
  gemma4: "gemma4_text",
  qwen3_5: "qwen3_5_text",
  qwen3_5_moe: "qwen3_5_moe_text",
};

export type NamedArchitecture = Architecture & { name: string };

/** What a model of config.json's `model_type` is called; null: there is no name for it. */
export function ggufArchitecture(modelType: string): NamedArchitecture | null {
  const type = Object.hasOwn(WRITTEN_AS, modelType) ? WRITTEN_AS[modelType] : modelType;
  const found = Object.entries(ARCHITECTURES).find(([, known]) => known.modelType === type);
  return found ? { ...found[1], name: found[0] } : null;
}

export function architectureOf(fields: GgufFields): NamedArchitecture {
  const key = "general.architecture";
  const name = fields.required(key, fields.string(key));
  const known = Object.hasOwn(ARCHITECTURES, name) ? ARCHITECTURES[name] : undefined;
  if (!known) fields.fail(key, `is "${name}"; known are ${Object.keys(ARCHITECTURES).join(", ")}`);
  return { ...known, name };
}

/** Tensors that rotary embeddings are told by: Llama 3's factors, and those of LongRoPE. */
export const ROPE_FACTORS = {
  llama3: "rope_freqs.weight",
  short: "rope_factors_short.weight",
  long: "rope_factors_long.weight",
} as const;
export type RopeFactors = Partial<Record<keyof typeof ROPE_FACTORS, Float32Array>>;

/** As config.json would be; `ropeFactors` are the numbers of those tensors that there are. */
export function ggufConfig(gguf: GgufFile, ropeFactors: RopeFactors): Record<string, unknown> {
  const fields = new GgufFields(gguf);
  const architecture = architectureOf(fields);
  const { modelType, name } = architecture;
  const number = (key: string) => fields.number(`${name}.${key}`);
  const required = (key: string) => fields.required(`${name}.${key}`, number(key));
  const heads = required("attention.head_count");
  const hidden = required("embedding_length");
  const embedding = gguf.tensors.get("token_embd.weight");
  if (!embedding)
    throw new ModelFileError(gguf.file, "lacks the tensor token_embd.weight", { param: "token_embd.weight" });
  if (architecture.sharedKeys) {
    const vocab = embedding.shape[0];
    const layers = layersOf(fields, name);
    return {
      model_type: modelType,
      vocab_size: vocab,
      vocab_size_per_layer_input: vocab,
      hidden_size: hidden,
      num_hidden_layers: layers,
      num_attention_heads: heads,
      max_position_embeddings: required("context_length"),
      rms_norm_eps: required("attention.layer_norm_rms_epsilon"),
      tie_word_embeddings: !gguf.tensors.has("output.weight"),
      ...gemma4Config(fields, layers, ropeFactors.llama3),
    };
  }
  const headDim = number("attention.key_length") ?? hidden / heads;
  const valueLength = number("attention.value_length");
  if (valueLength !== undefined && valueLength !== headDim) {
    fields.fail(`${name}.attention.value_length`, "differs from that of keys, which is not known");
  }
  const turned = number("rope.dimension_count") ?? headDim;
  if (turned !== headDim && !architecture.turnsPart) {
    fields.fail(`${name}.rope.dimension_count`, `is ${turned} of ${headDim}: not known`);
  }
  const scaling = ropeScaling(fields, name, turned, ropeFactors);
  const hasBias = gguf.tensors.has("blk.0.attn_q.bias");
  return {
    model_type: modelType,
    vocab_size: embedding.shape[0],
    hidden_size: hidden,
    // Beside an expert that every token has there is no feed-forward that it would be of.
    ...(architecture.experts === "shared"
      ? { shared_expert_intermediate_size: required("expert_shared_feed_forward_length") }
      : { intermediate_size: required("feed_forward_length") }),
    num_hidden_layers: layersOf(fields, name),
    num_attention_heads: heads,
    ...(architecture.shortConvolution
      ? shortConvolution(fields, name)
      : { num_key_value_heads: number("attention.head_count_kv") ?? heads }),
    head_dim: headDim,
    max_position_embeddings: required("context_length"),
    rms_norm_eps: required("attention.layer_norm_rms_epsilon"),
    rope_theta: number("rope.freq_base") ?? 10_000,
    rope_scaling: scaling,
    original_max_position_embeddings: scaling?.original_max_position_embeddings ?? null,
    ...(architecture.turnsPart ? { partial_rotary_factor: turned / headDim } : {}),
    tie_word_embeddings: !gguf.tensors.has("output.weight"),
    ...(architecture.experts === "biased"
      ? { attention_bias: hasBias }
      : hasBias && modelType !== "qwen2"
        ? { attention_bias: true }
        : {}),
    ...(architecture.multipliers
      ? {
          embedding_multiplier: number("embedding_scale") ?? 1,
          attention_multiplier: number("attention.scale") ?? 1 / Math.sqrt(headDim),
          residual_multiplier: number("residual_scale") ?? 1,
          logits_scaling: number("logit_scale") ?? 1,
        }
      : {}),
    ...(architecture.experts
      ? {
          num_experts: required("expert_count"),
          num_experts_per_tok: required("expert_used_count"),
          ...(architecture.experts === "biased"
            ? {
                num_local_experts: required("expert_count"),
                intermediate_size: required("expert_feed_forward_length"),
                sliding_window: required("attention.sliding_window"),
              }
            : architecture.experts === "all"
              ? { num_local_experts: required("expert_count") }
              : { moe_intermediate_size: required("expert_feed_forward_length"), norm_topk_prob: true }),
          ...(architecture.experts === "logistic" ? logisticExperts(fields, name) : {}),
        }
      : {}),
    ...(architecture.deltaRule ? deltaRule(fields, name) : {}),
    ...(architecture.gemma
      ? gemma(fields, name, architecture.gemma, { heads, hidden, headDim })
      : architecture.experts === "biased"
        ? {}
        : window(fields, name)),
  };
}

/** How llama.cpp numbers what makes shares of scores. */
export const LOGISTIC = 2;

function logisticExperts(fields: GgufFields, name: string): Record<string, unknown> {
  const key = `${name}.expert_gating_func`;
  const how = fields.required(key, fields.number(key));
  if (how !== LOGISTIC) fields.fail(key, `is ${how}; only ${LOGISTIC}, the logistic function, is known`);
  return { num_dense_layers: fields.number(`${name}.leading_dense_block_count`) ?? 0, use_expert_bias: true };
}

/** As of config.json: what is listed layer by layer is listed before that is read. */
const MAX_LAYERS = 1024;

/** The head of a further token stands behind the layers, and is counted with them. */
function layersOf(fields: GgufFields, name: string): number {
  const key = `${name}.block_count`;
  const layers = fields.required(key, fields.number(key)) - (fields.number(`${name}.nextn_predict_layers`) ?? 0);
  if (!Number.isInteger(layers) || layers < 1 || layers > MAX_LAYERS) {
    fields.fail(key, `asks for ${layers} layers; 1 to ${MAX_LAYERS} are known`);
  }
  return layers;
}

/** Whether a tensor makes keys or values of a layer that attends to those of another. */
export function isUnusedKey(tensor: string, layers: readonly { attention: { keysOf?: number } | null }[]): boolean {
  const [, layer] = /^blk\.(\d+)\.attn_(?:k|v|k_norm)\.weight$/.exec(tensor) ?? [];
  return layer !== undefined && layers[Number(layer)]?.attention?.keysOf !== undefined;
}

/** Whether a tensor is of such a head, which is not loaded. */
export function isFurtherToken(tensor: string, fields: GgufFields, { name }: NamedArchitecture): boolean {
  const layer = Number(/^blk\.(\d+)\./.exec(tensor)?.[1] ?? -1);
  return layer >= layersOf(fields, name) && layer < fields.number(`${name}.block_count`)!;
}

function deltaRule(fields: GgufFields, name: string): Record<string, unknown> {
  const required = (key: string) => fields.required(`${name}.${key}`, fields.number(`${name}.${key}`));
  const layers = layersOf(fields, name);
  const key = `${name}.attention.recurrent_layers`;
  const told = fields.get(key);
  const isList = Array.isArray(told) && told.length >= layers && told.every((entry) => typeof entry === "boolean");
  if (told !== undefined && !isList) fields.fail(key, `must be true or false for each of ${layers} layers`);
  const valueHeads = required("ssm.time_step_rank");
  return {
    linear_num_key_heads: required("ssm.group_count"),
    linear_num_value_heads: valueHeads,
    linear_key_head_dim: required("ssm.state_size"),
    linear_value_head_dim: required("ssm.inner_size") / valueHeads,
    linear_conv_kernel_dim: required("ssm.conv_kernel"),
    full_attention_interval: fields.number(`${name}.full_attention_interval`) ?? 4,
    ...(isList ? { layer_types: told.slice(0, layers).map((is) => (is ? "linear_attention" : "full_attention")) } : {}),
  };
}

function shortConvolution(fields: GgufFields, name: string): Record<string, unknown> {
  const required = (key: string) => fields.required(`${name}.${key}`, fields.number(`${name}.${key}`));
  const layers = layersOf(fields, name);
  const key = `${name}.attention.head_count_kv`;
  const told = fields.required(key, fields.get(key));
  const heads: unknown[] = Array.isArray(told) ? told : Array<unknown>(layers).fill(told);
  const attending = heads.find((count) => count !== 0);
  const isList = heads.length >= layers && heads.every((count) => count === 0 || count === attending);
  if (!isList) fields.fail(key, `must be 0 or one other number for each of ${layers} layers`);
  return {
    num_key_value_heads: attending,
    layer_types: heads.slice(0, layers).map((count) => (count === 0 ? "conv" : "full_attention")),
    conv_L_cache: required("shortconv.l_cache"),
    block_auto_adjust_ff_dim: false,
    norm_eps: required("attention.layer_norm_rms_epsilon"),
  };
}

function gemma(
  fields: GgufFields,
  name: string,
  { pattern, window, attentionCap, logitCap, widest }: Gemma,
  { heads, hidden, headDim }: { heads: number; hidden: number; headDim: number },
): Record<string, unknown> {
  const number = (key: string) => fields.number(`${name}.${key}`);
  const layers = layersOf(fields, name);
  const key = `${name}.attention.sliding_window_pattern`;
  const told = fields.get(key);
  const isWindowed = (layer: number): boolean => {
    if (Array.isArray(told)) return told[layer] === true;
    const every = fields.number(key) ?? pattern;
    return every === 0 || layer % every < every - 1;
  };
  if (Array.isArray(told) && (told.length < layers || told.some((entry) => typeof entry !== "boolean"))) {
    fields.fail(key, `must be a number, or true or false for each of ${layers} layers`);
  }
  return {
    query_pre_attn_scalar: layers === widest ? hidden / heads : headDim,
    ...(attentionCap === undefined ? {} : { attn_logit_softcapping: number("attn_logit_softcapping") ?? attentionCap }),
    final_logit_softcapping: number("final_logit_softcapping") ?? logitCap,
    sliding_window: (number("attention.sliding_window") ?? window) || null,
    layer_types: Array.from({ length: layers }, (_, i) => (isWindowed(i) ? "sliding_attention" : "full_attention")),
    rope_local_base_freq: number("rope.freq_base_swa") ?? 10_000,
  };
}

function window(fields: GgufFields, name: string): Record<string, unknown> {
  const size = fields.number(`${name}.attention.sliding_window`);
  return size ? { sliding_window: size, use_sliding_window: true } : {};
}

/** Llama 3.1 and its kin: what their config.json has, beside the factor. */
const LLAMA3 = { low_freq_factor: 1, high_freq_factor: 4, original_max_position_embeddings: 8192 };
const FACTOR_TOLERANCE = 1e-3;

function ropeScaling(fields: GgufFields, name: string, width: number, { llama3, short, long }: RopeFactors) {
  if (llama3) {
    const factor = Math.round(Math.max(...llama3));
    const base = fields.number(`${name}.rope.freq_base`) ?? 10_000;
    const expected = llama3Factors(factor, base, width);
    if (
      llama3.length !== expected.length ||
      expected.some((value, i) => Math.abs(value - llama3[i]!) > FACTOR_TOLERANCE * value)
    ) {
      fields.fail(ROPE_FACTORS.llama3, "holds factors that are not those of Llama 3");
    }
    return { rope_type: "llama3", factor, ...LLAMA3 };
  }
  const number = (key: string) => fields.number(`${name}.rope.scaling.${key}`);
  if (short && long) {
    const attention = number("attn_factor");
    return {
      rope_type: "longrope",
      short_factor: [...short],
      long_factor: [...long],
      original_max_position_embeddings: fields.required(
        `${name}.rope.scaling.original_context_length`,
        number("original_context_length"),
      ),
      ...(attention === undefined ? {} : { attention_factor: attention }),
    };
  }
  const type = fields.string(`${name}.rope.scaling.type`) ?? "none";
  if (type === "none") return null;
  const factor = number("factor");
  if (type === "linear") return { rope_type: "linear", factor };
  if (type !== "yarn") fields.fail(`${name}.rope.scaling.type`, `is "${type}"; none, linear and yarn are known`);
  for (const [key, neutral] of Object.entries(YARN_NEUTRAL)) {
    const value = number(key) ?? neutral;
    if (value !== neutral) fields.fail(`${name}.rope.scaling.${key}`, `is ${value}; only ${neutral} is known`);
  }
  return {
    rope_type: "yarn",
    // No key tells of it: frequencies between two whole ones are not rounded to them.
    truncate: name === "gpt-oss" ? false : undefined,
    factor,
    original_max_position_embeddings: number("original_context_length") || undefined,
    beta_fast: number("yarn_beta_fast"),
    beta_slow: number("yarn_beta_slow"),
  };
}

/** Keys of YaRN that are not computed, where they change nothing. */
const YARN_NEUTRAL = { attn_factor: 1, yarn_attn_factor: 1, yarn_ext_factor: 1, yarn_log_multiplier: 0 };

/** What frequencies are divided by. */
export function llama3Factors(factor: number, base: number, width: number): number[] {
  const { low_freq_factor: low, high_freq_factor: high, original_max_position_embeddings: original } = LLAMA3;
  return Array.from({ length: width / 2 }, (_, i) => {
    const wavelength = 2 * Math.PI * base ** ((2 * i) / width);
    if (wavelength < original / high) return 1;
    if (wavelength > original / low) return factor;
    const smooth = (original / wavelength - low) / (high - low);
    return 1 / ((1 - smooth) / factor + smooth);
  });
}

/** As generation_config.json would be: the tokens that end a reply. */
export function ggufGenerationConfig(gguf: GgufFile): Record<string, unknown> {
  const fields = new GgufFields(gguf);
  const ends = ["eos", "eot", "eom"].flatMap((name) => fields.number(`tokenizer.ggml.${name}_token_id`) ?? []);
  return { eos_token_id: [...new Set(ends)] };
}

const WHOLE_NAMES: Readonly<Record<string, string>> = {
  "model.embed_tokens.weight": "token_embd.weight",
  "model.norm.weight": "output_norm.weight",
  "model.embedding_norm.weight": "token_embd_norm.weight",
  "lm_head.weight": "output.weight",
  "model.embed_tokens_per_layer.weight": "per_layer_token_embd.weight",
  "model.per_layer_model_projection.weight": "per_layer_model_proj.weight",
  "model.per_layer_projection_norm.weight": "per_layer_proj_norm.weight",
};
const LAYER_NAMES: Readonly<Record<string, string>> = {
  "self_attn.q_proj": "attn_q",
  "self_attn.k_proj": "attn_k",
  "self_attn.v_proj": "attn_v",
  "self_attn.o_proj": "attn_output",
  "self_attn.qkv_proj": "attn_qkv",
  "self_attn.q_norm": "attn_q_norm",
  "self_attn.k_norm": "attn_k_norm",
  "mlp.gate_proj": "ffn_gate",
  "mlp.up_proj": "ffn_up",
  "mlp.down_proj": "ffn_down",
  "mlp.gate_up_proj": "ffn_up",
  "mlp.gate": "ffn_gate_inp",
  "mlp.shared_expert_gate": "ffn_gate_inp_shexp",
  "mlp.shared_expert.gate_proj": "ffn_gate_shexp",
  "mlp.shared_expert.up_proj": "ffn_up_shexp",
  "mlp.shared_expert.down_proj": "ffn_down_shexp",
  "mlp.experts.gate_proj": "ffn_gate_exps",
  "mlp.experts.up_proj": "ffn_up_exps",
  "mlp.experts.down_proj": "ffn_down_exps",
  input_layernorm: "attn_norm",
  post_attention_layernorm: "ffn_norm",
  "self_attn.out_proj": "attn_output",
  "self_attn.q_layernorm": "attn_q_norm",
  "self_attn.k_layernorm": "attn_k_norm",
  "feed_forward.w1": "ffn_gate",
  "feed_forward.w3": "ffn_up",
  "feed_forward.w2": "ffn_down",
  "feed_forward.gate": "ffn_gate_inp",
  "feed_forward.experts.w1": "ffn_gate_exps",
  "feed_forward.experts.w3": "ffn_up_exps",
  "feed_forward.experts.w2": "ffn_down_exps",
  "conv.in_proj": "shortconv.in_proj",
  "conv.conv": "shortconv.conv",
  "conv.out_proj": "shortconv.out_proj",
  operator_norm: "attn_norm",
  per_layer_input_gate: "inp_gate",
  per_layer_projection: "proj",
  post_per_layer_input_norm: "post_norm",
};
const DELTA_RULE_NAMES: Readonly<Record<string, string>> = {
  "linear_attn.in_proj_qkv": "attn_qkv",
  "linear_attn.in_proj_z": "attn_gate",
  "linear_attn.in_proj_b": "ssm_beta",
  "linear_attn.in_proj_a": "ssm_alpha",
  "linear_attn.out_proj": "ssm_out",
  "linear_attn.norm": "ssm_norm",
  "linear_attn.conv1d": "ssm_conv1d",
  // The norm before the feed-forward.
  post_attention_layernorm: "post_attention_norm",
};
/** Tensors of a layer that Hugging Face calls neither weight nor bias. */
const BARE_NAMES: Readonly<Record<string, string>> = {
  "linear_attn.A_log": "ssm_a",
  "linear_attn.dt_bias": "ssm_dt.bias",
  "self_attn.sinks": "attn_sinks.weight",
  "feed_forward.expert_bias": "exp_probs_b.bias",
  layer_scalar: "layer_output_scale.weight",
};
/** Where experts have biases. */
const BIASED_NAMES: Readonly<Record<string, string>> = { post_attention_layernorm: "post_attention_norm" };
/** Where there are norms after attention and feed-forward too. */
const GEMMA_NAMES: Readonly<Record<string, string>> = {
  post_attention_layernorm: "post_attention_norm",
  pre_feedforward_layernorm: "ffn_norm",
  post_feedforward_layernorm: "post_ffw_norm",
};

/** The name in GGUF of a tensor that Hugging Face calls `name`, without the number of an expert. */
export function ggufTensorName(
  name: string,
  { gemma, sharedKeys, deltaRule, experts }: Pick<NamedArchitecture, "gemma" | "sharedKeys" | "deltaRule" | "experts">,
): string {
  const [, layer, rest] = /^model\.layers\.(\d+)\.(.+)$/.exec(name) ?? [];
  if (layer === undefined) return WHOLE_NAMES[name] ?? name;
  const bare = BARE_NAMES[rest!];
  if (bare !== undefined) return `blk.${layer}.${bare}`;
  const [, place, kind] = /^(.+)\.(weight|bias)$/.exec(rest!)!;
  const biased = experts === "biased" && BIASED_NAMES;
  const after = (gemma || sharedKeys) && GEMMA_NAMES;
  const names = { ...LAYER_NAMES, ...after, ...(deltaRule && DELTA_RULE_NAMES), ...biased };
  return `blk.${layer}.${names[place!] ?? place}.${kind}`;
}
