#version 460
// to[row] = from[row] + scale * norm(branch[row]), the norm rounded to T; a workgroup to a row.
#extension GL_GOOGLE_include_directive : require
#include "arithmetic.glsl"
#include "functions.glsl"
#include "buffers.glsl"
#include "rows.glsl"

layout(local_size_x = 64) in;
layout(push_constant) uniform Parameters {
  Elements branch;
  Floats weight;
  Floats from;
  Floats to;
  int n, ld;
  float eps, scale;
};

void main() {
  const int row = int(gl_WorkGroupID.x), lane = int(gl_LocalInvocationID.x);
  if (lane < kLanes) {
    float sum = 0.0;
    for (int i = lane; i < n; i += kLanes) {
      const float value = element(branch, row * ld + i);
      sum = mad(value, value, sum);
    }
    lane_sums[lane] = sum;
  }
  barrier();
  const float inverse = quotient(1.0, root(quotient(sum_of_lanes(), float(n)) + eps));
  for (int i = lane; i < n; i += 64) {
    const float normed = rounded(element(branch, row * ld + i) * inverse * weight.at[i]);
    to.at[row * n + i] = mad(scale, normed, from.at[row * n + i]);
  }
}
