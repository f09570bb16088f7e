// How much one pass of training may hold.

import type { PassLimits } from "./forwardBackward.js";
import type { TrainingBase } from "./host.js";

/** Tokens of one pass: enough that products run at full speed and most groups need one pass. */
const MAX_PASS_TOKENS = 16_384;

/** Bytes of saved activations in one pass; whole layers are recomputed beyond it. */
const ACTIVATION_BYTES = 2 * 2 ** 30;

export function passLimits(base: TrainingBase): Omit<PassLimits, "signal"> {
  return { maxTokens: Math.max(MAX_PASS_TOKENS, base.contextLength), memoryBudget: ACTIVATION_BYTES };
}
