// How much one pass of training may hold.

import type { PassLimits } from "./forwardBackward.js";
import type { TrainingBase } from "./host.js";

/** Tokens of one pass: enough that products run at full speed and most groups need one pass. */
const MAX_PASS_TOKENS = 16_384;

/** Bytes of saved activations in one pass; whole layers are recomputed beyond it. More would hardly be faster. */
const MOST_ACTIVATIONS = 2 * 2 ** 30;

/** Less than this saves nothing: one layer at a time is recomputed anyway. */
const LEAST_ACTIVATIONS = 64 * 2 ** 20;

/** `activationMemory`: bytes that a pass may take for activations. The numbers that come out do not depend on it. */
export function passLimits(base: TrainingBase, activationMemory: number): Omit<PassLimits, "signal"> {
  return {
    maxTokens: Math.max(MAX_PASS_TOKENS, base.contextLength),
    memoryBudget: Math.floor(Math.min(MOST_ACTIVATIONS, Math.max(LEAST_ACTIVATIONS, activationMemory))),
  };
}
