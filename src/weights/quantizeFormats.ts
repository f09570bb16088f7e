// Which format each matrix of a model is given where it is quantised when it is loaded.

import { type ModelSpec, type QuantizedFormatName, WIDE_FORMAT, weightTensors } from "../runtime/runtime.js";
import type { Quantization } from "../types/options.js";
import { isRouter } from "./expertTensors.js";

/** Numbers of a block. */
export const SMALL_BLOCK = 32;
const WIDE_BLOCK = 64;
const SUPER_BLOCK = 256;

/**
 * "int16": INT16_64 throughout. "q8": Q8_0 throughout. "q4": Q4_K, or Q5_0 where rows are no multiple of 256; what errs most by it
 * (the head, the values and the outputs of the feed-forward) in Q6_K, or Q8_0. Routers, and matrices whose rows are no multiple of 32
 * (of 64 for "int16"), stay as they are.
 */
export function formatsByMatrix(config: ModelSpec, quantization: Quantization): ModelSpec["quantized"] {
  return weightTensors(config).flatMap(({ name, shape }) => {
    const columns = shape[1];
    const block = quantization === "int16" ? WIDE_BLOCK : SMALL_BLOCK;
    if (columns === undefined || columns % block !== 0 || isRouter(name)) return [];
    if (quantization === "int16") return [{ tensor: name, format: WIDE_FORMAT }];
    return [{ tensor: name, format: quantization === "q8" ? "Q8_0" : fourBits(name, columns) }];
  });
}

/** Of a matrix whose rows are a multiple of SMALL_BLOCK. */
export function fourBits(name: string, columns: number): QuantizedFormatName {
  const isSensitive = /(embed_tokens|lm_head|v_proj|down_proj|feed_forward\.w2)\.weight$/.test(name);
  if (columns % SUPER_BLOCK === 0) return isSensitive ? "Q6_K" : "Q4_K";
  return isSensitive ? "Q8_0" : "Q5_0";
}
