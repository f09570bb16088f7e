// Tensors of ONNX Runtime to and from typed arrays. Half floats are Float16Array where JavaScript has it, else their bits.

import type { Tensor } from "onnxruntime-node";
import { widenFloat16 } from "../../halfFloats.js";

export type OnnxRuntime = typeof import("onnxruntime-node");

type HalfArray = new (buffer: ArrayBufferLike, offset: number, length: number) => ArrayBufferView;

export const longs = ({ Tensor }: OnnxRuntime, values: BigInt64Array, dims: readonly number[]): Tensor =>
  new Tensor("int64", values, dims);

/** Half floats as bits, or (`asTensor`) as tensors take them here; anything else as it is. The same memory. */
export function halfFloats(data: unknown, asTensor = false): unknown {
  const { Float16Array } = globalThis as { Float16Array?: HalfArray };
  if (Float16Array === undefined) return data;
  const { buffer, byteOffset, byteLength } = data as Uint16Array;
  if (asTensor) return data instanceof Uint16Array ? new Float16Array(buffer, byteOffset, byteLength / 2) : data;
  return data instanceof Float16Array ? new Uint16Array(buffer, byteOffset, byteLength / 2) : data;
}

/** Floats of either size as float32. */
export function wide(data: unknown): Float32Array {
  if (data instanceof Float32Array) return data;
  return widenFloat16(halfFloats(data) as Uint16Array);
}
