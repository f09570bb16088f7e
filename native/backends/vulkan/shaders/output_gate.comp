#version 460
// y = logistic(gate) * x of attention's heads, rows of T; every head's gate follows its query. An invocation to an element.
#extension GL_GOOGLE_include_directive : require
#include "arithmetic.glsl"
#include "functions.glsl"
#include "buffers.glsl"

layout(local_size_x = 64) in;
layout(push_constant) uniform Parameters {
  Elements q;     // [rows][heads][2][head_dim], ldq to a row
  Elements x, y;  // [rows][ld]
  int n, head_dim, ldq, ld;
};

void main() {
  const int i = int(gl_GlobalInvocationID.x), row = int(gl_WorkGroupID.y), at = row * ld + i;
  if (i >= n) return;
  const float g = element(q, row * ldq + (i / head_dim * 2 + 1) * head_dim + i % head_dim);
  put(y, at, quotient(1.0, 1.0 + exponential(-g)) * element(x, at));
}
