#version 460
// y += x, n floats.
#extension GL_GOOGLE_include_directive : require
#include "arithmetic.glsl"
#include "buffers.glsl"

layout(local_size_x = 256) in;
layout(push_constant) uniform Parameters {
  Floats y, x;
  int n;
};

void main() {
  const int all = int(gl_NumWorkGroups.x) * 256;
  for (int i = int(gl_GlobalInvocationID.x); i < n; i += all) y.at[i] = flushed(y.at[i] + x.at[i]);
}
