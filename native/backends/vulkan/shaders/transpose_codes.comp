#version 460
// Outputs first .. first + count of quantised W[n][k], transposed: a matrix [k][count] of codes of 8 bits whose zero
// point is 128, with a scale for every 32 outputs (cpu/kernels/transposed_codes.h), in records as quantized.glsl has
// them. An invocation has 32 outputs of 4 k.
#extension GL_GOOGLE_include_directive : require
#include "arithmetic.glsl"
#include "functions.glsl"
#include "buffers.glsl"
#include "weights.glsl"
#include "quantized.glsl"

layout(local_size_x = 64) in;
layout(push_constant) uniform Parameters {
  Granules w;
  Granules to;
  int first, count, k, padding;
};

const float kToNearest = 12582912.0;
const int kCodes = 64, kRecord = 72;  // granules of a record's codes, and of a record

void main() {
  const int quad = int(gl_GlobalInvocationID.x), g = int(gl_WorkGroupID.y), groups = (count + kGroup - 1) / kGroup;
  if (quad * 4 >= k) return;
  const int from = record_of(k / kGroup, first + g * kGroup, quad / 8), outputs = min(count - g * kGroup, kGroup);
  uvec4 most = uvec4(0u);
  LOOP for (int lane = 0; lane < outputs; lane++) {
    const vec4 values = values_of(w, from, lane, quad % 8);
    for (int i = 0; i < 4; i++) most[i] = max(most[i], as_bits(values[i]) & 0x7fffffffu);
  }
  vec4 inverse;
  uvec4 scales;
  for (int i = 0; i < 4; i++) {
    const bool wrong = most[i] >= kExponent;
    // Below this the reciprocal would overflow.
    const bool none = wrong || as_float(most[i]) < 1e-35;
    scales[i] = wrong ? 0x7fc00000u : none ? 0u : as_bits(quotient(as_float(most[i]), 127.0));
    inverse[i] = none ? 0.0 : quotient(127.0, as_float(most[i]));
  }
  const int record = (quad / 8 * groups + g) * kRecord, column = quad % 8 * 4;
  LOOP for (int half_ = 0; half_ < 2; half_++) {
    uvec4 words[4] = uvec4[](uvec4(0x80808080u), uvec4(0x80808080u), uvec4(0x80808080u), uvec4(0x80808080u));
    const int end = min(outputs - half_ * 16, 16);
    LOOP for (int at = 0; at < end; at++) {
      const vec4 values = values_of(w, from, half_ * 16 + at, quad % 8);
      for (int i = 0; i < 4; i++) {
        const uint code = scales[i] == 0x7fc00000u ? 128u : as_bits(mad(values[i], inverse[i], kToNearest + 128.0)) & 255u;
        words[i][at / 4] ^= (code ^ 128u) << (at % 4 * 8);
      }
    }
    for (int i = 0; i < 4; i++) to.at[record + half_ * 32 + column + i] = words[i];
  }
  to.at[record + kCodes + quad % 8] = scales;
}
