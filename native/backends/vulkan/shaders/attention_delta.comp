#version 460
// delta[rows][heads] = sum over a head of attention's output times the gradient by it, rounded; a workgroup to a row and head.
#extension GL_GOOGLE_include_directive : require
#include "arithmetic.glsl"
#include "buffers.glsl"
#include "rows.glsl"

layout(local_size_x = 16) in;
layout(push_constant) uniform Parameters {
  Elements attention;  // [rows][ld]
  Floats d_attention;  // [rows][heads * head_dim]
  Floats delta;
  int heads, head_dim, ld;
};

void main() {
  const int row = int(gl_WorkGroupID.x), head = int(gl_WorkGroupID.y), lane = int(gl_LocalInvocationID.x);
  float sum = 0.0;
  for (int i = lane; i < head_dim; i += kLanes)
    sum = mad(element(attention, row * ld + head * head_dim + i),
              rounded(d_attention.at[row * heads * head_dim + head * head_dim + i]), sum);
  lane_sums[lane] = sum;
  barrier();
  if (lane == 0) delta.at[row * heads + head] = sum_of_lanes();
}
