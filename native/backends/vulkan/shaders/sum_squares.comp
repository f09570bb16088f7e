#version 460
// Of every 4096 of n floats the sum of squares, by 16 lanes and one tree; a workgroup to a block.
#extension GL_GOOGLE_include_directive : require
#include "arithmetic.glsl"
#include "buffers.glsl"
#include "rows.glsl"

layout(local_size_x = 16) in;
layout(push_constant) uniform Parameters {
  Floats x, sums;
  int n;
};

void main() {
  const int block = int(gl_WorkGroupID.x), lane = int(gl_LocalInvocationID.x);
  float sum = 0.0;
  for (int i = block * 4096 + lane; i < min(n, block * 4096 + 4096); i += kLanes) sum = mad(x.at[i], x.at[i], sum);
  lane_sums[lane] = sum;
  barrier();
  if (lane == 0) sums.at[block] = sum_of_lanes();
}
