// What a job will take, told before its first step.

import { elementsOf } from "../elementCount.js";
import { AnnealError } from "../errors.js";
import { shouldYield, yieldToEventLoop } from "../eventLoop.js";
import { openRuntime, type Trainer } from "../runtime/runtime.js";
import type { TrainingEstimate } from "../types/training.js";
import type { PassLimits } from "./forwardBackward.js";
import type { Learner } from "./learner.js";
import { crossEntropyLoss } from "./losses.js";
import { cutIntoPasses, packRows } from "./packing.js";
import { type PassBase, passSizes } from "./passLimits.js";
import type { LargestPasses, Recipe } from "./recipe.js";
import { countTrained, type TokenRow } from "./tokenRow.js";
import type { TrainingBase } from "./trainingBase.js";

/** Of a trainer that does not tell: value, gradient and two moments, float32. */
const BYTES_PER_PARAMETER = 16;

/** Of the copy of value and moments that is written. */
const HELD_BYTES_PER_PARAMETER = 12;

/** At most, of the row whose forward and backward passes are timed. */
const PROBE_TOKENS = 256;

/** Short probes are repeated for this long, in milliseconds: a busy machine takes turns. */
const MIN_PROBE_TIME = 100;

/** Jobs of fewer tokens than this many probes are over before a probe would be worth it. */
const MIN_PROBES = 20;

/** An evaluation is one of three products of about the same size; the others are forward's and backward's by the head and the layers. */
const EVALUATION_SHARE = 1 / 3;

/** Rejects as the learner does. */
export async function estimateJob(
  recipe: Pick<Recipe, "work">,
  base: TrainingBase,
  trainer: Trainer,
  learner: Learner,
  limits: Omit<PassLimits, "signal">,
): Promise<TrainingEstimate> {
  const { perStep, largest, evaluated, probe } = recipe.work;
  const tokens = perStep.reduce((sum, one) => sum + one, 0);
  // It takes nothing of this machine, and how long another one takes depends on what others ask of it.
  if (trainer.elsewhere) return { tokens, memory_bytes: 0 };
  const memory = await memoryOf(largest, base, trainer, limits);
  const estimate: TrainingEstimate = { tokens, memory_bytes: memory };
  if (probe === null || tokens < MIN_PROBES * PROBE_TOKENS) return estimate;
  const perToken = await secondsPerToken(probe, trainer, learner);
  return { ...estimate, seconds: perToken * (tokens + EVALUATION_SHARE * evaluated) };
}

/** Rejects where a row does not fit by itself: the job would, once it came to that row. */
async function memoryOf(
  { trained, evaluated, usesEntropy: entropyGradient }: LargestPasses,
  base: TrainingBase,
  trainer: Trainer,
  { memoryBudget }: Omit<PassLimits, "signal">,
): Promise<number> {
  const parameters = elementsOf(trainer.tensors());
  const options = { memoryBudget, entropyGradient };
  const plan = (passes: Omit<LargestPasses, "usesEntropy">) =>
    trainer.memory?.({ trained: passes.trained.map(packRows), evaluated: passes.evaluated.map(packRows) }, options);
  let told = await plan({ trained, evaluated })?.catch(refusal);
  if (told instanceof AnnealError) {
    // Passes of several rows are cut apart where they do not fit.
    const rowByRow = (passes: TokenRow[][]) => passes.flat().map((row) => [row]);
    const least = await plan({ trained: rowByRow(trained), evaluated: rowByRow(evaluated) });
    told = least && { ...least, passes: memoryBudget };
  }
  if (told) return told.passes + told.state + parameters * HELD_BYTES_PER_PARAMETER;
  const { activationPerToken } = openRuntime({ device: base.device.device }).memory(
    base.device.config,
    base.device.dtype,
  );
  const tokens = Math.max(0, ...trained.map((rows) => packRows(rows).reduce((sum, row) => sum + row.tokens.length, 0)));
  return Math.min(memoryBudget, Math.ceil(tokens * activationPerToken)) + parameters * BYTES_PER_PARAMETER;
}

