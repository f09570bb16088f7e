/** anneal's compute core as a program that is measured: `anneal.ts FOLDER|FILE.gguf THREADS DEVICE CAP [--kernels SET] [--quantize HOW]`. */
import { parseArgs } from "node:util";
import { openRuntime, type Trainer, type TrainRow } from "../../src/runtime/runtime.js";
import { accumulateGradient } from "../../src/training/forwardBackward.js";
import { crossEntropyLoss } from "../../src/training/losses.js";
import { passSizes } from "../../src/training/passLimits.js";
import { modulesOf } from "../../src/weights/adapterModules.js";
import { openWeightFiles } from "../../src/weights/index.js";
import { plainSlot } from "../../test/native/plainSlot.js";
import { residentMemory } from "../../test/native/residentMemory.js";
import {
  DecodeBatch,
  openContexts,
  PAGE,
  pagesFor,
  plainRow,
  spreadRows,
  spreadTokens,
  statesFor,
  tableOf,
} from "../decodeBatch.js";
import { quantizationOf } from "../quantizeOption.js";
import { serve } from "./program.js";
import { type DecodeWork, type LoraWork, type PrefillWork, type RlWork, type Work, workloadsOf } from "./workloads.js";

/** Sequences that decode at once in an RL step, and tokens that are trained on at once. */
const ROLLOUTS = 256;
const TRAINED_TOKENS = 16_384;

/** Of the device's memory, what the KV cache may take beside the weights: training needs some. */
const CACHE_SHARE = 0.4;

const { values: options, positionals } = parseArgs({
  options: { kernels: { type: "string" }, quantize: { type: "string" } },
  allowPositionals: true,
});
const [path, threads, device = "cpu", cap] = positionals;
const runtime = openRuntime({ threads: Number(threads), device });
const quantization = quantizationOf(options.quantize);
const { config, tensors } = await openWeightFiles(path!, quantization);
const works = Object.values(workloadsOf(device, Number(cap ?? Number.POSITIVE_INFINITY)));
const wanted = works.map((work) => {
  if (work.kind === "decode") return pagesFor(work.count, work.context, work.tokens);
  if (work.kind === "rl") return pagesFor(Math.min(ROLLOUTS, work.groups * work.count), work.context, work.tokens);
  return pagesFor(1, work.context, 0);
});
const { weights, page, recurrentState } = runtime.memory(config, "bfloat16");
const cache = (runtime.availableMemory() - weights) * CACHE_SHARE;
const states = Math.max(...works.map((work) => (work.kind === "decode" ? statesFor(work.count) : 1)));
const recurrentStates = recurrentState && Math.min(states, Math.floor(cache / 2 / recurrentState));
const room = Math.floor((cache - recurrentStates * recurrentState) / page);
const model = await runtime.load({
  config,
  tensors,
  dtype: "bfloat16",
  kvPages: Math.min(Math.max(...wanted), room),
  recurrentStates,
  ...(options.kernels && { kernelSet: options.kernels }),
});

function requireRoom(needed: number, room: number, of: string): void {
  if (needed > room) throw new Error(`takes ${needed} ${of}; there is room for ${room}`);
}

const requirePages = (pages: number): void => requireRoom(pages, model.pages, "pages of KV cache");

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
    requirePages(pagesFor(count, context, tokens));
    if (recurrentState > 0) requireRoom(statesFor(count), model.recurrentStates, "recurrent states");
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

/** With the token that follows. */
async function prefill({ context }: PrefillWork) {
  // Its pages are those of the contexts.
  kept?.batch.close();
  kept = undefined;
  const pages = Int32Array.from({ length: pagesFor(1, context, 0) }, (_, i) => i);
  const blocks = tableOf(pages, model.pageGroups.length);
  const tokens = spreadTokens(context, config.vocab, 0);
  const slot = model.openSlot(plainSlot({ temperature: 0 }));
  const taken = await timed(() => model.step([{ ...plainRow, slot, tokens, position: 0, blocks, recurrent: 0 }]));
  model.closeSlot(slot);
  return taken;
}

let trainer: Trainer | undefined;

async function trainerOf(rank: number): Promise<Trainer> {
  const spec = { rank, alpha: 2 * rank, rslora: false, targets: modulesOf(config) };
  trainer ??= await model.trainAdapter(spec, { seed: 1n });
  return trainer;
}

const settings = { learningRate: 1e-4, beta1: 0.9, beta2: 0.99, eps: 1e-8, weightDecay: 0.1, maxGradNorm: 0.1 };

