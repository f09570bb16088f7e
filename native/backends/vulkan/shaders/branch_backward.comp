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

const int kAtOnce = 16, kPutAtOnce = 8;  // elements that an invocation fetches before it takes them up

void main() {
  const int row = int(gl_WorkGroupID.x), lane = int(gl_LocalInvocationID.x);
  if (lane < kLanes) {
    float sum = 0.0;
    for (int i0 = lane; i0 < n; i0 += kLanes * kAtOnce) {
      float values[kAtOnce];
      for (int j = 0; j < kAtOnce; j++) values[j] = element(branch, row * ld + min(i0 + j * kLanes, n - 1));
      for (int j = 0; j < kAtOnce; j++)
        if (i0 + j * kLanes < n) sum = mad(values[j], values[j], sum);
    }
    lane_sums[lane] = sum;
  }
  barrier();
  const float inverse = quotient(1.0, root(quotient(sum_of_lanes(), float(n)) + eps));
  barrier();
  if (lane < kLanes) {
    float sum = 0.0;
    for (int i0 = lane; i0 < n; i0 += kLanes * kAtOnce) {
      float gs[kAtOnce], us[kAtOnce];
      for (int j = 0; j < kAtOnce; j++) {
        const int i = min(i0 + j * kLanes, n - 1);
        gs[j] = scale * dx.at[row * n + i] * weight.at[i], us[j] = element(branch, row * ld + i) * inverse;
      }
      for (int j = 0; j < kAtOnce; j++)
        if (i0 + j * kLanes < n) sum = mad(gs[j], us[j], sum);
    }
    lane_sums[lane] = sum;
  }
  barrier();
  const float mean = -quotient(sum_of_lanes(), float(n));
  for (int i0 = lane; i0 < n; i0 += 64 * kPutAtOnce) {
    float found[kPutAtOnce];
    for (int j = 0; j < kPutAtOnce; j++) {
      const int i = min(i0 + j * 64, n - 1);
      const float u = element(branch, row * ld + i) * inverse, g = scale * dx.at[row * n + i] * weight.at[i];
      found[j] = mad(inverse, mad(u, mean, g), 0.0);
    }
    for (int j = 0; j < kPutAtOnce; j++)
      if (i0 + j * 64 < n) put(d_out, row * ld + i0 + j * 64, found[j]);
  }
}
