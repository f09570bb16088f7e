#version 460
// Gradients of the scan's inputs, back to what the convolution summed and what gates were made of. A workgroup to a row and
// key head.
#extension GL_GOOGLE_include_directive : require
#include "arithmetic.glsl"
#include "functions.glsl"
#include "buffers.glsl"
#include "rows.glsl"
#include "counts.glsl"
#include "delta.glsl"
#include "delta_tokens.glsl"

layout(push_constant) uniform Parameters {
  Elements qkv, b, a;
  Floats taps, rates;
  Ints before;     // see delta_prepare.comp; of training, which keeps no inputs
  Floats d_keys;   // [rows][kValueHeads][2][kKeyDim]
  Floats d_gates;  // [rows][2][kValueHeads]
  Floats d_mixed;  // [rows][kWidth]: of values, to those of the convolution's sums
  Elements d_b, d_a;
  int ldx, ldg, lead;
  float query_scale;
};

shared float d[2][kKeyDim];

float slope_of(float g) {
  const float s = logistic(g);
  return s * mad(g, 1.0 - s, 1.0);
}

void main() {
  const int row = int(gl_WorkGroupID.x), head = int(gl_WorkGroupID.y), lane = int(gl_LocalInvocationID.x);
  Floats tails = Floats(uvec2(0));
  for (int i = lane; i < 2 * kKeyDim; i += 64) {
    const int part = i / kKeyDim, within = i % kKeyDim, col = part * kKeys + head * kKeyDim + within;
    const float sum = convolution(qkv, ldx, taps, tails, before, lead, row, col);
    sums[part][within] = sum;
    convolved[part][within] = silu(sum);
    float all = 0.0;
    for (int j = 0; j < kValuesOfKey; j++)
      all = all + d_keys.at[((row * kValueHeads + head * kValuesOfKey + j) * 2 + part) * kKeyDim + within];
    d[part][within] = all;
  }
  LOOP for (int part = 0; part < 2; part++) {
    const float inverse = inverse_length(part);
    barrier();
    if (lane < kLanes) {
      float dot = 0.0;
      for (int i = lane; i < kKeyDim; i += kLanes) dot = mad(convolved[part][i], d[part][i], dot);
      lane_sums[lane] = dot;
    }
    barrier();
    const float along = -(sum_of_lanes() * inverse * inverse), factor = inverse * (part == 0 ? query_scale : 1.0);
    for (int i = lane; i < kKeyDim; i += 64)
      d_mixed.at[row * kWidth + part * kKeys + head * kKeyDim + i] =
          flushed(mad(convolved[part][i], along, d[part][i]) * factor * slope_of(sums[part][i]));
  }
  for (int i = lane; i < kValuesOfKey * kValueDim; i += 64) {
    const int col = kValues + head * kValuesOfKey * kValueDim + i;
    const float sum = convolution(qkv, ldx, taps, tails, before, lead, row, col);
    d_mixed.at[row * kWidth + col] = flushed(d_mixed.at[row * kWidth + col] * slope_of(sum));
  }
  for (int i = lane; i < kValuesOfKey; i += 64) {
    const int value = head * kValuesOfKey + i;
    const float x = element(a, row * ldg + value) + rates.at[kValueHeads + value];
    const float by_step = -(d_gates.at[row * 2 * kValueHeads + value] * rates.at[value]);
    const float s = logistic(element(b, row * ldg + value));
    put(d_a, row * ldg + value, by_step * logistic(x));
    put(d_b, row * ldg + value, d_gates.at[(row * 2 + 1) * kValueHeads + value] * (s * (1.0 - s)));
  }
}
