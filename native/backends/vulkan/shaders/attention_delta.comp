#version 460
// delta[rows][heads] = sum over a head of attention's output times the gradient by it, rounded; a workgroup to a row and head.
// The gradient is left rounded, for the products with it.
#extension GL_GOOGLE_include_directive : require
#include "arithmetic.glsl"
#include "buffers.glsl"
#include "rows.glsl"

layout(local_size_x = 16) in;
layout(push_constant) uniform Parameters {
  Elements attention;  // [rows][ld]
  Floats d_attention;  // [rows][heads * head_dim]
  Floats delta;
  Elements d_rounded;  // [rows][heads * head_dim]
  int heads, head_dim, ld;
};

const int kAtOnce = 8;  // elements that a lane fetches before it sums them

void main() {
  const int row = int(gl_WorkGroupID.x), head = int(gl_WorkGroupID.y), lane = int(gl_LocalInvocationID.x);
  const int from = row * ld + head * head_dim, d_from = (row * heads + head) * head_dim;
  float sum = 0.0;
  for (int i0 = lane; i0 < head_dim; i0 += kLanes * kAtOnce) {
    float put_out[kAtOnce], d[kAtOnce];
    for (int j = 0; j < kAtOnce; j++) {
      const int i = min(i0 + j * kLanes, head_dim - 1);
      put_out[j] = element(attention, from + i), d[j] = rounded(d_attention.at[d_from + i]);
    }
    for (int j = 0; j < kAtOnce; j++) {
      const int i = i0 + j * kLanes;
      if (i >= head_dim) break;
      sum = mad(put_out[j], d[j], sum);
      put(d_rounded, d_from + i, d[j]);
    }
  }
  lane_sums[lane] = sum;
  barrier();
  if (lane == 0) delta.at[row * heads + head] = sum_of_lanes();
}
