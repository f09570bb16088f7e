/**
 * What sampling options cost in a decode step, on every row of the batch, at the vocabulary of Qwen3 (151,936 entries):
 *
 *   npx tsx benchmarks/sampling.ts [--rows 1 --rows 8 ...] [--rounds 15] [--only all ...] [--shape qwen3-0.6b] [--folder <cache>]
 *
 * Every round takes one step with each setting in turn and one without any option (greedy) between every two. A cost is the
 * median over the rounds of a step's time over the mean of the two plain steps around it, so that a machine that changes its
 * pace changes all three. Random weights give a nearly flat distribution, the hardest case for top_p.
 */
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { openRuntime, type SlotParams } from "../src/runtime/runtime.js";
import { openWeightFolder } from "../src/weights/index.js";
import { plainSlot } from "../test/native/plainSlot.js";
import { DecodeBatch, openContexts, pagesFor, spreadTokens } from "./decodeBatch.js";
import { randomFolder } from "./modelShapes.js";
import { median } from "./speed/report.js";

const { values: options } = parseArgs({
  options: {
    shape: { type: "string", default: "qwen3-0.6b" },
    rows: { type: "string", multiple: true, default: ["1", "8", "16", "32"] },
    rounds: { type: "string", default: "15" },
    only: { type: "string", multiple: true },
    threads: { type: "string" },
    folder: { type: "string", default: join(tmpdir(), "anneal-benchmarks") },
  },
});
const rounds = Number(options.rounds);
const CONTEXT = 64;

const folder = await openWeightFolder(randomFolder(options.folder, options.shape));
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
const every: [string, Partial<SlotParams>][] = [
  ["temperature 0.7", temperature],
  ["top_k 50", topK],
  ["top_k 5000", { ...temperature, topK: 5000 }],
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

const settings = every.filter(([name]) => options.only?.includes(name) ?? true);

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
  const costs = batch.map((): number[] => []);
  let before = await timed(plain);
  for (let round = 0; round < rounds; round++) {
    for (const [i, one] of batch.entries()) {
      const time = await timed(one);
      const after = await timed(plain);
      costs[i]!.push(time / ((before + after) / 2) - 1);
      plainTimes.push(after);
      before = after;
    }
  }
  console.log(`\n${rows} rows: greedy, no option ${median(plainTimes).toFixed(2)} ms`);
  for (const [i, [name]] of settings.entries()) {
    console.log(`  ${name.padEnd(24)} ${(100 * median(costs[i]!)).toFixed(1).padStart(6)} %`);
  }
  for (const one of [plain, ...batch]) one.close();
}
model.close();
