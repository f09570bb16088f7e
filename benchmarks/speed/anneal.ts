/** anneal's compute core as a program that is measured: `anneal.ts FOLDER THREADS`. */
import { openRuntime, type Trainer } from "../../src/runtime/runtime.js";
import { openWeightFiles } from "../../src/weights/index.js";
import { plainSlot } from "../../test/native/plainSlot.js";
import { DecodeBatch, openContexts, pagesFor, plainRow, spreadTokens } from "../decodeBatch.js";
import { serve } from "./program.js";
import { type DecodeWork, type LoraWork, type PrefillWork, type Work, workloads } from "./workloads.js";

const [path, threads] = process.argv.slice(2);
const runtime = openRuntime({ threads: Number(threads) });
const { config, tensors } = await openWeightFiles(path!);
const pages = Object.values(workloads).map((work) =>
  work.kind === "decode" ? pagesFor(work.count, work.context, work.tokens) : pagesFor(1, work.context, 0),
);
const model = await runtime.load({ config, tensors, dtype: "bfloat16", kvPages: Math.max(...pages) });

async function timed(body: () => Promise<unknown>): Promise<{ seconds: number }> {
  const began = performance.now();
  await body();
  return { seconds: (performance.now() - began) / 1000 };
}

/** The contexts of the latest work, which its next run goes on from again. */
let kept: { of: string; batch: DecodeBatch } | undefined;

async function decode(work: DecodeWork) {
  const { count, context, tokens, shared } = work;
  const began = performance.now();
  const of = JSON.stringify(work);
  if (kept?.of !== of) {
    kept?.batch.close();
    const blocks = await openContexts(model, count, context, tokens, shared);
    kept = { of, batch: new DecodeBatch(model, blocks, context, () => plainSlot({ temperature: 0 })) };
  }
  const { batch } = kept;
  const { seconds } = await timed(async () => {
    for (let i = 0; i < tokens; i++) await batch.step(i);
  });
  return { seconds, share: (seconds * 1000) / (performance.now() - began) };
}

function prefill({ context }: PrefillWork) {
  // Its pages are those of the contexts.
  kept?.batch.close();
  kept = undefined;
  const blocks = Int32Array.from({ length: pagesFor(1, context, 0) }, (_, i) => i);
  const tokens = spreadTokens(context, config.vocab, 0);
  return timed(() => model.step([{ ...plainRow, slot: -1, sample: false, tokens, position: 0, blocks }]));
}

let trainer: Trainer | undefined;

async function lora({ count, context, rank }: LoraWork) {
  const targets = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"];
  trainer ??= await model.trainAdapter({ rank, alpha: 2 * rank, rslora: false, targets }, { seed: 1n });
  const owned = trainer;
  const rows = Array.from({ length: count }, (_, i) => ({ tokens: spreadTokens(context, config.vocab, i) }));
  const each = -1 / (count * (context - 1));
  return timed(async () => {
    const pass = await owned.forward(rows);
    await pass.backward(pass.logprobs.map((row) => new Float32Array(row.length).fill(each).fill(0, row.length - 1)));
    await owned.optimStep({
      learningRate: 1e-4,
      beta1: 0.9,
      beta2: 0.99,
      eps: 1e-8,
      weightDecay: 0.1,
      maxGradNorm: 0.1,
    });
  });
}

await serve({ version: model.kernelSet, kinds: ["decode", "prefill", "lora"] }, async (work: Work) => {
  if (work.kind === "decode") return decode(work);
  return work.kind === "prefill" ? prefill(work) : lora(work);
});
process.exit(0);
