// The types in which weights are stored, and the numbers that they stand for.

import { widenFloat16 } from "../halfFloats.js";

export type FloatType = "F32" | "BF16" | "F16";

export const isFloatType = (type: string): type is FloatType => type === "F32" || type === "F16" || type === "BF16";

/** Little-endian values, exactly. `raw` starts at a multiple of their size in its buffer. */
export function widen(dtype: FloatType, raw: Uint8Array): Float32Array {
  if (dtype === "F32") return new Float32Array(raw.buffer, raw.byteOffset, raw.byteLength / 4);
  const halves = new Uint16Array(raw.buffer, raw.byteOffset, raw.byteLength / 2);
  return dtype === "BF16" ? widenBfloat16(halves) : widenFloat16(halves);
}

function widenBfloat16(values: Uint16Array): Float32Array {
  const bits = new Uint32Array(values.length);
  for (let i = 0; i < values.length; i++) bits[i] = values[i]! << 16;
  return new Float32Array(bits.buffer);
}

/** The nearest values of the type, ties to even. */
export function narrow(dtype: FloatType, values: Float64Array): Uint8Array {
  const floats = Float32Array.from(values);
  if (dtype === "F32") return new Uint8Array(floats.buffer);
  const halves = dtype === "BF16" ? narrowBfloat16(floats) : Uint16Array.from(floats, toFloat16);
  return new Uint8Array(halves.buffer);
}

function narrowBfloat16(values: Float32Array): Uint16Array {
  const bits = new Uint32Array(values.buffer);
  return Uint16Array.from(bits, (value) =>
    // NaN stays NaN: rounding up its fraction would make it an infinity.
    (value & 0x7fffffff) > 0x7f800000 ? (value >>> 16) | 0x40 : (value + 0x7fff + ((value >>> 16) & 1)) >>> 16,
  );
}

const MAX_FLOAT16 = 65504;

function toFloat16(value: number): number {
  const sign = value < 0 || Object.is(value, -0) ? 0x8000 : 0;
  const size = Math.abs(value);
  if (Number.isNaN(value)) return 0x7e00;
  // Half a unit beyond the largest is rounded to infinity.
  if (size >= MAX_FLOAT16 + 16) return sign | 0x7c00;
  const exponent = Math.max(Math.floor(Math.log2(size)), -14);
  const unit = 2 ** (exponent - 10);
  const units = roundToEven(size / unit);
  // 1024 units are the implied one of a normal number, and a carry moves on into the exponent by itself.
  return sign | (((exponent + 14) << 10) + units);
}

function roundToEven(value: number): number {
  const below = Math.floor(value);
  const rest = value - below;
  return rest > 0.5 || (rest === 0.5 && below % 2 === 1) ? below + 1 : below;
}
