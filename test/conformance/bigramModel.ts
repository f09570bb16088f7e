// Small models whose every probability is known. Embeddings are one-hot, attention and feed-forward add nothing, so the
// logits after a token are one row of a table: what a model says is written down as texts and odds.

import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { writeSafetensors } from "../fixtures/writeSafetensors.js";

export interface BigramModel {
  /** Tokens besides the 256 bytes, each a text that is cut out before anything else. */
  pieces: readonly string[];
  /** Like `pieces`, but hidden by `skip_special_tokens`. The first is the end of sequence. */
  specials: readonly string[];
  /** Lists of tokens, each of which is followed by the next one for certain. */
  scripts: readonly (readonly string[])[];
  /** Probabilities of what follows a token. After a token that is named nowhere, all tokens are equally likely. */
  odds?: Readonly<Record<string, Readonly<Record<string, number>>>>;
  /** null: the folder has none. */
  template: string | null;
  generation?: object;
  context?: number;
  /** Of the tokenizer, as `add_special_tokens` adds it. */
  bos?: string;
}

/** Positions that a sequence may have unless a model sets its own. */
export const CONTEXT = 256;
/** Above the logits of all other tokens. */
const CERTAIN = 60;

/** The printable character that stands for each byte in byte-level vocabularies. */
function byteCharacters(): string[] {
  const isPrintable = (byte: number) => (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || byte >= 174;
  let next = 256;
  return Array.from({ length: 256 }, (_, byte) => String.fromCodePoint(isPrintable(byte) ? byte : next++));
}

const folders: string[] = [];

/** Removes the folders that have been written. */
export function removeBigramModels(): void {
  for (const folder of folders.splice(0)) rmSync(folder, { recursive: true, force: true });
}

/** Writes the folder of a model; its path and the ids of its pieces and specials. */
export async function writeBigramModel(model: BigramModel): Promise<{ path: string; ids: Record<string, number> }> {
  const folder = mkdtempSync(join(tmpdir(), "anneal-bigram-"));
  folders.push(folder);
  const added = [...model.specials, ...model.pieces];
  const ids: Record<string, number> = Object.fromEntries(added.map((text, i) => [text, 256 + i]));
  // One byte that is a character by itself may be named as well.
  const idOf = (text: string): number => {
    const id = ids[text] ?? (text.length === 1 && text.charCodeAt(0) < 128 ? text.charCodeAt(0) : undefined);
    if (id === undefined) throw new Error(`${JSON.stringify(text)} is not a token`);
    return id;
  };
  const vocab = 256 + added.length;
  const hidden = Math.ceil(vocab / 64) * 64;
  const table = new Float32Array(vocab * hidden);
  const set = (from: string, to: string, logit: number) => {
    // A one-hot state leaves the norm as sqrt(hidden).
    table[idOf(to) * hidden + idOf(from)] = logit / Math.sqrt(hidden);
  };
  for (const script of model.scripts) script.slice(1).forEach((to, i) => void set(script[i]!, to, CERTAIN));
  for (const [from, odds] of Object.entries(model.odds ?? {})) {
    for (const [to, probability] of Object.entries(odds)) set(from, to, CERTAIN + Math.log(probability));
  }
  const embeddings = new Float32Array(vocab * hidden);
  for (let id = 0; id < vocab; id++) embeddings[id * hidden + id] = 1;
  const [head, feedForward] = [16, 16];
  const float32 = (shape: number[], data = new Float32Array(shape.reduce((a, b) => a * b))) => ({ shape, data });
  const ones = () => float32([hidden], new Float32Array(hidden).fill(1));
  const layer = "model.layers.0";
  const tensors = {
    "model.embed_tokens.weight": float32([vocab, hidden], embeddings),
    [`${layer}.input_layernorm.weight`]: ones(),
    [`${layer}.self_attn.q_proj.weight`]: float32([2 * head, hidden]),
    [`${layer}.self_attn.k_proj.weight`]: float32([head, hidden]),
    [`${layer}.self_attn.v_proj.weight`]: float32([head, hidden]),
    [`${layer}.self_attn.o_proj.weight`]: float32([hidden, 2 * head]),
    [`${layer}.post_attention_layernorm.weight`]: ones(),
    [`${layer}.mlp.gate_proj.weight`]: float32([feedForward, hidden]),
    [`${layer}.mlp.up_proj.weight`]: float32([feedForward, hidden]),
    [`${layer}.mlp.down_proj.weight`]: float32([hidden, feedForward]),
    "model.norm.weight": ones(),
    "lm_head.weight": float32([vocab, hidden], table),
  };
  await writeSafetensors(join(folder, "model.safetensors"), new Map(Object.entries(tensors)));
  const write = (name: string, value: object) => writeFileSync(join(folder, name), JSON.stringify(value));
  write("config.json", {
    architectures: ["LlamaForCausalLM"],
    model_type: "llama",
    vocab_size: vocab,
    hidden_size: hidden,
    intermediate_size: feedForward,
    num_hidden_layers: 1,
    num_attention_heads: 2,
    num_key_value_heads: 1,
    head_dim: head,
    hidden_act: "silu",
    max_position_embeddings: model.context ?? CONTEXT,
    rms_norm_eps: 1e-12,
    rope_theta: 10000,
    rope_scaling: null,
    attention_bias: false,
    mlp_bias: false,
    tie_word_embeddings: false,
    bos_token_id: null,
    eos_token_id: 256,
    torch_dtype: "float32",
  });
  if (model.generation !== undefined) write("generation_config.json", model.generation);
  const bosId = model.bos === undefined ? undefined : idOf(model.bos);
  write("tokenizer.json", {
    version: "1.0",
    truncation: null,
    padding: null,
    added_tokens: added.map((content, i) => ({
      id: 256 + i,
      content,
      single_word: false,
      lstrip: false,
      rstrip: false,
      normalized: false,
      special: i < model.specials.length,
    })),
    normalizer: null,
    pre_tokenizer: { type: "ByteLevel", add_prefix_space: false, trim_offsets: true, use_regex: true },
    post_processor:
      bosId === undefined
        ? null
        : {
            type: "TemplateProcessing",
            single: [{ SpecialToken: { id: model.bos, type_id: 0 } }, { Sequence: { id: "A", type_id: 0 } }],
            pair: [{ Sequence: { id: "A", type_id: 0 } }, { Sequence: { id: "B", type_id: 1 } }],
            special_tokens: { [model.bos!]: { id: model.bos, ids: [bosId], tokens: [model.bos] } },
          },
    decoder: { type: "ByteLevel", add_prefix_space: true, trim_offsets: true, use_regex: true },
    model: {
      type: "BPE",
      dropout: null,
      unk_token: null,
      continuing_subword_prefix: null,
      end_of_word_suffix: null,
      fuse_unk: false,
      byte_fallback: false,
      vocab: Object.fromEntries(byteCharacters().map((character, byte) => [character, byte])),
      merges: [],
    },
  });
  write("tokenizer_config.json", {
    tokenizer_class: "PreTrainedTokenizerFast",
    eos_token: model.specials[0],
    ...(model.bos === undefined ? {} : { bos_token: model.bos }),
    clean_up_tokenization_spaces: false,
    model_max_length: model.context ?? CONTEXT,
    ...(model.template === null ? {} : { chat_template: model.template }),
  });
  return { path: folder, ids };
}