async function lora({ count, context, rank }: LoraWork) {
  const owned = await trainerOf(rank);
  const rows = spreadRows(count, context, config.vocab);
  const limits = { ...passSizes({ contextLength: context, device: model }), memoryBudget: 0 };
  const took = await timed(async () => {
    await accumulateGradient(owned, rows, crossEntropyLoss(rows), limits);
    await owned.optimStep(settings);
  });
  return { ...took, peakBytes: peakBytes() };
}

/** The most memory that this process had at one time; null: not told by this system. */
function peakBytes(): number | null {
  try {
    return residentMemory().peak;
  } catch {
    return null;
  }
}

async function rl(work: RlWork) {
  const { groups, count, context, tokens, rank } = work;
  kept?.batch.close();
  kept = undefined;
  const owned = await trainerOf(rank);
  const each = pagesFor(1, context, tokens);
  // Whole groups at a time, as many as there are pages for.
  const atOnce = Math.min(groups, Math.max(1, Math.floor(ROLLOUTS / count)), Math.floor(model.pages / (each * count)));
  requirePages(each * count);
  return timed(async () => {
    const version = await owned.publish();
    const rows: TrainRow[] = [];
    for (let first = 0; first < groups; first += atOnce) {
      const prompts = Array.from({ length: Math.min(atOnce, groups - first) }, (_, g) =>
        spreadTokens(context, config.vocab, first + g),
      );
      rows.push(...(await rollouts(prompts, work, version)));
    }
    const perPass = Math.max(1, Math.floor(TRAINED_TOKENS / (context + count * tokens)));
    for (let first = 0; first < groups; first += perPass) {
      const some = rows.slice(first * count, (first + perPass) * count).map((row, i) => {
        if (i % count === 0) return row;
        // From the last token of the prompt on, which predicts the first one drawn.
        return { tokens: row.tokens.subarray(context - 1), prefix: i - (i % count), prefixLength: context - 1 };
      });
      const pass = await owned.forward(some);
      // As of advantages that differ within a group; what is not trained counts as nothing.
      const each = (i: number) => (i % 2 === 0 ? -1 : 1) / (groups * count * tokens);
      await pass.backward(pass.logprobs.map((row, i) => row.map((logprob) => (logprob === 0 ? 0 : each(i)))));
    }
    await owned.optimStep(settings);
    model.releaseAdapter(version);
  });
}

/** Prompts with what was drawn after them, `count` of each. */
async function rollouts(
  prompts: Int32Array[],
  { count, context, tokens }: RlWork,
  adapter: number,
): Promise<TrainRow[]> {
  const each = pagesFor(1, context, tokens);
  const sequences = prompts.flatMap((prompt) => Array.from({ length: count }, () => prompt));
  const blocks = sequences.map((_, s) => Int32Array.from({ length: each }, (_, i) => s * each + i));
  const slots = sequences.map((_, s) => model.openSlot(plainSlot({ seed: BigInt(s) })));
  const drawn = sequences.map((prompt) => {
    const row = new Int32Array(context + tokens);
    row.set(prompt);
    return row;
  });
  const whole = Math.floor((context - 1) / PAGE);
  for (const [s, prompt] of sequences.entries()) {
    if (s % count > 0) blocks[s]!.set(blocks[s - (s % count)]!.subarray(0, whole));
    const position = s % count > 0 ? whole * PAGE : 0;
    const given = prompt.subarray(position, context - 1);
    if (given.length === 0) continue;
    await model.step([{ ...plainRow, slot: -1, sample: false, tokens: given, position, blocks: blocks[s]!, adapter }]);
  }
  for (let output = 0; output < tokens; output++) {
    const { tokens: found } = await model.step(
      slots.map((slot, s) => ({
        ...plainRow,
        slot,
        tokens: output === 0 ? sequences[s]!.subarray(context - 1) : null,
        position: context - 1 + output,
        blocks: blocks[s]!,
        adapter,
        outputIndex: output,
      })),
    );
    for (const [s, token] of found.entries()) drawn[s]![context + output] = token;
  }
  for (const slot of slots) model.closeSlot(slot);
  const trained = new Uint8Array(context + tokens).fill(1, context - 1);
  return drawn.map((row) => ({ tokens: row, trained }));
}

// Rollouts share pages of their prompt, as models of one group of layers can without states.
const shares = recurrentState === 0 && model.pageGroups.length === 1;
await serve(
  { version: model.kernelSet, kinds: ["decode", "prefill", "lora", ...(shares ? ["rl"] : [])] },
  async (work: Work) => {
    switch (work.kind) {
      case "decode":
        return decode(work);
      case "lora":
        return lora(work);
      case "rl":
        return rl(work);
      default:
        return prefill(work);
    }
  },
);
process.exit(0);
