import type { StepSequence } from "../../src/runtime/runtime.js";

export const ids = (...values: number[]) => Int32Array.from(values);

/** Three tokens that begin a sequence, of which a fourth is drawn. */
export const sequenceOf = (change: object): StepSequence => ({
  slot: -1,
  tokens: ids(1, 2, 3),
  position: 0,
  blocks: ids(0),
  adapter: 0,
  sample: true,
  outputIndex: 0,
  promptLogprobs: -1,
  next: null,
  ...change,
});
