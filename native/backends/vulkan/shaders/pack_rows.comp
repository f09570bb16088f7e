#version 460
// Rows of float32 as a matrix of T in blocks of 32 outputs (weights.glsl), zeros beyond n and k; an invocation a granule.
#extension GL_GOOGLE_include_directive : require
#include "arithmetic.glsl"
#include "buffers.glsl"
#include "weights.glsl"

layout(local_size_x = 64) in;
layout(push_constant) uniform Parameters {
  Floats from;  // [n][ld]
  Granules to;
  int n, k, ld;
};

void main() {
  const int at = int(gl_GlobalInvocationID.x), granules = granules_of(k);
  const int row = at / 32 / granules * 32 + at % 32, first = at / 32 % granules * kGranule;
  if (at >= round_up(n, 32) * granules) return;
  uvec4 granule = uvec4(0);
  for (int i = 0; i < kGranule; i++) {
    if (row >= n || first + i >= k) continue;
    const float value = from.at[row * ld + first + i];
    if (kBf16)
      granule[i >> 1] |= narrowed(value) << (16 * (i & 1));
    else
      granule[i] = as_bits(flushed(value));
  }
  to.at[at] = granule;
}
