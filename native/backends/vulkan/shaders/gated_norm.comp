#version 460
// y = norm(x) weight silu(gate) of every head of the delta rule, rows of T; a workgroup to a row and head.
#extension GL_GOOGLE_include_directive : require
#include "arithmetic.glsl"
#include "functions.glsl"
#include "buffers.glsl"
#include "rows.glsl"

layout(local_size_x = 64) in;
layout(push_constant) uniform Parameters {
  Elements x, gate, y;  // [rows][ld]
  Floats weight;        // [n]
  int n, ld;
  float eps;
  int padding;
};

void main() {
  const int at = int(gl_WorkGroupID.x) * ld + int(gl_WorkGroupID.y) * n, lane = int(gl_LocalInvocationID.x);
  if (lane < kLanes) {
    float sum = 0.0;
    for (int i = lane; i < n; i += kLanes) sum = mad(element(x, at + i), element(x, at + i), sum);
    lane_sums[lane] = sum;
  }
  barrier();
  const float inverse = quotient(1.0, root(quotient(sum_of_lanes(), float(n)) + eps));
  for (int i = lane; i < n; i += 64) {
    const float g = element(gate, at + i);
    put(y, at + i, element(x, at + i) * inverse * weight.at[i] * quotient(g, 1.0 + exponential(-g)));
  }
}
