#version 460
// y[rows][ldy] of T = scale * x[rows][ldx].
#extension GL_GOOGLE_include_directive : require
#include "arithmetic.glsl"
#include "buffers.glsl"

layout(local_size_x = 64) in;
layout(push_constant) uniform Parameters {
  Floats x;
  Elements y;
  int n, ldx, ldy;
  float scale;
};

void main() {
  const int row = int(gl_WorkGroupID.x);
  for (int i = int(gl_LocalInvocationID.x); i < n; i += 64) put(y, row * ldy + i, x.at[row * ldx + i] * scale);
}
