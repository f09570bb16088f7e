// Held-out data of a job: which part it is, when it is evaluated, and what follows from it.

import { shouldYield, yieldToEventLoop } from "../eventLoop.js";
import { shuffling } from "../seeds.js";
import type { ValidationConfig } from "../types/training.js";

export interface ValidationSettings {
  /** Share of the data that is held out, above 0 and below 1. */
  ratio: number;
  /** Optimizer steps between two evaluations; null: the recipe's own. There is always one after the last step. */
  interval: number | null;
  /** Evaluations in a row without improvement after which training ends (early stopping); null: it does not. */
  patience: number | null;
  /** By how much the loss must fall to count as improved. */
  threshold: number;
  /** Whether the checkpoint is made of the best weights and not of the last. */
  keepBest: boolean;
}

type Reject = (field: keyof ValidationConfig, msg: string) => void;

/** null: nothing is held out. `reject` is called with every field that is out of range. */
export function resolveValidation(config: ValidationConfig, reject: Reject): ValidationSettings | null {
  const { validation_ratio: ratio, validation_interval: interval, early_stopping_patience: patience } = config;
  const { early_stopping_threshold: threshold, keep_best: keepBest } = config;
  const isCount = (value: number) => Number.isInteger(value) && value > 0;
  if (ratio != null && !(ratio >= 0 && ratio < 1))
    reject("validation_ratio", `must be at least 0 and below 1, got ${ratio}`);
  if (interval != null && !isCount(interval)) reject("validation_interval", "must be a whole number above 0");
  if (patience != null && !isCount(patience)) reject("early_stopping_patience", "must be a whole number above 0");
  if (threshold != null && !(threshold >= 0 && threshold < Number.POSITIVE_INFINITY)) {
    reject("early_stopping_threshold", `must be at least 0, got ${threshold}`);
  }
  if (!ratio) {
    const needing = { validation_interval: interval, early_stopping_patience: patience, keep_best: keepBest || null };
    for (const [field, value] of Object.entries(needing)) {
      if (value != null) reject(field as keyof ValidationConfig, "needs a validation_ratio above 0");
    }
    return null;
  }
  return {
    ratio,
    interval: interval ?? null,
    patience: patience ?? null,
    threshold: threshold ?? 0,
    keepBest: keepBest ?? true,
  };
}

/** How many of `count` items are held out: at least one, and not all; 0 when there are too few. */
export function heldOutCount({ ratio }: ValidationSettings, count: number): number {
  return count < 2 ? 0 : Math.min(count - 1, Math.max(1, Math.floor(ratio * count)));
}

/** Which of `count` items are held out; follows from the seed. */
export async function heldOut(settings: ValidationSettings, count: number, seed: number): Promise<Set<number>> {
  const order = await shuffledAsync(seed, count, "validation");
  return new Set(order.slice(0, heldOutCount(settings, count)));
}

/** 0 .. count - 1 in an order that follows from `seed` and `round`; others get their turn meanwhile. */
export async function shuffledAsync(seed: number, count: number, round: number | string): Promise<number[]> {
  const work = shuffling(seed, count, round);
  for (;;) {
    const { done, value } = work.next();
    if (done) return value;
    while (shouldYield()) await yieldToEventLoop();
  }
}

/** What a job's evaluations of its held-out data have said so far. */
export interface Standing {
  /** The lowest loss, and after how many optimizer steps it was. */
  best: { done: number; loss: number };
  /** Evaluations since then. */
  waited: number;
}

/** A loss that is not a number is no improvement. */
export function standingAfter(
  before: Standing | null,
  done: number,
  loss: number,
  { threshold }: ValidationSettings,
): Standing {
  if (before === null || Number.isNaN(before.best.loss) || loss < before.best.loss - threshold) {
    return { best: { done, loss }, waited: 0 };
  }
  return { ...before, waited: before.waited + 1 };
}
