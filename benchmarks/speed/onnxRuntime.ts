/** ONNX Runtime by onnxruntime-node as a program that is measured, on a folder that anneal exports: `onnxRuntime.ts FOLDER THREADS SHAPE`. */
import { existsSync, mkdirSync, renameSync, rmSync } from "node:fs";
import { createRequire } from "node:module";
import { join } from "node:path";
import { InferenceSession, Tensor } from "onnxruntime-node";
import { writeOnnxFolder } from "../../src/onnx/writeOnnxFolder.js";
import { spreadTokens } from "../decodeBatch.js";
import { headDimOf, shapeOf } from "../modelShapes.js";
import { serve } from "./program.js";
import type { DecodeWork, PrefillWork, Work } from "./workloads.js";

const [folder, threads, shape] = process.argv.slice(2);
const c = shapeOf(shape!);
const headDim = headDimOf(c);

/** The folder's weights as a graph beside them, in float32: ONNX Runtime has no bfloat16 on processors. */
async function graphOf(source: string): Promise<string> {
  const target = join(source, "exported");
  if (!existsSync(target)) {
    const made = `${target}.new`;
    rmSync(made, { recursive: true, force: true });
    mkdirSync(made);
    const none = { spec: { rank: 1, alpha: 1, rslora: false, targets: [] }, tensors: new Map() };
    await writeOnnxFolder(made, source, none, {});
    renameSync(made, target);
  }
  return join(target, "onnx", "model.onnx");
}

const session = await InferenceSession.create(await graphOf(folder!), {
  executionProviders: ["cpu"],
  intraOpNumThreads: Number(threads),
  logSeverityLevel: 3,
});
const cacheNames = session.inputNames.filter((name) => name.startsWith("past_key_values."));

/** Keys and values of `rows` sequences of `length` tokens: [rows, key-value heads, length, head width] each. */
interface Cache {
  rows: number;
  length: number;
  tensors: Map<string, Tensor>;
}

function emptyCache(): Cache {
  const shape = [1, c.num_key_value_heads, 0, headDim];
  return {
    rows: 1,
    length: 0,
    tensors: new Map(cacheNames.map((n) => [n, new Tensor("float32", new Float32Array(0), shape)])),
  };
}

/** The tokens [rows, length] after those of the cache: their most likely successors, one a row, and the cache with them. */
async function run(tokens: readonly (readonly number[])[], { rows, length: before, tensors }: Cache) {
  const length = tokens[0]!.length;
  const whole = (width: number, value: (row: number, i: number) => number) =>
    new Tensor(
      "int64",
      BigInt64Array.from({ length: rows * width }, (_, i) => BigInt(value(Math.floor(i / width), i % width))),
      [rows, width],
    );
  const outputs = await session.run({
    input_ids: whole(length, (row, i) => tokens[row]![i]!),
    attention_mask: whole(before + length, () => 1),
    position_ids: whole(length, (_, i) => before + i),
    ...Object.fromEntries(tensors),
  });
  const logits = outputs.logits!.data as Float32Array;
  const next = tokens.map((_, row) =>
    mostLikely(logits.subarray(((row + 1) * length - 1) * c.vocab_size), c.vocab_size),
  );
  outputs.logits!.dispose();
  const present = cacheNames.map((name) => [name, outputs[name.replace("past_key_values", "present")]!] as const);
  return { next, cache: { rows, length: before + length, tensors: new Map(present) } };
}

function mostLikely(logits: Float32Array, vocab: number): number {
  let best = 0;
  for (let id = 1; id < vocab; id++) if (logits[id]! > logits[best]!) best = id;
  return best;
}

/** One after another, as rows of one. */
function stacked(caches: readonly Cache[]): Cache {
  const { length } = caches[0]!;
  const tensors = cacheNames.map((name) => {
    const parts = caches.map((cache) => cache.tensors.get(name)!.data as Float32Array);
    const all = new Float32Array(parts.length * parts[0]!.length);
    for (const [i, part] of parts.entries()) all.set(part, i * part.length);
    return [name, new Tensor("float32", all, [caches.length, c.num_key_value_heads, length, headDim])] as const;
  });
  return { rows: caches.length, length, tensors: new Map(tensors) };
}

const prompt = (count: number, salt: number): number[] => [...spreadTokens(count, c.vocab_size, salt)];

/** The prompts of the latest work but their last tokens, which its next run goes on from again. */
let kept: { of: string; cache: Cache } | undefined;

async function decode(work: DecodeWork) {
  const { count, context, tokens, shared } = work;
  const began = performance.now();
  const of = JSON.stringify(work);
  const prompts = Array.from({ length: count }, (_, i) => prompt(context, shared ? 0 : i));
  if (kept?.of !== of) {
    const caches: Cache[] = [];
    for (const one of prompts) caches.push((await run([one.slice(0, -1)], emptyCache())).cache);
    kept = { of, cache: stacked(caches) };
  }
  let state = { next: prompts.map((one) => one.at(-1)!), cache: kept.cache };
  const from = performance.now();
  for (let i = 0; i < tokens; i++) {
    state = await run(
      state.next.map((token) => [token]),
      state.cache,
    );
  }
  const end = performance.now();
  return { seconds: (end - from) / 1000, share: (end - from) / (end - began) };
}

async function prefill({ context }: PrefillWork) {
  const tokens = prompt(context, 0);
  const from = performance.now();
  await run([tokens], emptyCache());
  return { seconds: (performance.now() - from) / 1000 };
}

const { version } = createRequire(import.meta.url)("onnxruntime-node/package.json") as { version: string };
await serve(
  { version: `onnxruntime-node ${version}`, kinds: ["decode", "prefill"], note: "float32, graph exported by anneal" },
  async (work: Work) => (work.kind === "decode" ? decode(work) : prefill(work as PrefillWork)),
);
process.exit(0);
