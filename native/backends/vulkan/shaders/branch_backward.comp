#version 460
// d_out[row] of T = the gradient by what a branch put out before its norm, given that of the residual stream; a workgroup
// to a row.
#extension GL_GOOGLE_include_directive : require
#include "arithmetic.glsl"
#include "functions.glsl"
#include "buffers.glsl"
#include "rows.glsl"

layout(local_size_x = 64) in;
layout(push_constant) uniform Parameters {
  Elements branch;  // [rows][ld]
  Floats weight, dx;
  Elements d_out;
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
  barrier();
  if (lane < kLanes) {
    float sum = 0.0;
    for (int i = lane; i < n; i += kLanes)
      sum = mad(scale * dx.at[row * n + i] * weight.at[i], element(branch, row * ld + i) * inverse, sum);
    lane_sums[lane] = sum;
  }
  barrier();
  const float mean = -quotient(sum_of_lanes(), float(n));
  for (int i = lane; i < n; i += 64) {
    const float u = element(branch, row * ld + i) * inverse, g = scale * dx.at[row * n + i] * weight.at[i];
    put(d_out, row * ld + i, mad(inverse, mad(u, mean, g), 0.0));
  }
}
