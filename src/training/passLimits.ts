// How much one pass of training may hold.

import type { PassLimits } from "./forwardBackward.js";
import type { TrainingBase } from "./host.js";

/** Tokens of one pass: enough that products run at full speed and most groups need one pass. */
const MAX_PASS_TOKENS = 16_384;

/** Bytes up to which a pass keeps activations; whole layers are recomputed beyond it. */
const MAX_KEPT_BYTES = 2 * 2 ** 30;

/** Small models train within this much, whatever the estimate of available memory says. */
const MIN_PASS_BYTES = 64 * 2 ** 20;

/** `activationMemory`: bytes that a pass may take. */
export function passLimits(base: TrainingBase, activationMemory: number): Omit<PassLimits, "signal"> {
  const memoryBudget = Math.floor(Math.max(MIN_PASS_BYTES, activationMemory));
  return {
    maxTokens: Math.max(MAX_PASS_TOKENS, base.contextLength),
    memoryBudget,
    keepBytes: Math.min(MAX_KEPT_BYTES, memoryBudget),
  };
}
