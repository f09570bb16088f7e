// The metadata of a GGUF file as the config.json and generation_config.json that its model came from.

import { ModelFileError } from "../errors.js";
import type { GgufFile, GgufValue } from "./ggufFile.js";

/** Fields of metadata, checked where they are read. */
export class GgufFields {
  constructor(readonly gguf: GgufFile) {}

  fail(key: string, problem: string): never {
    throw new ModelFileError(this.gguf.file, `${key} ${problem}`, { param: key });
  }

  get(key: string): GgufValue | undefined {
    return this.gguf.metadata.get(key);
  }

  number(key: string): number | undefined {
    const value = this.get(key);
    if (value === undefined) return undefined;
    // One number for each layer where they might differ.
    const [first, ...others] = Array.isArray(value) ? value : [value];
    if (typeof first !== "number") this.fail(key, "must be a number");
    if (others.some((other) => other !== first)) this.fail(key, "differs from layer to layer, which is not known");
    return first;
  }

  boolean(key: string): boolean | undefined {
    const value = this.get(key);
    if (value !== undefined && typeof value !== "boolean") this.fail(key, "must be true or false");
    return value;
  }

  string(key: string): string | undefined {
    const value = this.get(key);
    if (value !== undefined && typeof value !== "string") this.fail(key, "must be a text");
    return value;
  }

  required<T>(key: string, value: T | undefined): T {
    return value ?? this.fail(key, "is missing");
  }
}

interface Architecture {
  modelType: string;
  /** Rows of q and k stand in the order of rotary pairs, and not of their halves. */
  interleaved: boolean;
}

const ARCHITECTURES: Readonly<Record<string, Architecture>> = {
  llama: { modelType: "llama", interleaved: true },
  qwen2: { modelType: "qwen2", interleaved: false },
  qwen3: { modelType: "qwen3", interleaved: false },
  smollm3: { modelType: "smollm3", interleaved: true },
  granite: { modelType: "granite", interleaved: true },
};

/** What a model of config.json's `model_type` is called; null: it is not written. */
export function ggufArchitecture(modelType: string): { name: string; interleaved: boolean } | null {
  const type = modelType === "mistral" ? "llama" : modelType;
  const found = Object.entries(ARCHITECTURES).find(([, known]) => known.modelType === type);
  return found ? { name: found[0], interleaved: found[1].interleaved } : null;
}

export function architectureOf(fields: GgufFields): Architecture & { name: string } {
  const key = "general.architecture";
  const name = fields.required(key, fields.string(key));
  const known = Object.hasOwn(ARCHITECTURES, name) ? ARCHITECTURES[name] : undefined;
  if (!known) fields.fail(key, `is "${name}"; known are ${Object.keys(ARCHITECTURES).join(", ")}`);
  return { ...known, name };
}

export const ROPE_FACTORS = "rope_freqs.weight";

