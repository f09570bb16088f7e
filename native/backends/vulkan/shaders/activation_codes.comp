#version 460
// Rows of activations rounded to 8-bit codes by the absolute maximum of every 32 of a row, nearest, ties to even
// (cpu/kernels/codes.h): groups [rows][k / 32] of codes [32] bytes, scale, scale * sum of the codes, and that sum by
// halves. An invocation to a group.
#extension GL_GOOGLE_include_directive : require
#include "arithmetic.glsl"
#include "functions.glsl"
#include "buffers.glsl"

layout(local_size_x = 64) in;
layout(push_constant) uniform Parameters {
  Granules x;  // [rows][ldx]
  Granules groups;
  int rows, k, ldx, padding;  // what a last group lacks counts as zeros
};

const float kToNearest = 12582912.0;

void main() {
  const int row = int(gl_WorkGroupID.y), g = int(gl_GlobalInvocationID.x), count = (k + 31) / 32;
  if (g >= count) return;
  const int from = row * ldx + g * (32 / kGranule), to = (row * count + g) * 3;
  const int length = min(k - g * 32, 32), granules = (length + kGranule - 1) / kGranule;
  uint most = 0u;
  for (int i = 0; i < granules; i++) {
    const uvec4 granule = x.at[from + i];
    for (int j = 0; j < kGranule; j++)
      if (i * kGranule + j < length) most = max(most, as_bits(part(granule, j)) & 0x7fffffffu);
  }
  const bool wrong = most >= kExponent;
  // Below this the reciprocal would overflow.
  const bool none = wrong || as_float(most) < 1e-35;
  const float scale = wrong ? as_float(0x7fc00000u) : none ? 0.0 : quotient(as_float(most), 127.0);
  const float inverse = none ? 0.0 : quotient(127.0, as_float(most));
  uvec4 codes[2] = uvec4[](uvec4(0), uvec4(0));
  int sums[2] = int[](0, 0);
  for (int i = 0; i < granules; i++) {
    const uvec4 granule = x.at[from + i];
    for (int j = 0; j < kGranule; j++) {
      const int at = i * kGranule + j, half_ = at / 16;
      if (at >= length) break;
      const float scaled = part(granule, j) * inverse;
      const uint code = none ? 0u : as_bits(scaled + kToNearest) & 255u;
      sums[half_] += bitfieldExtract(int(code), 0, 8);
      codes[half_][at % 16 / 4] |= code << (at % 4 * 8);
    }
  }
  groups.at[to] = codes[0], groups.at[to + 1] = codes[1];
  groups.at[to + 2] = uvec4(as_bits(scale), as_bits(scale * float(sums[0] + sums[1])), uint(sums[0]), uint(sums[1]));
}
