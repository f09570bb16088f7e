// How much one pass of training may hold.

import { WIDE_FORMAT } from "../runtime/runtime.js";
import type { PassLimits } from "./forwardBackward.js";
import { FULL_SPEED_TOKENS, type PassSizes } from "./packing.js";
import type { TrainingBase } from "./trainingBase.js";

/** Tokens that are gathered in one pass of rows that may be cut apart. */
const PASS_TOKENS = 2048;

/** Tokens of one pass over rows that share a long beginning, or of a loss that looks at all of them. */
const MAX_PASS_TOKENS = 16_384;

export type PassBase = Pick<TrainingBase, "contextLength"> & {
  readonly device: Pick<TrainingBase["device"], "device" | "config">;
};

/**
 * By the base model and the kind of device alone, not by memory: the same rows give the same bits. Weights are quantised to few bits
 * where memory is short, so that passes over them keep no more activations than full speed takes; what that is on a GPU is not known.
 */
export function passSizes({ contextLength, device }: PassBase): PassSizes {
  const isShort =
    device.device === "cpu" && (device.config.quantized ?? []).some(({ format }) => format !== WIDE_FORMAT);
  return {
    maxTokens: Math.max(MAX_PASS_TOKENS, contextLength),
    passTokens: isShort ? FULL_SPEED_TOKENS : PASS_TOKENS,
  };
}

/** Small models train within this much, whatever the estimate of available memory says. */
const MIN_PASS_BYTES = 64 * 2 ** 20;

/** `activationMemory`: bytes that a pass may take. */
export function passLimits(base: TrainingBase, activationMemory: number): Omit<PassLimits, "signal"> {
  const memoryBudget = Math.floor(Math.max(MIN_PASS_BYTES, activationMemory));
  return { ...passSizes(base), memoryBudget };
}