/** As config.json would be; `ropeFactors` are the numbers of rope_freqs.weight, where there are any. */
export function ggufConfig(gguf: GgufFile, ropeFactors: Float32Array | null): Record<string, unknown> {
  const fields = new GgufFields(gguf);
  const { modelType, name } = architectureOf(fields);
  const number = (key: string) => fields.number(`${name}.${key}`);
  const required = (key: string) => fields.required(`${name}.${key}`, number(key));
  const heads = required("attention.head_count");
  const hidden = required("embedding_length");
  const headDim = number("attention.key_length") ?? hidden / heads;
  const valueLength = number("attention.value_length");
  if (valueLength !== undefined && valueLength !== headDim) {
    fields.fail(`${name}.attention.value_length`, "differs from that of keys, which is not known");
  }
  const turned = number("rope.dimension_count") ?? headDim;
  if (turned !== headDim) fields.fail(`${name}.rope.dimension_count`, `is ${turned} of ${headDim}: not known`);
  const embedding = gguf.tensors.get("token_embd.weight");
  if (!embedding)
    throw new ModelFileError(gguf.file, "lacks the tensor token_embd.weight", { param: "token_embd.weight" });
  const hasBias = gguf.tensors.has("blk.0.attn_q.bias");
  return {
    model_type: modelType,
    vocab_size: embedding.shape[0],
    hidden_size: hidden,
    intermediate_size: required("feed_forward_length"),
    num_hidden_layers: required("block_count"),
    num_attention_heads: heads,
    num_key_value_heads: number("attention.head_count_kv") ?? heads,
    head_dim: headDim,
    max_position_embeddings: required("context_length"),
    rms_norm_eps: required("attention.layer_norm_rms_epsilon"),
    rope_theta: number("rope.freq_base") ?? 10_000,
    rope_scaling: ropeScaling(fields, name, turned, ropeFactors),
    tie_word_embeddings: !gguf.tensors.has("output.weight"),
    ...(hasBias && modelType !== "qwen2" ? { attention_bias: true } : {}),
    ...(modelType === "granite"
      ? {
          embedding_multiplier: number("embedding_scale") ?? 1,
          attention_multiplier: number("attention.scale") ?? 1 / Math.sqrt(headDim),
          residual_multiplier: number("residual_scale") ?? 1,
          logits_scaling: number("logit_scale") ?? 1,
        }
      : {}),
    ...window(fields, name),
  };
}

function window(fields: GgufFields, name: string): Record<string, unknown> {
  const size = fields.number(`${name}.attention.sliding_window`);
  return size ? { sliding_window: size, use_sliding_window: true } : {};
}

/** Llama 3.1 and its kin: what their config.json has, beside the factor. */
const LLAMA3 = { low_freq_factor: 1, high_freq_factor: 4, original_max_position_embeddings: 8192 };
const FACTOR_TOLERANCE = 1e-3;

function ropeScaling(fields: GgufFields, name: string, width: number, factors: Float32Array | null) {
  if (factors) {
    const factor = Math.round(Math.max(...factors));
    const base = fields.number(`${name}.rope.freq_base`) ?? 10_000;
    const expected = llama3Factors(factor, base, width);
    if (
      factors.length !== expected.length ||
      expected.some((value, i) => Math.abs(value - factors[i]!) > FACTOR_TOLERANCE * value)
    ) {
      fields.fail(ROPE_FACTORS, "holds factors that are not those of Llama 3");
    }
    return { rope_type: "llama3", factor, ...LLAMA3 };
  }
  const type = fields.string(`${name}.rope.scaling.type`) ?? "none";
  if (type === "none") return null;
  const number = (key: string) => fields.number(`${name}.rope.scaling.${key}`);
  const factor = number("factor");
  if (type === "linear") return { rope_type: "linear", factor };
  if (type !== "yarn") fields.fail(`${name}.rope.scaling.type`, `is "${type}"; none, linear and yarn are known`);
  const original = number("original_context_length");
  return { rope_type: "yarn", factor, ...(original ? { original_max_position_embeddings: original } : {}) };
}

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
  "lm_head.weight": "output.weight",
};
const LAYER_NAMES: Readonly<Record<string, string>> = {
  "self_attn.q_proj": "attn_q",
  "self_attn.k_proj": "attn_k",
  "self_attn.v_proj": "attn_v",
  "self_attn.o_proj": "attn_output",
  "self_attn.q_norm": "attn_q_norm",
  "self_attn.k_norm": "attn_k_norm",
  "mlp.gate_proj": "ffn_gate",
  "mlp.up_proj": "ffn_up",
  "mlp.down_proj": "ffn_down",
  input_layernorm: "attn_norm",
  post_attention_layernorm: "ffn_norm",
};

/** The name in GGUF of a tensor that Hugging Face calls `name`. */
export function ggufTensorName(name: string): string {
  const layer = /^model\.layers\.(\d+)\.(.+)\.(weight|bias)$/.exec(name);
  if (!layer) return WHOLE_NAMES[name] ?? name;
  return `blk.${layer[1]}.${LAYER_NAMES[layer[2]!] ?? layer[2]}.${layer[3]}`;
}
