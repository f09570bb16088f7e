#version 460
// Gradients of the gate and of up, of T, from that of their activated product in float32; an invocation to an element.
#extension GL_GOOGLE_include_directive : require
#include "arithmetic.glsl"
#include "functions.glsl"
#include "buffers.glsl"
#include "activation.glsl"

layout(local_size_x = 64) in;
layout(push_constant) uniform Parameters {
  Elements gate, up;
  Floats dy;  // [rows][ldy]
  Elements d_gate, d_up;
  int n, ld, ldy;
};

void main() {
  const int i = int(gl_GlobalInvocationID.x), row = int(gl_WorkGroupID.y), at = row * ld + i;
  if (i >= n) return;
  const float g = element(gate, at), u = element(up, at), d = dy.at[row * ldy + i];
  float value, slope;
  if (activation == kSilu) {
    const float s = quotient(1.0, 1.0 + exponential(-g));
    value = g * s, slope = s * mad(g, 1.0 - s, 1.0);
  } else {
    const float s = gelu_part(g);
    value = g * s, slope = s * mad(g * (1.0 - s), mad(g * g, 0.21406446397304535, 1.5957691216057308), 1.0);
  }
  put(d_up, at, d * value);
  put(d_gate, at, d * u * slope);
}