/** @throws what is no lack of room in the budget */
function refusal(error: unknown): AnnealError {
  if (error instanceof AnnealError && error.param === "memoryBudget") return error;
  throw error;
}

/** Of forward and backward; the gradient is cleared again. */
async function secondsPerToken(row: TokenRow, trainer: Trainer, learner: Learner): Promise<number> {
  const end = Math.min(row.tokens.length, PROBE_TOKENS);
  const rows = [{ tokens: row.tokens.slice(-end), trained: row.trained.slice(-end).fill(0, 0, 1) }];
  const loss = crossEntropyLoss(rows);
  // The first pass makes room for itself.
  await learner.forwardBackward(rows, loss);
  const begin = performance.now();
  let count = 0;
  while (performance.now() - begin < MIN_PROBE_TIME) {
    await learner.forwardBackward(rows, loss);
    count += 1;
  }
  const seconds = (performance.now() - begin) / 1000;
  await trainer.zeroGrad();
  return seconds / count / end;
}

interface PlannedWork {
  steps: readonly { rows: readonly TokenRow[] }[];
  heldOut: readonly TokenRow[];
  /** Whether the loss of a step is separable row by row, or not at all. */
  isSeparable: boolean;
  usesEntropy: boolean;
}

/** Other work of the thread has its turn. */
export async function workOf(
  { steps, heldOut, isSeparable, usesEntropy }: PlannedWork,
  base: PassBase & { readonly device: { readonly pageSize: number } },
): Promise<Pick<Recipe["work"], "perStep" | "largest">> {
  const sizes = passSizes(base);
  const perStep: number[] = [];
  const trained = new Largest(base.device.pageSize);
  for (const { rows } of steps) {
    let passes = cutIntoPasses(rows, sizes, isSeparable ? 1 : rows.length);
    perStep.push(passes.reduce((sum, { tokens }) => sum + tokens, 0));
    // Where what belongs together is too long, its values are computed first, and its gradient pass by pass.
    if (passes.some(({ from, to, tokens }) => tokens > sizes.maxTokens && to - from > 1))
      passes = cutIntoPasses(rows, sizes);
    for (const { from, to, tokens } of passes) trained.add(rows.slice(from, to), tokens);
    while (shouldYield()) await yieldToEventLoop();
  }
  const evaluated = new Largest(base.device.pageSize);
  for (const { from, to, tokens } of cutIntoPasses(heldOut, sizes)) evaluated.add(heldOut.slice(from, to), tokens);
  return { perStep, largest: { trained: trained.passes, evaluated: evaluated.passes, usesEntropy } };
}

/** Of many passes those with the most tokens, predictions, pages, and tokens of one row. */
class Largest {
  readonly #pageSize: number;
  readonly #most = new Map<string, { size: number; rows: TokenRow[] }>();

  constructor(pageSize: number) {
    this.#pageSize = pageSize;
  }

  add(rows: TokenRow[], tokens: number): void {
    const sum = (of: (row: TokenRow) => number) => rows.reduce((total, row) => total + of(row), 0);
    this.#keep("tokens", tokens, rows);
    this.#keep("predictions", sum(countTrained), rows);
    this.#keep(
      "pages",
      sum((row) => Math.ceil(row.tokens.length / this.#pageSize)),
      rows,
    );
    this.#keep("row", Math.max(...rows.map((row) => row.tokens.length)), rows);
  }

  #keep(kind: string, size: number, rows: TokenRow[]): void {
    if (size > (this.#most.get(kind)?.size ?? -1)) this.#most.set(kind, { size, rows });
  }

  get passes(): TokenRow[][] {
    return [...new Set(Array.from(this.#most.values(), ({ rows }) => rows))];
  }
}
