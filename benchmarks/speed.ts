/**
 * Tokens per second of the compute core at the shapes of published models, random weights, bfloat16 or quantised:
 *
 *   npx tsx benchmarks/speed.ts [--shape qwen3-0.6b] [--threads 2] [--repeats 5] [--only decode|prefill|lora] [--folder <cache>]
 *     [--quantize q8|q4] [--kernels avx512vnni]
 *
 * Decode at 1, 8 and 16 sequences with 512 tokens of context each, prefill of 512 tokens, and a LoRA step (forward,
 * backward, AdamW; rank 16, all projections) over 4 rows of 256 tokens. Medians, with the slowest and fastest in brackets, and
 * the share of what is possible: before and after each row the machine's read bandwidth and arithmetic are probed, and the
 * limit is the slower of reading weights and cache once and doing the multiplications.
 */
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { type DeviceModel, openRuntime } from "../src/runtime/runtime.js";
import { openWeightFiles } from "../src/weights/index.js";
import { plainSlot } from "../test/native/plainSlot.js";
import { DecodeBatch, openContexts, pagesFor, plainRow, spreadTokens } from "./decodeBatch.js";
import { machineProbe } from "./machineProbe.js";
import { type ModelShape, modelShapes, randomFolder } from "./modelShapes.js";

const { values: options } = parseArgs({
  options: {
    shape: { type: "string", multiple: true, default: Object.keys(modelShapes) },
    threads: { type: "string" },
    only: { type: "string", multiple: true, default: ["decode", "prefill", "lora"] },
    repeats: { type: "string", default: "5" },
    quantize: { type: "string" },
    kernels: { type: "string" },
    folder: { type: "string", default: join(tmpdir(), "anneal-benchmarks") },
  },
});
const repeats = Number(options.repeats);
const CONTEXT = 512;

/** Bytes read and operations done for `tokens` tokens, by which a limit is computed. */
interface Work {
  tokens: number;
  bytes: number;
  operations: number;
}

/** Runs `body` once unmeasured, then `repeats` times; prints how many tokens pass in a second. */
async function measure(what: string, work: Work, body: () => Promise<unknown>): Promise<void> {
  await body();
  const before = probe();
  const rates: number[] = [];
  for (let i = 0; i < repeats; i++) {
    const began = performance.now();
    await body();
    rates.push((1000 * work.tokens) / (performance.now() - began));
  }
  const after = probe();
  const bandwidth = (before.bandwidth + after.bandwidth) / 2;
  const operations = (before.operations + after.operations) / 2;
  const limit = work.tokens / Math.max(work.bytes / bandwidth / 1e9, work.operations / operations / 1e9);
  rates.sort((a, b) => a - b);
  const middle = rates[rates.length >> 1]!;
  const show = (rate: number) => rate.toFixed(rate < 100 ? 1 : 0);
  console.log(
    `  ${what.padEnd(22)} ${show(middle).padStart(6)} tokens/s  [${show(rates[0]!)} - ${show(rates.at(-1)!)}], ` +
      `${((100 * middle) / limit).toFixed(0)} % of ${show(limit)} (${bandwidth.toFixed(0)} GB/s, ${operations.toFixed(0)} GFLOP/s)`,
  );
}

/** Elements of the products of one token, in the layers and in the head; and bytes of a weight. */
function productsOf({ config, dtype }: DeviceModel): { layers: number; head: number; width: number } {
  const { hidden, layers } = config;
  const { heads, kvHeads, headDim } = layers[0]!.attention;
  const { intermediate } = layers[0]!.feedForward;
  const attention = 2 * hidden * heads * headDim + 2 * hidden * kvHeads * headDim;
  const products = { layers: layers.length * (attention + 3 * hidden * intermediate), head: hidden * config.vocab };
  return { ...products, width: runtime.memory(config, dtype).weights / (products.layers + products.head) };
}

