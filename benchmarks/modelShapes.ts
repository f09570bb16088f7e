/** Shapes of published models, or of any config.json, written as Hugging Face folders with random weights: for speed, not for text. */
import { createHash } from "node:crypto";
import {
  closeSync,
  existsSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  writeFileSync,
  writeSync,
} from "node:fs";
import { basename, dirname, join, resolve } from "node:path";
import { z } from "zod";
import { elementCount } from "../src/elementCount.js";

const common = {
  hidden_act: "silu",
  rms_norm_eps: 1e-6,
  attention_bias: false as const,
  tie_word_embeddings: true,
  torch_dtype: "bfloat16",
  rope_scaling: null,
};

/** Of families whose layers choose among experts. */
const experts = z.looseObject({
  num_experts: z.int().positive(),
  num_experts_per_tok: z.int().positive(),
  moe_intermediate_size: z.int().positive(),
});
export type ShapeExperts = z.infer<typeof experts>;

/** A family whose tensors `shapeTensors` names: what a config.json must say, with the names and defaults of Hugging Face. */
const shapeSchema = z.looseObject({
  model_type: z.enum(["llama", "qwen3", "qwen3_moe"]),
  hidden_size: z.int().positive(),
  intermediate_size: z.int().positive(),
  num_hidden_layers: z.int().positive(),
  num_attention_heads: z.int().positive(),
  num_key_value_heads: z.int().positive(),
  head_dim: z.int().positive().optional(),
  vocab_size: z.int().positive(),
  max_position_embeddings: z.int().positive(),
  rms_norm_eps: z.number().positive().default(1e-6),
  rope_theta: z.number().positive().default(10000),
  attention_bias: z.literal(false).default(false),
  tie_word_embeddings: z.boolean().default(false),
});
export type Shape = z.infer<typeof shapeSchema>;

export const modelShapes = {
  "smollm2-135m": {
    ...common,
    architectures: ["LlamaForCausalLM"],
    model_type: "llama",
    hidden_size: 576,
    intermediate_size: 1536,
    num_hidden_layers: 30,
    num_attention_heads: 9,
    num_key_value_heads: 3,
    vocab_size: 49152,
    max_position_embeddings: 8192,
    rope_theta: 100000,
  },
  "qwen3-0.6b": {
    ...common,
    architectures: ["Qwen3ForCausalLM"],
    model_type: "qwen3",
    hidden_size: 1024,
    intermediate_size: 3072,
    num_hidden_layers: 28,
    num_attention_heads: 16,
    num_key_value_heads: 8,
    head_dim: 128,
    vocab_size: 151936,
    max_position_embeddings: 40960,
    rope_theta: 1000000,
  },
  "qwen3-8b": {
    ...common,
    tie_word_embeddings: false,
    architectures: ["Qwen3ForCausalLM"],
    model_type: "qwen3",
    hidden_size: 4096,
    intermediate_size: 12288,
    num_hidden_layers: 36,
    num_attention_heads: 32,
    num_key_value_heads: 8,
    head_dim: 128,
    vocab_size: 151936,
    max_position_embeddings: 40960,
    rope_theta: 1000000,
  },
  "qwen3-30b-a3b": {
    ...common,
    tie_word_embeddings: false,
    architectures: ["Qwen3MoeForCausalLM"],
    model_type: "qwen3_moe",
    hidden_size: 2048,
    intermediate_size: 6144,
    moe_intermediate_size: 768,
    num_experts: 128,
    num_experts_per_tok: 8,
    norm_topk_prob: true,
    num_hidden_layers: 48,
    num_attention_heads: 32,
    num_key_value_heads: 4,
    head_dim: 128,
    vocab_size: 151936,
    max_position_embeddings: 40960,
    rope_theta: 1000000,
  },
  /** Of no model: with it everything that is measured can be tried, also on a device in software. */
  tiny: {
    ...common,
    architectures: ["Qwen3ForCausalLM"],
    model_type: "qwen3",
    hidden_size: 64,
    intermediate_size: 128,
    num_hidden_layers: 2,
    num_attention_heads: 2,
    num_key_value_heads: 1,
    head_dim: 64,
    vocab_size: 512,
    max_position_embeddings: 40960,
    rope_theta: 1000000,
  },
} satisfies Record<string, Shape>;

/** One of the shapes above, or that of a config.json. @throws RangeError, ZodError: there is none of that name, or it is of another family. */
export function shapeOf(name: string): Shape {
  const known = (modelShapes as Record<string, Shape>)[name];
  if (known) return known;
  if (!existsSync(name)) {
    throw new RangeError(`--shape ${name}: neither a config.json nor one of ${Object.keys(modelShapes).join(", ")}`);
  }
  return shapeSchema.parse(JSON.parse(readFileSync(name, "utf8")));
}

/** Null: its layers have one feed-forward each. */
export const expertsOf = (c: Shape): ShapeExperts | null => (c.model_type === "qwen3_moe" ? experts.parse(c) : null);

