/**
 * Tokens per second of the compute core at the shapes of published models, random weights, bfloat16:
 *
 *   npx tsx benchmarks/speed.ts [--shape qwen3-0.6b] [--threads 2] [--repeats 5] [--folder <cache>]
 *
 * Decode at 1, 8 and 16 sequences with 512 tokens of context each, prefill of 512 tokens, and a LoRA step (forward,
 * backward, AdamW; rank 16, all projections) over 4 rows of 256 tokens. Medians, with the fastest and slowest in brackets.
 */
import { tmpdir } from "node:os";
import { join } from "node:path";
import { parseArgs } from "node:util";
import { type DeviceModel, openRuntime, type SlotParams } from "../src/runtime/runtime.js";
import { openWeightFolder } from "../src/weights/index.js";
import { type ModelShape, modelShapes, randomFolder } from "./modelShapes.js";

const { values: options } = parseArgs({
  options: {
    shape: { type: "string", multiple: true, default: Object.keys(modelShapes) },
    threads: { type: "string" },
    repeats: { type: "string", default: "5" },
    folder: { type: "string", default: join(tmpdir(), "anneal-benchmarks") },
  },
});
const repeats = Number(options.repeats);
const context = 512;
const page = 64;

const greedy: SlotParams = {
  temperature: 0,
  topP: 1,
  topK: 0,
  minP: 0,
  repetitionPenalty: 1,
  frequencyPenalty: 0,
  presencePenalty: 0,
  seed: 0n,
  choice: 0,
  minTokens: 0,
  endIds: new Int32Array(),
  biasIds: new Int32Array(),
  biasValues: new Float32Array(),
  allowedIds: null,
  badWords: [],
  prompt: new Int32Array(),
  topLogprobs: -1,
};

/** Runs `body` once unmeasured, then `repeats` times; prints how many of `tokens` pass in a second. */
async function measure(what: string, tokens: number, body: () => Promise<unknown>): Promise<void> {
  await body();
  const rates: number[] = [];
  for (let i = 0; i < repeats; i++) {
    const began = performance.now();
    await body();
    rates.push((1000 * tokens) / (performance.now() - began));
  }
  rates.sort((a, b) => a - b);
  const show = (rate: number) => rate.toFixed(rate < 100 ? 1 : 0);
  console.log(
    `  ${what.padEnd(24)} ${show(rates[rates.length >> 1]!).padStart(8)} tokens/s  [${show(rates[0]!)} - ${show(rates.at(-1)!)}]`,
  );
}

const randomTokens = (count: number, vocab: number, salt: number): Int32Array =>
  Int32Array.from({ length: count }, (_, i) => (Math.imul(i + 1, 2654435761) + Math.imul(salt + 1, 40503)) >>> 0).map(
    (x) => (x >>> 0) % vocab,
  );

async function decode(model: DeviceModel, sequences: number): Promise<void> {
  const pagesEach = context / page + 1;
  const steps = Math.max(4, Math.round(32 / sequences));
  const slots = Array.from({ length: sequences }, () => model.openSlot(greedy));
  const blocks = slots.map((_, s) => Int32Array.from({ length: pagesEach }, (_, i) => s * pagesEach + i));
  for (const [s, slot] of slots.entries()) {
    await model.step([
      {
        slot,
        tokens: randomTokens(context, model.config.vocab, s),
        position: 0,
        blocks: blocks[s]!,
        adapter: 0,
        sample: true,
        outputIndex: 0,
        promptLogprobs: -1,
        next: null,
      },
    ]);
  }
  await measure(`decode, ${sequences} sequences`, sequences * steps, async () => {
    for (let i = 0; i < steps; i++) {
      await model.step(
        slots.map((slot, s) => ({
          slot,
          tokens: null,
          position: context + i,
          blocks: blocks[s]!,
          adapter: 0,
          sample: true,
          outputIndex: i + 1,
          promptLogprobs: -1,
          next: null,
        })),
      );
    }
  });
  for (const slot of slots) model.closeSlot(slot);
}

async function prefill(model: DeviceModel): Promise<void> {
  const blocks = Int32Array.from({ length: context / page }, (_, i) => i);
  const tokens = randomTokens(context, model.config.vocab, 0);
  await measure("prefill, 512 tokens", context, () =>
    model.step([
      {
        slot: -1,
        tokens,
        position: 0,
        blocks,
        adapter: 0,
        sample: false,
        outputIndex: 0,
        promptLogprobs: -1,
        next: null,
      },
    ]),
  );
}

async function loraStep(model: DeviceModel): Promise<void> {
  const targets = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"];
  const trainer = await model.trainAdapter({ rank: 16, alpha: 32, rslora: false, targets }, { seed: 1n });
  const rows = Array.from({ length: 4 }, (_, i) => ({ tokens: randomTokens(256, model.config.vocab, i) }));
  await measure("LoRA step, 4 x 256", 4 * 256, async () => {
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
for (const shape of options.shape as ModelShape[]) {
  if (!(shape in modelShapes)) throw new RangeError(`--shape: expected one of ${Object.keys(modelShapes).join(", ")}`);
  const folder = await openWeightFolder(randomFolder(options.folder, shape));
  const began = performance.now();
  const model = await runtime.load({
    config: folder.config,
    tensors: folder.tensors,
    dtype: "bfloat16",
    kvPages: 16 * 9,
  });
  console.log(
    `${shape}, ${runtime.threads} threads, ${model.kernelSet}: loaded in ${((performance.now() - began) / 1000).toFixed(1)} s, ${(model.bytes / 2 ** 20).toFixed(0)} MiB`,
  );
  for (const sequences of [1, 8, 16]) await decode(model, sequences);
  await prefill(model);
  await loraStep(model);
  console.log(`  peak memory of the process ${(process.resourceUsage().maxRSS / 2 ** 20).toFixed(2)} GiB`);
  model.close();
}
