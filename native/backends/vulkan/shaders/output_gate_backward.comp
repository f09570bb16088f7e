#version 460
// Gradients of what attention's heads put out, in the place of `d`, and of their gates; see output_gate.comp.
#extension GL_GOOGLE_include_directive : require
#include "arithmetic.glsl"
#include "functions.glsl"
#include "buffers.glsl"

layout(local_size_x = 64) in;
layout(push_constant) uniform Parameters {
  Elements q, x;
  Floats d;      // [rows][n]
  Elements d_q;  // as q; of the queries nothing is written
  int n, head_dim, ldq, ld;
};

void main() {
  const int i = int(gl_GlobalInvocationID.x), row = int(gl_WorkGroupID.y);
  if (i >= n) return;
  const int at = row * ldq + (i / head_dim * 2 + 1) * head_dim + i % head_dim;
  const float s = quotient(1.0, 1.0 + exponential(-element(q, at))), slope = s * (1.0 - s), gradient = d.at[row * n + i];
  put(d_q, at, gradient * element(x, row * ld + i) * slope);
  d.at[row * n + i] = flushed(gradient * s);
}
