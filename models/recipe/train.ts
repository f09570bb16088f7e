/**
 * Trains the embedded model from random weights with anneal's own full training:
 *
 *   npx tsx models/recipe/train.ts --work <folder> [--steps 5500] [--threads 2]
 *
 * `--work` keeps the starting weights, checkpoints and log.jsonl; running the command again goes on from the last checkpoint.
 * At the end the weights are written to `models/tiny`.
 */
import { appendFileSync, existsSync, mkdirSync, readFileSync, renameSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { parseArgs } from "node:util";
import { type NamedTensors, openRuntime, type Trainer } from "../../src/runtime/runtime.js";
import { loadFolder } from "./deviceModel.js";
import { type NamedTensor, tensorShapes, vocabularySample, vocabularySize, writeFolder } from "./folder.js";
import { initialWeights } from "./initialWeights.js";
import { type Row, RowStream } from "./rows.js";
import { buildVocabulary, Encoder } from "./vocabulary.js";

const { values: options } = parseArgs({
  options: {
    work: { type: "string" },
    steps: { type: "string", default: "5500" },
    threads: { type: "string", default: "2" },
    out: { type: "string", default: join(dirname(fileURLToPath(import.meta.url)), "../tiny") },
  },
});
if (!options.work) throw new RangeError("--work <folder> is needed: checkpoints and the log go there");
const work = options.work;
const steps = Number(options.steps);

const recipe = {
  seed: 1,
  tokensPerStep: 4096,
  warmup: 100,
  /** Every so many steps, rows are packed with many conversations, so that late positions are trained too. */
  packedEvery: 8,
  packedLength: 1024,
  /** Share of the steps, at the end, over which the learning rate falls to zero and only the assistant's words are trained. */
  decay: 0.3,
  learningRate: 3e-3,
  beta1: 0.9,
  beta2: 0.98,
  eps: 1e-8,
  weightDecay: 0.02,
  maxGradNorm: 1,
  /** Loss weight of tokens the assistant does not write, before the decay. */
  othersWeight: 0.1,
  checkpointEvery: 500,
  /** After that: steps whose conversations are mostly drills of the skills that need most examples. */
  drillSteps: 1000,
  drills: 0.65,
  drillLearningRate: 1.2e-3,
} as const;
const allSteps = steps + recipe.drillSteps;

function learningRate(step: number): number {
  if (step >= steps) {
    const rise = Math.min(1, (step - steps + 1) / recipe.warmup);
    return recipe.drillLearningRate * rise * Math.max(0.01, (allSteps - step) / recipe.drillSteps);
  }
  const decayFrom = steps * (1 - recipe.decay);
  if (step < recipe.warmup) return (recipe.learningRate * (step + 1)) / recipe.warmup;
  return step < decayFrom
    ? recipe.learningRate
    : recipe.learningRate * Math.max(0.01, (steps - step) / (steps - decayFrom));
}

/** The rows of one step: a function of the step alone, so that a resumed run sees the same data. */
function rowsOf(encoder: Encoder, step: number): Row[] {
  const stream = new RowStream(encoder, recipe.seed * 1_000_003 + step, step < steps ? 0 : recipe.drills);
  const others = step >= steps * (1 - recipe.decay) ? 0 : recipe.othersWeight;
  const packed = step % recipe.packedEvery === recipe.packedEvery - 1;
  const rows: Row[] = [];
  let tokens = 0;
  while (tokens < recipe.tokensPerStep) {
    const row = packed ? stream.packed(recipe.packedLength, others) : stream.single(recipe.packedLength, others);
    rows.push(row);
    tokens += row.tokens.length;
  }
  return rows;
}

/** Weighted mean of -log p over the rows; accumulates its gradient. */
async function trainOn(
  trainer: Trainer,
  rows: readonly Row[],
): Promise<{ loss: number; assistantLoss: number; tokens: number }> {
  let total = 0;
  for (const row of rows) for (let t = 1; t < row.tokens.length; t++) total += row.weights[t]!;
  const pass = await trainer.forward(
    rows.map(({ tokens, weights }) => ({
      tokens,
      trained: Uint8Array.from(tokens, (_, t) => ((weights[t + 1] ?? 0) > 0 ? 1 : 0)),
    })),
  );
  let loss = 0;
  let assistantLoss = 0;
  let assistantTokens = 0;
  let tokens = 0;
  const gradients = rows.map((row, i) => {
    const logprobs = pass.logprobs[i]!;
    const gradient = new Float32Array(row.tokens.length);
    for (let t = 0; t + 1 < row.tokens.length; t++) {
      const weight = row.weights[t + 1]!;
      if (weight === 0) continue;
      gradient[t] = -weight / total;
      loss -= (weight * logprobs[t]!) / total;
      if (weight === 1) {
        assistantLoss -= logprobs[t]!;
        assistantTokens++;
      }
    }
    tokens += row.tokens.length;
    return gradient;
  });
  await pass.backward(gradients);
  return { loss, assistantLoss: assistantLoss / assistantTokens, tokens };
}

const parts = ["value", "moment1", "moment2"] as const;

/** One file per part: the float32 values of all tensors in the order of `tensorShapes`. */
async function saveCheckpoint(trainer: Trainer, step: number): Promise<void> {
  for (const part of parts) {
    const tensors = await trainer.read(part);
    const bodies = tensorShapes().map(({ name }) => {
      const { data } = tensors.get(name)!;
      return Buffer.from(data.buffer, data.byteOffset, data.byteLength);
    });
    writeFileSync(join(work, `${part}-${step}.f32`), Buffer.concat(bodies));
  }
  writeFileSync(join(work, "last.json.new"), JSON.stringify({ step, of: steps }));
  renameSync(join(work, "last.json.new"), join(work, "last.json"));
}

function readPart(part: string, step: number): NamedTensors {
  const bytes = readFileSync(join(work, `${part}-${step}.f32`));
  const all = new Float32Array(new Uint8Array(bytes).buffer);
  let at = 0;
  return new Map(
    tensorShapes().map(({ name, shape }) => {
      const count = shape.reduce((product, size) => product * size, 1);
      const data = all.slice(at, at + count);
      at += count;
      return [name, { shape, data }];
    }),
  );
}

async function resume(trainer: Trainer): Promise<number> {
  const last = join(work, "last.json");
  if (!existsSync(last)) return 0;
  const { step } = JSON.parse(readFileSync(last, "utf8")) as { step: number };
  for (const part of parts) await trainer.write(part, readPart(part, step), step);
  return step;
}

const start = join(work, "start");
const vocabulary = buildVocabulary(vocabularySize, vocabularySample);
const encoder = new Encoder(vocabulary);
mkdirSync(work, { recursive: true });
if (!existsSync(join(start, "model.safetensors"))) writeFolder(start, vocabulary, initialWeights(recipe.seed));

const runtime = openRuntime({ threads: Number(options.threads) });
const model = await loadFolder(runtime, start, 64);
const trainer = await model.trainWeights();
const first = await resume(trainer);
const began = performance.now();
let seen = 0;
for (let step = first; step < allSteps; step++) {
  const stepBegan = performance.now();
  const { loss, assistantLoss, tokens } = await trainOn(trainer, rowsOf(encoder, step));
  const rate = learningRate(step);
  const { gradNorm } = await trainer.optimStep({
    learningRate: rate,
    beta1: recipe.beta1,
    beta2: recipe.beta2,
    eps: recipe.eps,
    weightDecay: recipe.weightDecay,
    maxGradNorm: recipe.maxGradNorm,
  });
  seen += tokens;
  const seconds = (performance.now() - began) / 1000;
  appendFileSync(
    join(work, "log.jsonl"),
    `${JSON.stringify({ step: step + 1, loss, assistantLoss, gradNorm, rate, tokens, stepSeconds: (performance.now() - stepBegan) / 1000 })}\n`,
  );
  if ((step + 1) % 10 === 0 || step < 5) {
    const left = ((allSteps - step - 1) * seconds) / (step + 1 - first) / 60;
    console.log(
      `step ${step + 1}/${allSteps}  loss ${loss.toFixed(4)}  assistant ${assistantLoss.toFixed(4)}  grad ${gradNorm.toFixed(2)}  ${Math.round(seen / seconds)} tok/s  ${left.toFixed(1)} min left`,
    );
  }
  if ((step + 1) % recipe.checkpointEvery === 0 || step + 1 === allSteps) await saveCheckpoint(trainer, step + 1);
}
const values = await trainer.read("value");
const tensors: NamedTensor[] = tensorShapes().map(({ name, shape }) => ({ name, shape, data: values.get(name)!.data }));
writeFolder(options.out, vocabulary, tensors);
console.log(`wrote ${options.out}`);
trainer.close();
model.close();