async function decode(model: DeviceModel, sequences: number): Promise<void> {
  const steps = Math.max(4, Math.round(32 / sequences));
  const blocks = await openContexts(model, sequences, CONTEXT, steps);
  const batch = new DecodeBatch(model, blocks, CONTEXT, () => plainSlot({ temperature: 0 }));
  const { layers, head, width } = productsOf(model);
  const { config } = model;
  const { heads, kvHeads, headDim } = config.layers[0]!.attention;
  const cache = sequences * (CONTEXT + steps / 2) * config.layers.length * 2 * kvHeads * headDim;
  const scores = cache * (heads / kvHeads);
  await measure(
    `decode, ${sequences} sequences`,
    {
      tokens: sequences * steps,
      bytes: steps * (width * (layers + head) + 2 * cache),
      operations: steps * 2 * (sequences * (layers + head) + scores),
    },
    async () => {
      for (let i = 0; i < steps; i++) await batch.step(i);
    },
  );
  batch.close();
}

async function prefill(model: DeviceModel): Promise<void> {
  const blocks = Int32Array.from({ length: pagesFor(1, CONTEXT, 0) }, (_, i) => i);
  const tokens = spreadTokens(CONTEXT, model.config.vocab, 0);
  const { layers, width } = productsOf(model);
  const { heads, headDim } = model.config.layers[0]!.attention;
  const scores = model.config.layers.length * 2 * (CONTEXT / 2) * heads * headDim;
  await measure(
    "prefill, 512 tokens",
    { tokens: CONTEXT, bytes: width * layers, operations: 2 * CONTEXT * (layers + scores) },
    () => model.step([{ ...plainRow, slot: -1, sample: false, tokens, position: 0, blocks }]),
  );
}

async function loraStep(model: DeviceModel): Promise<void> {
  const targets = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"];
  const trainer = await model.trainAdapter({ rank: 16, alpha: 32, rslora: false, targets }, { seed: 1n });
  const rows = Array.from({ length: 4 }, (_, i) => ({ tokens: spreadTokens(256, model.config.vocab, i) }));
  const { layers, head, width } = productsOf(model);
  // Forward, and the gradient of the activations.
  const work = { tokens: 4 * 256, bytes: 2 * width * (layers + head), operations: 2 * 2 * 4 * 256 * (layers + head) };
  await measure("LoRA step, 4 x 256", work, async () => {
    const pass = await trainer.forward(rows);
    await pass.backward(
      pass.logprobs.map((row) => new Float32Array(row.length).fill(-1 / 1020).fill(0, row.length - 1)),
    );
    await trainer.optimStep({
      learningRate: 1e-4,
      beta1: 0.9,
      beta2: 0.99,
      eps: 1e-8,
      weightDecay: 0.1,
      maxGradNorm: 0.1,
    });
  });
  trainer.close();
}

const runtime = openRuntime(options.threads ? { threads: Number(options.threads) } : {});
const probe = machineProbe(options.folder, runtime.threads);
for (const shape of options.shape as ModelShape[]) {
  if (!(shape in modelShapes)) throw new RangeError(`--shape: expected one of ${Object.keys(modelShapes).join(", ")}`);
  const folder = await openWeightFiles(
    randomFolder(options.folder, shape),
    options.quantize as "q8" | "q4" | undefined,
  );
  const began = performance.now();
  const model = await runtime.load({
    config: folder.config,
    tensors: folder.tensors,
    dtype: "bfloat16",
    kvPages: pagesFor(16, CONTEXT, 32),
    ...(options.kernels && { kernelSet: options.kernels }),
  });
  console.log(
    `${shape}, ${runtime.threads} threads, ${model.kernelSet}: loaded in ${((performance.now() - began) / 1000).toFixed(1)} s, ${(model.bytes / 2 ** 20).toFixed(0)} MiB`,
  );
  if (options.only.includes("decode")) for (const sequences of [1, 8, 16]) await decode(model, sequences);
  if (options.only.includes("prefill")) await prefill(model);
  if (options.only.includes("lora")) await loraStep(model);
  console.log(`  peak memory of the process ${(process.resourceUsage().maxRSS / 2 ** 20).toFixed(2)} GiB`);
  model.close();
}
