#version 460
// dx[row] += the gradient of an RMS norm by its input, given that by its output; a workgroup to a row.
#extension GL_GOOGLE_include_directive : require
#include "arithmetic.glsl"
#include "functions.glsl"
#include "buffers.glsl"
#include "rows.glsl"

layout(local_size_x = 64) in;
layout(push_constant) uniform Parameters {
  Floats x, weight, dy, dx;  // [rows][n]
  int n;
  float eps;
};

void main() {
  const int at = int(gl_WorkGroupID.x) * n, lane = int(gl_LocalInvocationID.x);
  if (lane < kLanes) {
    float sum = 0.0;
    for (int i = lane; i < n; i += kLanes) sum = mad(x.at[at + i], x.at[at + i], sum);
    lane_sums[lane] = sum;
  }
  barrier();
  const float inverse = quotient(1.0, root(quotient(sum_of_lanes(), float(n)) + eps));
  barrier();
  if (lane < kLanes) {
    float sum = 0.0;
    for (int i = lane; i < n; i += kLanes) sum = mad(dy.at[at + i] * weight.at[i], x.at[at + i] * inverse, sum);
    lane_sums[lane] = sum;
  }
  barrier();
  const float mean = -quotient(sum_of_lanes(), float(n));
  for (int i = lane; i < n; i += 64)
    dx.at[at + i] = flushed(mad(inverse, mad(x.at[at + i] * inverse, mean, dy.at[at + i] * weight.at[i]), dx.at[at + i]));
}
