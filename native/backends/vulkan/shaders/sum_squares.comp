#version 460
// Of every 4096 of n floats the sum of squares, by 16 lanes and one tree; a workgroup to a block.
#extension GL_GOOGLE_include_directive : require
#include "arithmetic.glsl"
#include "buffers.glsl"
#include "rows.glsl"
#include "squares.glsl"

layout(push_constant) uniform Parameters {
  Floats x, sums;
  int n;
};

void main() {
  const int block = int(gl_WorkGroupID.x), at = block * 4096;
  const float sum = sum_of_squares(x, at, min(n - at, 4096));
  if (gl_LocalInvocationID.x == 0) sums.at[block] = sum;
}
