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
  const floats = new Float32Array(values);
  if (dtype === "F32") return new Uint8Array(floats.buffer);
  const halves = dtype === "BF16" ? narrowBfloat16(floats) : narrowFloat16(floats);
  return new Uint8Array(halves.buffer);
}

function narrowBfloat16(values: Float32Array): Uint16Array {
  const bits = new Uint32Array(values.buffer);
  const halves = new Uint16Array(values.length);
  for (let i = 0; i < halves.length; i++) {
    const value = bits[i]!;
    const upper = value >>> 16;
    // NaN stays NaN: rounding up its fraction would make it an infinity.
    halves[i] = (value & 0x7fffffff) > INFINITE ? upper | 0x40 : (value + 0x7fff + (upper & 1)) >>> 16;
  }
  return halves;
}

/** Bits of float32: infinity; half a unit beyond float16's largest, which is rounded to infinity; 2^-14, its smallest normal one. */
const INFINITE = 0x7f800000;
const TOO_LARGE = 0x477ff000;
const SMALLEST_NORMAL = 0x38800000;
/** What the exponents of the two differ by, in the bits of float32. */
const REBIAS = 112 << 23;

function narrowFloat16(values: Float32Array): Uint16Array {
  const bits = new Uint32Array(values.buffer);
  const halves = new Uint16Array(values.length);
  for (let i = 0; i < halves.length; i++) {
    const sign = (bits[i]! >>> 16) & 0x8000;
    const size = bits[i]! & 0x7fffffff;
    let half: number;
    if (size > INFINITE) half = 0x7e00;
    else if (size >= TOO_LARGE) half = 0x7c00;
    else if (size < SMALLEST_NORMAL) half = roundToEven(Math.abs(values[i]!) * 2 ** 24);
    // A carry moves on into the exponent by itself.
    else half = (size - REBIAS + 0xfff + ((size >>> 13) & 1)) >>> 13;
    halves[i] = sign | half;
  }
  return halves;
}

function roundToEven(value: number): number {
  const below = Math.floor(value);
  const rest = value - below;
  return rest > 0.5 || (rest === 0.5 && below % 2 === 1) ? below + 1 : below;
}
