import type { SlotParams } from "../../src/runtime/runtime.js";
import { type SamplingNumbers, samplingNumbers } from "../../src/samplingNumbers.js";

/** Sampling that leaves the distribution as it is. */
export const PLAIN_SAMPLING = Object.fromEntries(
  samplingNumbers.map(({ key, neutral }) => [key, neutral]),
) as unknown as SamplingNumbers;

/** A slot that samples so. */
export function plainSlot(params: Partial<SlotParams> = {}): SlotParams {
  return {
    ...PLAIN_SAMPLING,
    seed: 0n,
    choice: 0,
    minTokens: 0,
    endIds: new Int32Array(),
    biasIds: new Int32Array(),
    biasValues: new Float32Array(),
    allowedIds: null,
    badWords: [],
    prompt: new Int32Array(),
    topLogprobs: -1,
    ...params,
  };
}
