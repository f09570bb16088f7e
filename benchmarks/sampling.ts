/**
 * What sampling options cost in a decode step, on every row of the batch, at the vocabulary of Qwen3 (151,936 entries):
 *
 *   npx tsx benchmarks/sampling.ts [--rows 1 --rows 8 ...] [--rounds 15] [--shape qwen3-0.6b] [--folder <cache>]
 *
 * Every round takes one step with each setting in turn and one without any option (greedy) between every two, so that a
 * machine that changes its pace changes all of them. Steps are compared at their lower quartile, which a busy neighbour disturbs least. Random weights give a nearly flat distribution, the hardest case for top_p.
 */
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { openRuntime, type SlotParams } from "../src/runtime/runtime.js";
import { openWeightFolder } from "../src/weights/index.js";
import { plainSlot } from "../test/native/plainSlot.js";
import { DecodeBatch, openContexts, pagesFor, spreadTokens } from "./decodeBatch.js";
import { type ModelShape, randomFolder } from "./modelShapes.js";

const { values: options } = parseArgs({
  options: {
    shape: { type: "string", default: "qwen3-0.6b" },
    rows: { type: "string", multiple: true, default: ["1", "8", "16", "32"] },
    rounds: { type: "string", default: "15" },
    threads: { type: "string" },
    folder: { type: "string", default: join(tmpdir(), "anneal-benchmarks") },
  },
});
const rounds = Number(options.rounds);
const CONTEXT = 64;

const folder = await openWeightFolder(randomFolder(options.folder, options.shape as ModelShape));
const vocab = folder.config.vocab;
const sparse = spreadTokens(100, vocab, 7).sort();
const temperature = { temperature: 0.7 };
const topK = { ...temperature, topK: 50 };
const topP = { ...temperature, topP: 0.9 };
const minP = { ...temperature, minP: 0.02 };
const penalties = {
  repetitionPenalty: 1.1,
  presencePenalty: 0.2,
  frequencyPenalty: 0.2,
  prompt: spreadTokens(CONTEXT, vocab, 0),
};
const bias = { biasIds: sparse, biasValues: new Float32Array(sparse.length).fill(0.5) };
const allowed = { allowedIds: Int32Array.from({ length: vocab }, (_, id) => id).filter((id) => id % 10 > 0) };
const badWords = { badWords: Array.from({ length: 100 }, (_, i) => spreadTokens(1 + (i % 3), vocab, i)) };
const minTokens = { minTokens: 1_000_000, endIds: sparse.slice(0, 5) };
const logprobs = { topLogprobs: 20 };
const masks = { ...bias, ...allowed, ...badWords, ...minTokens };
const settings: [string, Partial<SlotParams>][] = [
  ["temperature 0.7", temperature],
  ["top_k 50", topK],
  ["top_p 0.9", topP],
  ["min_p 0.02", minP],
  ["penalties", penalties],
  ["logit_bias, 100 ids", bias],
  ["allowed_token_ids, 90 %", allowed],
  ["bad_words, 100", badWords],
  ["min_tokens", minTokens],
  ["logprobs 20", logprobs],
  ["all but top_k", { ...masks, ...penalties, ...logprobs, ...minP, ...topP }],
  ["all", { ...masks, ...penalties, ...logprobs, ...minP, ...topP, ...topK }],
];

const lowerQuartile = (values: number[]): number => values.sort((a, b) => a - b)[values.length >> 2]!;

const runtime = openRuntime(options.threads ? { threads: Number(options.threads) } : {});
const batches = options.rows.map(Number);
const kvPages = pagesFor(Math.max(...batches), CONTEXT, 1);
const model = await runtime.load({ config: folder.config, tensors: folder.tensors, dtype: "bfloat16", kvPages });
console.log(`${options.shape}, ${vocab} entries, ${runtime.threads} threads, ${model.kernelSet}, context ${CONTEXT}`);
for (const rows of batches) {
  const blocks = await openContexts(model, rows, CONTEXT, 1);
  const open = (params: Partial<SlotParams>) =>
    new DecodeBatch(model, blocks, CONTEXT, (s) => plainSlot({ temperature: 0, seed: BigInt(s), ...params }));
  const plain = open({});
  const batch = settings.map(([, params]) => open(params));
  const timed = async (one: DecodeBatch): Promise<number> => {
    const began = performance.now();
    await one.step(0);
    return performance.now() - began;
  };
  for (const one of [plain, ...batch]) await timed(one);
  const plainTimes: number[] = [];
  const times = batch.map((): number[] => []);
  for (let round = 0; round < rounds; round++) {
    for (const [i, one] of batch.entries()) {
      plainTimes.push(await timed(plain));
      times[i]!.push(await timed(one));
    }
  }
  const base = lowerQuartile(plainTimes);
  console.log(`\n${rows} rows: greedy, no option ${base.toFixed(2)} ms`);
  for (const [i, [name]] of settings.entries()) {
    const time = lowerQuartile(times[i]!);
    const cost = `${(100 * (time / base - 1)).toFixed(1)} %`;
    console.log(`  ${name.padEnd(24)} ${time.toFixed(2).padStart(8)} ms  ${cost.padStart(7)}`);
  }
  for (const one of [plain, ...batch]) one.close();
}
model.close();
