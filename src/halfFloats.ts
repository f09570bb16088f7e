/** Numbers of 16 bits (IEEE 754 binary16) as float32, exactly. */
export function widenFloat16(values: Uint16Array): Float32Array {
  return Float32Array.from(values, (bits) => {
    const sign = bits & 0x8000 ? -1 : 1;
    const exponent = (bits >> 10) & 31;
    const fraction = bits & 1023;
    if (exponent === 31) return fraction ? Number.NaN : sign * Number.POSITIVE_INFINITY;
    return exponent === 0 ? sign * fraction * 2 ** -24 : sign * (1024 + fraction) * 2 ** (exponent - 25);
  });
}
