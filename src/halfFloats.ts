/** Numbers of 16 bits (IEEE 754 binary16) as float32, exactly. */
export function widenFloat16(values: Uint16Array): Float32Array {
  const floats = new Float32Array(values.length);
  for (let i = 0; i < floats.length; i++) floats[i] = widened(values[i]!);
  return floats;
}

function widened(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 31) return fraction ? Number.NaN : sign * Number.POSITIVE_INFINITY;
  return exponent === 0 ? sign * fraction * 2 ** -24 : sign * (1024 + fraction) * POWERS[exponent]!;
}

/** Of two, by the exponent of what they scale. */
const POWERS = Float64Array.from({ length: 31 }, (_, exponent) => 2 ** (exponent - 25));
