// Bounds of the schemas that others hold to as well: apart from them, since schemas take time to make.

import type { ValueLimits } from "../jsonCursor.js";

/** More is no adapter any more. */
export const MAX_ADAPTER_RANK = 1024;
/** Lowest and highest that the native core takes. */
export type Range = readonly [min: number, max: number];
export const ADAPTER_ALPHA: Range = [1e-6, 1e6];
/** Of AdamW. */
export const OPTIMIZER_RANGES = {
  learningRate: [0, 1000],
  // Below 1, as far as float32 tells it from 1.
  beta1: [0, 0.9999999],
  beta2: [0, 0.9999999],
  eps: [1e-30, 1],
  weightDecay: [0, 1000],
  maxGradNorm: [0, 1e30],
} as const satisfies Record<string, Range>;
/**
 * Of a body that is read from a file, what one trajectory may hold, or any other value beside the groups: one of 32,768
 * tokens with their logprobs is a third as large.
 */
export const MAX_TRAJECTORY: ValueLimits = { bytes: 16 * 2 ** 20, containers: 2 ** 20 };
