#version 460
// Tokens on their way to the scan: convolution, lengths of queries and keys, decays and strengths. A workgroup to a row and
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
  Elements qkv, b, a;  // what projections put out [rows][ld]
  Floats taps;         // [kKernel][kWidth]
  Floats rates;        // of the decay [kValueHeads], then what is added to a [kValueHeads]
  Floats tails;        // [states][kKernel - 1][kWidth]
  Ints before;
  Floats mixed, gates;  // [rows][kWidth], [rows][2][kValueHeads]
  int ldx, ldg, lead;
  float query_scale;
};

// ln(1 + e^x)
float softplus(float x) {
  const float size = x > -x ? x : -x, e = exponential(-size), y = 1.0 + e;
  return (x > 0.0 ? x : 0.0) + (logarithm(y) + quotient(e - (y - 1.0), y));
}

void main() {
  const int row = int(gl_WorkGroupID.x), head = int(gl_WorkGroupID.y), lane = int(gl_LocalInvocationID.x);
  for (int i = lane; i < 2 * kKeyDim; i += 64) {
    const int part = i / kKeyDim, col = part * kKeys + head * kKeyDim + i % kKeyDim;
    convolved[part][i % kKeyDim] = silu(convolution(qkv, ldx, taps, tails, before, lead, row, col));
  }
  LOOP for (int part = 0; part < 2; part++) {
    const float length = inverse_length(part), factor = length * (part == 0 ? query_scale : 1.0);
    for (int i = lane; i < kKeyDim; i += 64)
      mixed.at[row * kWidth + part * kKeys + head * kKeyDim + i] = flushed(convolved[part][i] * factor);
  }
  for (int i = lane; i < kValuesOfKey * kValueDim; i += 64) {
    const int col = kValues + head * kValuesOfKey * kValueDim + i;
    mixed.at[row * kWidth + col] = flushed(silu(convolution(qkv, ldx, taps, tails, before, lead, row, col)));
  }
  for (int i = lane; i < kValuesOfKey; i += 64) {
    const int value = head * kValuesOfKey + i;
    const float d = softplus(element(a, row * ldg + value) + rates.at[kValueHeads + value]);
    gates.at[row * 2 * kValueHeads + value] = flushed(exponential(-(rates.at[value] * d)));
    gates.at[(row * 2 + 1) * kValueHeads + value] = flushed(logistic(element(b, row * ldg + value)));
  }
}
