#version 460
// Reads memory as fast as can be: invocations side by side take granules side by side.
#extension GL_GOOGLE_include_directive : require
#include "arithmetic.glsl"
#include "buffers.glsl"

layout(local_size_x = 256) in;
layout(buffer_reference, std430, buffer_reference_align = 16) buffer Quads { uvec4 at[]; };
layout(push_constant) uniform Parameters {
  Quads from;
  Ints to;  // written only to keep what is read
  int count, all;  // granules, invocations
};

void main() {
  uvec4 sum = uvec4(0);
  for (int i = int(gl_GlobalInvocationID.x); i < count; i += all) sum ^= from.at[i];
  if ((sum.x ^ sum.y ^ sum.z ^ sum.w) == 0x9e3779b9u) to.at[0] = 1;
}
