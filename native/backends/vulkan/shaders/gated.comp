#version 460
// y = activation(gate) * up over rows of T; an invocation to an element.
#extension GL_GOOGLE_include_directive : require
#include "arithmetic.glsl"
#include "functions.glsl"
#include "buffers.glsl"
#include "activation.glsl"

layout(local_size_x = 64) in;
layout(push_constant) uniform Parameters {
  Elements gate, up, y;
  int n, ld;
};

void main() {
  const int i = int(gl_GlobalInvocationID.x), at = int(gl_WorkGroupID.y) * ld + i;
  if (i < n) put(y, at, activated(element(gate, at)) * element(up, at));
}
