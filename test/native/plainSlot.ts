import type { SlotParams } from "../../src/runtime/runtime.js";
import { NEUTRAL_NUMBERS } from "../../src/samplingNumbers.js";

/** A slot that samples from the distribution as it is. */
export function plainSlot(params: Partial<SlotParams> = {}): SlotParams {
  return {
    ...NEUTRAL_NUMBERS,
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
