// What a job will take, told before its first step.

import { shouldYield, yieldToEventLoop } from "../eventLoop.js";
import { openRuntime, type Trainer } from "../runtime/runtime.js";
import type { TrainingEstimate } from "../types/training.js";
import type { PassLimits } from "./forwardBackward.js";
import type { TrainingBase } from "./host.js";
import type { Learner } from "./learner.js";
import { crossEntropyLoss } from "./losses.js";
import { cutIntoPasses } from "./packing.js";
import { type PassBase, passSizes } from "./passLimits.js";
import type { Recipe } from "./recipe.js";
import type { TokenRow } from "./tokenRow.js";

/** Value, gradient and two moments, float32. */
const BYTES_PER_PARAMETER = 16;

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
  const { perStep, longestPass, evaluated, probe } = recipe.work;
  const tokens = perStep.reduce((sum, one) => sum + one, 0);
  // It takes nothing of this machine, and how long another one takes depends on what others ask of it.
  if (trainer.elsewhere) return { tokens, memory_bytes: 0 };
  const inOnePass = Math.min(longestPass, limits.maxTokens);
  const { activationPerToken } = openRuntime({ device: base.device.device }).memory(
    base.device.config,
    base.device.dtype,
  );
  const parameters = trainer.tensors().reduce((sum, { shape }) => sum + shape.reduce((a, b) => a * b, 1), 0);
  const estimate: TrainingEstimate = {
    tokens,
    memory_bytes:
      Math.min(limits.memoryBudget, Math.ceil(inOnePass * activationPerToken)) + parameters * BYTES_PER_PARAMETER,
  };
  if (probe === null || tokens < MIN_PROBES * PROBE_TOKENS) return estimate;
  const perToken = await secondsPerToken(probe, trainer, learner);
  return { ...estimate, seconds: perToken * (tokens + EVALUATION_SHARE * evaluated) };
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

/** Of steps over rows whose loss is separable row by row or not at all; other work of the thread has its turn. */
export async function workOf(
  steps: readonly { rows: readonly TokenRow[] }[],
  isSeparable: boolean,
  base: PassBase,
): Promise<Pick<Recipe["work"], "perStep" | "longestPass">> {
  const perStep: number[] = [];
  let longestPass = 0;
  for (const { rows } of steps) {
    const passes = cutIntoPasses(rows, passSizes(base), isSeparable ? 1 : rows.length);
    perStep.push(passes.reduce((sum, { tokens }) => sum + tokens, 0));
    longestPass = passes.reduce((most, { tokens }) => Math.max(most, tokens), longestPass);
    while (shouldYield()) await yieldToEventLoop();
  }
  return { perStep, longestPass };
}
