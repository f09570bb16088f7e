import type { SlotParams } from "../../src/runtime/runtime.js";

/** Sampling that leaves the distribution as it is. */
export const PLAIN_SAMPLING = {
  temperature: 1,
  topP: 1,
  topK: 0,
  minP: 0,
  repetitionPenalty: 1,
  frequencyPenalty: 0,
  presencePenalty: 0,
};

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