/** How many experts of a layer `rows` tokens go to, drawn by chance. */
export function distinctExperts({ num_experts: count, num_experts_per_tok: each }: ShapeExperts, rows: number): number {
  return count * (1 - (1 - each / count) ** rows);
}

/** Of a shape's weights, those that are read to decode `rows` sequences by a token. */
export function shareRead(c: Shape, rows: number): number {
  const experts = expertsOf(c);
  if (experts === null) return 1;
  let all = 0;
  let read = 0;
  for (const [name, dimensions] of shapeTensors(c)) {
    const count = elementCount(dimensions);
    all += count;
    read += name.includes(".experts.") ? (count * distinctExperts(experts, rows)) / experts.num_experts : count;
  }
  return read / all;
}

/** What a head is wide, in numbers. */
export const headDimOf = (c: Shape): number => c.head_dim ?? c.hidden_size / c.num_attention_heads;

/** Tensors of a shape by name. */
export function shapeTensors(c: Shape): [string, number[]][] {
  const headDim = headDimOf(c);
  const queries = c.num_attention_heads * headDim;
  const keys = c.num_key_value_heads * headDim;
  const out: [string, number[]][] = [["model.embed_tokens.weight", [c.vocab_size, c.hidden_size]]];
  for (let layer = 0; layer < c.num_hidden_layers; layer++) {
    const at = `model.layers.${layer}`;
    out.push(
      [`${at}.input_layernorm.weight`, [c.hidden_size]],
      [`${at}.self_attn.q_proj.weight`, [queries, c.hidden_size]],
      [`${at}.self_attn.k_proj.weight`, [keys, c.hidden_size]],
      [`${at}.self_attn.v_proj.weight`, [keys, c.hidden_size]],
      [`${at}.self_attn.o_proj.weight`, [c.hidden_size, queries]],
      [`${at}.post_attention_layernorm.weight`, [c.hidden_size]],
    );
    const experts = expertsOf(c);
    if (experts) out.push([`${at}.mlp.gate.weight`, [experts.num_experts, c.hidden_size]]);
    for (let expert = 0; expert < (experts?.num_experts ?? 1); expert++) {
      const mlp = experts ? `${at}.mlp.experts.${expert}` : `${at}.mlp`;
      const width = experts?.moe_intermediate_size ?? c.intermediate_size;
      out.push(
        [`${mlp}.gate_proj.weight`, [width, c.hidden_size]],
        [`${mlp}.up_proj.weight`, [width, c.hidden_size]],
        [`${mlp}.down_proj.weight`, [c.hidden_size, width]],
      );
    }
    if (c.model_type !== "llama")
      out.push([`${at}.self_attn.q_norm.weight`, [headDim]], [`${at}.self_attn.k_norm.weight`, [headDim]]);
  }
  out.push(["model.norm.weight", [c.hidden_size]]);
  if (!c.tie_word_embeddings) out.push(["lm_head.weight", [c.vocab_size, c.hidden_size]]);
  return out;
}

/** Writes the weights into `folder` unless they are there, and returns their path. Every matrix differs from every other, or caches would flatter. */
export function randomFolder(folder: string, name: string): string {
  const shape = shapeOf(name);
  const path = join(folder, name in modelShapes ? name : nameOfFile(name));
  const file = join(path, "model.safetensors");
  if (existsSync(file)) return path;
  mkdirSync(path, { recursive: true });
  const list = shapeTensors(shape);
  const header: Record<string, unknown> = {};
  let offset = 0;
  for (const [tensor, shape] of list) {
    const bytes = 2 * elementCount(shape);
    header[tensor] = { dtype: "BF16", shape, data_offsets: [offset, offset + bytes] };
    offset += bytes;
  }
  const json = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(json.length));
  const handle = openSync(`${file}.new`, "w");
  writeSync(handle, length);
  writeSync(handle, json);
  // A table of bfloat16 values of deviation about 0.02, drawn from by a linear congruential generator.
  const table = Uint16Array.from({ length: 4096 }, (_, i) => {
    const angle = ((i * 2654435761) % 2 ** 32) / 2 ** 32;
    return new Uint32Array(new Float32Array([0.07 * (angle - 0.5)]).buffer)[0]! >>> 16;
  });
  let state = 1;
  for (const [, dimensions] of list) {
    const count = elementCount(dimensions);
    const data = new Uint16Array(count);
    if (dimensions.length === 1) data.fill(0x3f80);
    else
      for (let i = 0; i < count; i++) {
        state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
        data[i] = table[state >>> 20]!;
      }
    writeSync(handle, new Uint8Array(data.buffer));
  }
  closeSync(handle);
  writeFileSync(join(path, "config.json"), `${JSON.stringify(shape, null, 1)}\n`);
  renameSync(`${file}.new`, file);
  return path;
}

/** Its folder's name, and what tells it from every other. */
function nameOfFile(config: string): string {
  const hash = createHash("sha256").update(readFileSync(config)).digest("hex").slice(0, 8);
  return `${basename(dirname(resolve(config)))}-${hash}`;
}
