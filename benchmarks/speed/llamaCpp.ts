/** llama.cpp by node-llama-cpp as a program that is measured: `llamaCpp.ts FOLDER THREADS SHAPE [vulkan | cuda]`. */
import { closeSync, existsSync, openSync, readSync, renameSync, writeSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { ggufTensorName } from "../../src/gguf/ggufConfig.js";
import { ggufBytes, type TensorEntry, type Value } from "../../test/fixtures/ggufBytes.js";
import { spreadTokens } from "../decodeBatch.js";
import { type ModelShape, modelShapes } from "../modelShapes.js";
import { serve } from "./program.js";
import type { DecodeWork, PrefillWork, Work } from "./workloads.js";

const [folder, threadsText, shapeName, gpu] = process.argv.slice(2);
const threads = Number(threadsText);
const shape = shapeName as ModelShape;
const c = modelShapes[shape];

const F32 = 0;
const BF16 = 30;
const ALIGNMENT = 32;

/** The folder's weights as a GGUF file beside them, bfloat16 but for the norms; its tokens have no text. */
function ggufOf(path: string): string {
  const target = join(path, "model.gguf");
  if (existsSync(target)) return target;
  const source = openSync(join(path, "model.safetensors"), "r");
  const length = Buffer.alloc(8);
  readSync(source, length, 0, 8, 0);
  const headerBytes = Number(length.readBigUInt64LE());
  const header = Buffer.alloc(headerBytes);
  readSync(source, header, 0, headerBytes, 8);
  const list = Object.entries(
    JSON.parse(header.toString()) as Record<string, { shape: number[]; data_offsets: [number, number] }>,
  );
  let offset = 0;
  const tensors = list.map(([full, { shape: dimensions }]): TensorEntry => {
    const type = dimensions.length === 1 ? F32 : BF16;
    const entry = { name: ggufTensorName(full, {}), dimensions: [...dimensions].reverse(), type, offset };
    const bytes = dimensions.reduce((a, b) => a * b, 1) * (type === F32 ? 4 : 2);
    offset += Math.ceil(bytes / ALIGNMENT) * ALIGNMENT;
    return entry;
  });
  const kind = c.model_type;
  const headDim = "head_dim" in c ? c.head_dim : c.hidden_size / c.num_attention_heads;
  const metadata: Record<string, Value> = {
    "general.architecture": { string: kind },
    "general.file_type": { uint32: 32 },
    [`${kind}.block_count`]: { uint32: c.num_hidden_layers },
    [`${kind}.context_length`]: { uint32: c.max_position_embeddings },
    [`${kind}.embedding_length`]: { uint32: c.hidden_size },
    [`${kind}.feed_forward_length`]: { uint32: c.intermediate_size },
    [`${kind}.attention.head_count`]: { uint32: c.num_attention_heads },
    [`${kind}.attention.head_count_kv`]: { uint32: c.num_key_value_heads },
    [`${kind}.attention.key_length`]: { uint32: headDim },
    [`${kind}.attention.value_length`]: { uint32: headDim },
    [`${kind}.rope.dimension_count`]: { uint32: headDim },
    [`${kind}.rope.freq_base`]: { float32: c.rope_theta },
    [`${kind}.attention.layer_norm_rms_epsilon`]: { float32: c.rms_norm_eps },
    "tokenizer.ggml.model": { string: "gpt2" },
    "tokenizer.ggml.pre": { string: "default" },
    "tokenizer.ggml.tokens": { array: "string", values: Array.from({ length: c.vocab_size }, (_, i) => `t${i}`) },
    "tokenizer.ggml.token_type": { array: "int32", values: new Array<number>(c.vocab_size).fill(1) },
    "tokenizer.ggml.merges": { array: "string", values: ["t 0"] },
    "tokenizer.ggml.bos_token_id": { uint32: 0 },
    "tokenizer.ggml.eos_token_id": { uint32: 0 },
  };
  const out = openSync(`${target}.new`, "w");
  const start = ggufBytes({ metadata, tensors });
  writeSync(out, start);
  for (const [i, [, { data_offsets: places }]] of list.entries()) {
    const { type, offset: at } = tensors[i]!;
    let data = Buffer.alloc(places[1] - places[0]);
    readSync(source, data, 0, data.length, 8 + headerBytes + places[0]);
    if (type === F32) {
      const wide = new Uint32Array(data.length / 2);
      for (let j = 0; j < wide.length; j++) wide[j] = data.readUInt16LE(2 * j) << 16;
      data = Buffer.from(wide.buffer);
    }
    writeSync(out, data, 0, data.length, start.length + at);
  }
  writeSync(out, Buffer.alloc(ALIGNMENT), 0, 1, start.length + offset - 1);
  closeSync(out);
  closeSync(source);
  renameSync(`${target}.new`, target);
  return target;
}

// A peer that this repository does not depend on: found from where the benchmark was started, or where it is told.
interface Sequence {
  evaluate(tokens: number[], options: object): AsyncIterable<number>;
  evaluateWithoutGeneratingNewTokens(tokens: number[]): Promise<void>;
  readonly nextTokenIndex: number;
  eraseContextTokenRanges(ranges: { start: number; end: number }[]): Promise<void>;
}
interface Context {
  getSequence(): Sequence;
  dispose(): Promise<void>;
}
interface Llama {
  loadModel(options: object): Promise<{ createContext(options: object): Promise<Context> }>;
}

const home = process.env.NODE_LLAMA_CPP ?? process.cwd();
const entry = createRequire(pathToFileURL(`${home}/`)).resolve("node-llama-cpp");
const { getLlama } = (await import(pathToFileURL(entry).href)) as { getLlama(options: object): Promise<Llama> };
const { version } = createRequire(pathToFileURL(entry))("../package.json") as { version: string };

const llama = await getLlama({ gpu: gpu ?? false, build: "never", maxThreads: threads, logLevel: "error" });
const model = await llama.loadModel({ modelPath: ggufOf(folder!), gpuLayers: gpu ? "max" : 0 });

async function openSequences(count: number, contextSize: number): Promise<{ context: Context; sequences: Sequence[] }> {
  const options = { contextSize, sequences: count, batchSize: 512, threads, flashAttention: true };
  const context = await model.createContext(options);
  return { context, sequences: Array.from({ length: count }, () => context.getSequence()) };
}

const prompt = (count: number, salt: number): number[] => [...spreadTokens(count, c.vocab_size, salt)];

/** The prompts of the latest work, which its next run goes on from again. */
let kept: { of: string; context: Context; sequences: Sequence[] } | undefined;

async function decode(work: DecodeWork) {
  const { count, context, tokens, shared } = work;
  const began = performance.now();
  const of = JSON.stringify(work);
  const before = context - 1;
  if (kept?.of !== of) {
    await kept?.context.dispose();
    kept = { of, ...(await openSequences(count, context + tokens + 8)) };
    for (const [i, sequence] of kept.sequences.entries()) {
      await sequence.evaluateWithoutGeneratingNewTokens(prompt(context, shared ? 0 : i).slice(0, before));
    }
  }
  const { sequences } = kept;
  for (const sequence of sequences) {
    const end = sequence.nextTokenIndex;
    if (end > before) await sequence.eraseContextTokenRanges([{ start: before, end }]);
  }
  const from = performance.now();
  await Promise.all(
    sequences.map(async (sequence, i) => {
      let made = 0;
      const given = prompt(context, shared ? 0 : i).slice(before);
      for await (const token of sequence.evaluate(given, { temperature: 0, yieldEogToken: true })) {
        void token;
        if (++made === tokens) break;
      }
    }),
  );
  const end = performance.now();
  return { seconds: (end - from) / 1000, share: (end - from) / (end - began) };
}

async function prefill({ context: length }: PrefillWork) {
  const { context, sequences } = await openSequences(1, length + 8);
  const from = performance.now();
  await sequences[0]!.evaluateWithoutGeneratingNewTokens(prompt(length, 0));
  const seconds = (performance.now() - from) / 1000;
  await context.dispose();
  return { seconds };
}

await serve(
  { version: `node-llama-cpp ${version}`, kinds: ["decode", "prefill"], note: gpu ? `BF16, ${gpu}` : "BF16" },
  async (work: Work) => (work.kind === "decode" ? decode(work) : prefill(work as PrefillWork)),
);
process.exit(0);
