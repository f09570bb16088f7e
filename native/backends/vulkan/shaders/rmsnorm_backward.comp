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

const int kAtOnce = 16, kPutAtOnce = 8;  // elements that an invocation fetches before it takes them up

void main() {
  const int at = int(gl_WorkGroupID.x) * n, lane = int(gl_LocalInvocationID.x);
  if (lane < kLanes) {
    float sum = 0.0;
    for (int i0 = lane; i0 < n; i0 += kLanes * kAtOnce) {
      float xs[kAtOnce];
      for (int j = 0; j < kAtOnce; j++) xs[j] = x.at[at + min(i0 + j * kLanes, n - 1)];
      for (int j = 0; j < kAtOnce; j++)
        if (i0 + j * kLanes < n) sum = mad(xs[j], xs[j], sum);
    }
    lane_sums[lane] = sum;
  }
  barrier();
  const float inverse = quotient(1.0, root(quotient(sum_of_lanes(), float(n)) + eps));
  barrier();
  if (lane < kLanes) {
    float sum = 0.0;
    for (int i0 = lane; i0 < n; i0 += kLanes * kAtOnce) {
      float xs[kAtOnce], dys[kAtOnce];
      for (int j = 0; j < kAtOnce; j++) {
        const int i = min(i0 + j * kLanes, n - 1);
        xs[j] = x.at[at + i] * inverse, dys[j] = dy.at[at + i] * weight.at[i];
      }
      for (int j = 0; j < kAtOnce; j++)
        if (i0 + j * kLanes < n) sum = mad(dys[j], xs[j], sum);
    }
    lane_sums[lane] = sum;
  }
  barrier();
  const float mean = -quotient(sum_of_lanes(), float(n));
  for (int i0 = lane; i0 < n; i0 += 64 * kPutAtOnce) {
    float found[kPutAtOnce];
    for (int j = 0; j < kPutAtOnce; j++) {
      const int i = min(i0 + j * 64, n - 1);
      found[j] = mad(inverse, mad(x.at[at + i] * inverse, mean, dy.at[at + i] * weight.at[i]), dx.at[at + i]);
    }
    for (int j = 0; j < kPutAtOnce; j++)
      if (i0 + j * 64 < n) dx.at[at + i0 + j * 64] = flushed(found[j]);
  }
}
