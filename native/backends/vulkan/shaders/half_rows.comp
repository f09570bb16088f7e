#version 460
// Rows of T as float16 for products on cooperative matrices: each by the power of two that brings its largest element
// between 2^14 and 2^15, so that none is infinite and few are lost; zeros up to a multiple of 32; and behind them, in a
// granule of its own, what undoes the power. A workgroup to a row.
#extension GL_GOOGLE_include_directive : require
#include "arithmetic.glsl"
#include "buffers.glsl"
#include "cooperative.glsl"

layout(push_constant) uniform Parameters {
  Granules x;  // [rows][ldx]
  Granules to;
  int k, ldx;
};

shared uint largest;

void main() {
  const int row = int(gl_WorkGroupID.x), me = int(gl_LocalInvocationID.x), all = int(gl_WorkGroupSize.x);
  const int granules = (k + kGranule - 1) / kGranule, ld = half_granules(k);
  uint most = 0u;
  for (int g = me; g < granules; g += all) {
    const uvec4 granule = x.at[row * ldx + g];
    for (int i = 0; i < kGranule; i++)
      if (g * kGranule + i < k) most = max(most, as_bits(part(granule, i)) & 0x7fffffffu);
  }
  if (me == 0) largest = 0u;
  barrier();
  atomicMax(largest, most);
  barrier();
  const int exponent = int(largest >> 23);
  const int shift = exponent == 0 || exponent == 255 ? 0 : min(141 - exponent, 126);
  const float factor = as_float(uint(127 + shift) << 23);
  for (int g = me; g < ld - 1; g += all) {
    uvec4 scaled = uvec4(0);
    if (g < granules) {
      const uvec4 granule = x.at[row * ldx + g];
      for (int i = 0; i < kGranule; i += 2) {
        const int at = g * kGranule + i;
        const float low = at < k ? part(granule, i) * factor : 0.0, high = at + 1 < k ? part(granule, i + 1) * factor : 0.0;
        scaled[i / 2] = packHalf2x16(vec2(low, high));
      }
    }
    to.at[row * ld + g] = scaled;
  }
  if (me == 0) to.at[row * ld + ld - 1] = uvec4(uint(127 - shift) << 23, 0, 0, 0);
}
