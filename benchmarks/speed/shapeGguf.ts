/** The random weights of a shape as a GGUF file, for every program that reads one. */
import { closeSync, existsSync, openSync, readSync, renameSync, rmSync } from "node:fs";
import { join } from "node:path";
import { ggufTensorName } from "../../src/gguf/ggufConfig.js";
import type { GgufType } from "../../src/gguf/ggufFile.js";
import { type TypedValue, writeGguf } from "../../src/gguf/writeGguf.js";
import { quantizeNumbers } from "../../src/runtime/runtime.js";
import { expertTensor, isRouter } from "../../src/weights/expertTensors.js";
import { widen } from "../../src/weights/floats.js";
import { fourBits } from "../../src/weights/quantizeFormats.js";
import { expertsOf, headDimOf, type Shape } from "../modelShapes.js";

/** As `anneal export` names them. */
export type ShapeType = "bfloat16" | "q8_0" | "q4_k_m";
const FILE_TYPES: Record<ShapeType, number> = { bfloat16: 32, q8_0: 7, q4_k_m: 15 };

const PIECE = 2 ** 20; // numbers that are converted at once

function typeOf(name: string, shape: readonly number[], type: ShapeType): GgufType {
  if (shape.length === 1 || isRouter(name)) return "F32";
  const columns = shape.at(-1)!;
  return type === "bfloat16" ? "BF16" : type === "q8_0" ? "Q8_0" : fourBits(name, columns);
}

/** Of the weights in the folder, written beside them unless it is there; its tokens have no text. Returns its path. */
export async function shapeGguf(folder: string, shape: Shape, type: ShapeType): Promise<string> {
  const target = join(folder, `${type}.gguf`);
  if (existsSync(target)) return target;
  const source = openSync(join(folder, "model.safetensors"), "r");
  const length = Buffer.alloc(8);
  readSync(source, length, 0, 8, 0);
  const header = Buffer.alloc(Number(length.readBigUInt64LE()));
  readSync(source, header, 0, header.length, 8);
  const list = Object.entries(
    JSON.parse(header.toString()) as Record<string, { shape: number[]; data_offsets: [number, number] }>,
  );
  // The matrices of all experts of a layer are one tensor.
  const parts = new Map<string, typeof list>();
  for (const entry of list) {
    const name = expertTensor(entry[0])?.stacked ?? entry[0];
    const stacked = parts.get(name) ?? [];
    stacked.push(entry);
    parts.set(name, stacked);
  }
  const tensors = Array.from(parts, ([name, stacked]) => {
    const { shape: own } = stacked[0]![1];
    const dimensions = stacked[0]![0] === name ? own : [stacked.length, ...own];
    const stored = typeOf(name, dimensions, type);
    async function* content(): AsyncGenerator<Uint8Array> {
      for (const [, { data_offsets: places }] of stacked)
        for (let at = places[0]; at < places[1]; at += 2 * PIECE) {
          const data = new Uint8Array(Math.min(2 * PIECE, places[1] - at));
          readSync(source, data, 0, data.length, 8 + header.length + at);
          if (stored === "BF16") yield data;
          else if (stored === "F32") yield new Uint8Array(widen("BF16", data).buffer);
          else yield await quantizeNumbers(stored, widen("BF16", data));
        }
    }
    return { name: ggufTensorName(name, {}), shape: dimensions, type: stored, content };
  });
  rmSync(`${target}.new`, { force: true });
  await writeGguf(`${target}.new`, metadataOf(shape, type), tensors, () => {});
  closeSync(source);
  renameSync(`${target}.new`, target);
  return target;
}

function metadataOf(c: Shape, type: ShapeType): Map<string, TypedValue> {
  const kind = c.model_type.replaceAll("_", "");
  const experts = expertsOf(c);
  const headDim = headDimOf(c);
  return new Map<string, TypedValue>([
    ["general.architecture", { string: kind }],
    ["general.file_type", { uint32: FILE_TYPES[type] }],
    ["general.quantization_version", { uint32: 2 }],
    [`${kind}.block_count`, { uint32: c.num_hidden_layers }],
    [`${kind}.context_length`, { uint32: c.max_position_embeddings }],
    [`${kind}.embedding_length`, { uint32: c.hidden_size }],
    [`${kind}.feed_forward_length`, { uint32: c.intermediate_size }],
    ...(experts
      ? ([
          [`${kind}.expert_count`, { uint32: experts.num_experts }],
          [`${kind}.expert_used_count`, { uint32: experts.num_experts_per_tok }],
          [`${kind}.expert_feed_forward_length`, { uint32: experts.moe_intermediate_size }],
        ] as [string, TypedValue][])
      : []),
    [`${kind}.attention.head_count`, { uint32: c.num_attention_heads }],
    [`${kind}.attention.head_count_kv`, { uint32: c.num_key_value_heads }],
    [`${kind}.attention.key_length`, { uint32: headDim }],
    [`${kind}.attention.value_length`, { uint32: headDim }],
    [`${kind}.rope.dimension_count`, { uint32: headDim }],
    [`${kind}.rope.freq_base`, { float32: c.rope_theta }],
    [`${kind}.attention.layer_norm_rms_epsilon`, { float32: c.rms_norm_eps }],
    ["tokenizer.ggml.model", { string: "gpt2" }],
    ["tokenizer.ggml.pre", { string: "default" }],
    ["tokenizer.ggml.tokens", { strings: Array.from({ length: c.vocab_size }, (_, i) => `t${i}`) }],
    ["tokenizer.ggml.token_type", { int32s: new Array<number>(c.vocab_size).fill(1) }],
    ["tokenizer.ggml.merges", { strings: ["t 0"] }],
    ["tokenizer.ggml.bos_token_id", { uint32: 0 }],
    ["tokenizer.ggml.eos_token_id", { uint32: 0 }],
  ]);
}
