/**
 * What is told of memory before it is taken, beside what the operating system says was taken (Linux).
 *
 *   npx tsx benchmarks/memory.ts FOLDER|FILE.gguf [--quantize q8] [--decode 8x500] [--rows 4x256] [--rank 16] [--all-weights]
 *
 * - weights: reading them; told by `memory()` of the runtime.
 * - decode: the KV pages and recurrent states of so many sequences with contexts of so many tokens, and their steps.
 * - train: a trainer, forward and backward over so many rows of so many tokens in one pass, and a step of AdamW, twice;
 *   told by `memory()` of the trainer, passes and state together.
 *
 * Taken is how far the peak of resident memory (VmHWM, set back before each) lies above what was resident before. Node's own
 * memory is in it: some ten megabytes.
 */
import { setTimeout as sleep } from "node:timers/promises";
import { parseArgs } from "node:util";
import { openRuntime } from "../src/runtime/runtime.js";
import { accumulateGradient } from "../src/training/forwardBackward.js";
import { crossEntropyLoss } from "../src/training/losses.js";
import { OPTIMIZER } from "../src/training/optimizer.js";
import { modulesOf } from "../src/weights/adapterModules.js";
import { openWeightFiles } from "../src/weights/index.js";
import { plainSlot } from "../test/native/plainSlot.js";
import { resetPeak, residentMemory } from "../test/native/residentMemory.js";
import { DecodeBatch, openContexts, pagesFor, spreadRows, statesFor } from "./decodeBatch.js";
import { quantizationOf } from "./quantizeOption.js";

/** Milliseconds in which what was closed gives its memory back. */
const GIVING_BACK = 500;

const DECODED = 4;
const STEPS = 2;

const { values: options, positionals } = parseArgs({
  options: {
    quantize: { type: "string" },
    decode: { type: "string", default: "8x500" },
    rows: { type: "string", default: "4x256" },
    rank: { type: "string", default: "16" },
    "all-weights": { type: "boolean", default: false },
  },
  allowPositionals: true,
});

function counts(option: "decode" | "rows"): [number, number] {
  const found = /^([1-9]\d*)x([1-9]\d*)$/.exec(options[option]);
  if (!found) throw new RangeError(`--${option} ${options[option]}: must be as 4x256`);
  return [Number(found[1]), Number(found[2])];
}

const mib = (bytes: number): string => (bytes / 2 ** 20).toFixed(0).padStart(7);

/** `told` may be known only once something has been taken. */
async function measure(what: string, body: () => Promise<{ told: number }>): Promise<void> {
  globalThis.gc?.();
  resetPeak();
  const before = residentMemory().now;
  const { told } = await body();
  const taken = residentMemory().peak - before;
  await sleep(GIVING_BACK);
  const share = ((100 * taken) / told).toFixed(0);
  console.log(
    `${what.padEnd(32)} told ${mib(told)}  taken ${mib(taken)} (${share} %)  left ${mib(residentMemory().now - before)}`,
  );
}

const quantization = quantizationOf(options.quantize);
const [sequences, context] = counts("decode");
const [count, length] = counts("rows");

const runtime = openRuntime();
const { config, tensors } = await openWeightFiles(positionals[0]!, quantization);
const memory = runtime.memory(config, "bfloat16");
const pages = pagesFor(sequences, context, DECODED);
const recurrentStates = memory.recurrentState && statesFor(sequences);
const load = () => runtime.load({ config, tensors, dtype: "bfloat16", kvPages: pages, recurrentStates });
let model!: Awaited<ReturnType<typeof load>>;
await measure("weights", async () => {
  model = await load();
  return { told: memory.weights };
});
await measure(`decode ${options.decode}`, async () => {
  const blocks = await openContexts(model, sequences, context, DECODED);
  const batch = new DecodeBatch(model, blocks, context, () => plainSlot({ temperature: 0 }));
  for (let i = 0; i < DECODED; i++) await batch.step(i);
  batch.close();
  return { told: pages * memory.page + recurrentStates * memory.recurrentState };
});
const rows = spreadRows(count, length, config.vocab);
const spec = { rank: Number(options.rank), alpha: 32, rslora: false, targets: modulesOf(config) };
await measure(options["all-weights"] ? `all weights ${options.rows}` : `LoRA ${options.rows}`, async () => {
  const trainer = options["all-weights"] ? await model.trainWeights() : await model.trainAdapter(spec, { seed: 1n });
  const plan = await trainer.memory!({ trained: [rows], evaluated: [] }, { memoryBudget: 0 });
  const limits = { maxTokens: count * length, passTokens: count * length, memoryBudget: 0 };
  for (let i = 0; i < STEPS; i++) {
    await accumulateGradient(trainer, rows, crossEntropyLoss(rows), limits);
    await trainer.optimStep({ ...OPTIMIZER.sft, learningRate: 1e-4 });
  }
  trainer.close();
  return { told: plan!.passes + plan!.state };
});
model.close();
