// How much one pass of training may hold.

import type { PassLimits } from "./forwardBackward.js";
import type { TrainingBase } from "./host.js";

/** Tokens of one pass over rows that share a long beginning, or of a loss that looks at all of them. */
const MAX_PASS_TOKENS = 16_384;

export function maxPassTokens(base: Pick<TrainingBase, "contextLength">): number {
  return Math.max(MAX_PASS_TOKENS, base.contextLength);
}

/** Small models train within this much, whatever the estimate of available memory says. */
const MIN_PASS_BYTES = 64 * 2 ** 20;

/** `activationMemory`: bytes that a pass may take. */
export function passLimits(base: TrainingBase, activationMemory: number): Omit<PassLimits, "signal"> {
  const memoryBudget = Math.floor(Math.max(MIN_PASS_BYTES, activationMemory));
  return {
    maxTokens: maxPassTokens(base),
    memoryBudget,
  };
}
