import { mkdirSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { chatTemplate, specials } from "./rendering.js";
import { tokenizerFile } from "./vocabulary.js";

export const vocabularySize = 704;
/** Conversations counted for the vocabulary. */
export const vocabularySample = 60_000;

/** config.json of the model: a Qwen3 decoder with a tied head. */
export const config = {
  architectures: ["Qwen3ForCausalLM"],
  model_type: "qwen3",
  vocab_size: vocabularySize,
  hidden_size: 192,
  intermediate_size: 512,
  num_hidden_layers: 6,
  num_attention_heads: 6,
  num_key_value_heads: 2,
  head_dim: 32,
  hidden_act: "silu",
  max_position_embeddings: 2048,
  rms_norm_eps: 1e-6,
  rope_theta: 10000,
  rope_scaling: null,
  attention_bias: false,
  attention_dropout: 0,
  tie_word_embeddings: true,
  use_cache: true,
  use_sliding_window: false,
  sliding_window: null,
  max_window_layers: 6,
  initializer_range: 0.02,
  bos_token_id: null,
  eos_token_id: specials.indexOf("<|im_end|>"),
  pad_token_id: specials.indexOf("<|endoftext|>"),
  torch_dtype: "bfloat16",
} as const;

const end = specials.indexOf("<|im_end|>");
const pad = specials.indexOf("<|endoftext|>");

/** A float32 tensor by its Hugging Face name, row-major. */
export interface NamedTensor {
  name: string;
  shape: readonly number[];
  data: Float32Array;
}

/** Every tensor of the model with its shape, in file order. */
export function tensorShapes(): { name: string; shape: number[] }[] {
  const {
    hidden_size: hidden,
    intermediate_size: inner,
    head_dim: head,
    num_attention_heads: heads,
    num_key_value_heads: kv,
  } = config;
  const layers = Array.from({ length: config.num_hidden_layers }, (_, i) => {
    const at = `model.layers.${i}`;
    return [
      { name: `${at}.input_layernorm.weight`, shape: [hidden] },
      { name: `${at}.self_attn.q_proj.weight`, shape: [heads * head, hidden] },
      { name: `${at}.self_attn.k_proj.weight`, shape: [kv * head, hidden] },
      { name: `${at}.self_attn.v_proj.weight`, shape: [kv * head, hidden] },
      { name: `${at}.self_attn.o_proj.weight`, shape: [hidden, heads * head] },
      { name: `${at}.self_attn.q_norm.weight`, shape: [head] },
      { name: `${at}.self_attn.k_norm.weight`, shape: [head] },
      { name: `${at}.post_attention_layernorm.weight`, shape: [hidden] },
      { name: `${at}.mlp.gate_proj.weight`, shape: [inner, hidden] },
      { name: `${at}.mlp.up_proj.weight`, shape: [inner, hidden] },
      { name: `${at}.mlp.down_proj.weight`, shape: [hidden, inner] },
    ];
  });
  return [
    { name: "model.embed_tokens.weight", shape: [vocabularySize, hidden] },
    ...layers.flat(),
    { name: "model.norm.weight", shape: [hidden] },
  ];
}

/** float32 to bfloat16 bits, round to nearest even (finite values). */
export function toBfloat16(data: Float32Array): Uint16Array {
  const bits = new Uint32Array(data.buffer, data.byteOffset, data.length);
  return Uint16Array.from(bits, (value) => (value + 0x7fff + ((value >>> 16) & 1)) >>> 16);
}

/** model.safetensors in bfloat16. */
export function safetensors(tensors: readonly NamedTensor[]): Buffer {
  const header: Record<string, object> = { __metadata__: { format: "pt" } };
  let offset = 0;
  for (const { name, shape, data } of tensors) {
    header[name] = { dtype: "BF16", shape, data_offsets: [offset, offset + 2 * data.length] };
    offset += 2 * data.length;
  }
  let text = JSON.stringify(header);
  text += " ".repeat((8 - (Buffer.byteLength(text) % 8)) % 8);
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(Buffer.byteLength(text)));
  const bodies = tensors.map(({ data }) => {
    const half = toBfloat16(data);
    return Buffer.from(half.buffer, half.byteOffset, half.byteLength);
  });
  return Buffer.concat([length, Buffer.from(text), ...bodies]);
}

const pretty = (value: unknown): string => `${JSON.stringify(value, null, 2)}\n`;

/** Writes the whole model folder, except its card. */
export function writeFolder(folder: string, vocabulary: readonly string[], tensors: readonly NamedTensor[]): void {
  mkdirSync(folder, { recursive: true });
  writeFileSync(join(folder, "config.json"), pretty(config));
  writeFileSync(join(folder, "tokenizer.json"), pretty(tokenizerFile(vocabulary)));
  writeFileSync(
    join(folder, "tokenizer_config.json"),
    pretty({
      tokenizer_class: "PreTrainedTokenizerFast",
      add_bos_token: false,
      bos_token: null,
      eos_token: "<|im_end|>",
      pad_token: "<|endoftext|>",
      unk_token: null,
      clean_up_tokenization_spaces: false,
      model_max_length: config.max_position_embeddings,
      chat_template: chatTemplate,
    }),
  );
  writeFileSync(
    join(folder, "generation_config.json"),
    pretty({ do_sample: true, temperature: 1.0, eos_token_id: [end, pad], pad_token_id: pad }),
  );
  writeFileSync(join(folder, "model.safetensors"), safetensors(tensors));
}
