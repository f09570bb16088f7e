#version 460
// y[row] = weight * x / sqrt(mean(x^2) + eps), of the rows of float32 that `from` names, or of all; a workgroup to a row.
#extension GL_GOOGLE_include_directive : require
#include "arithmetic.glsl"
#include "functions.glsl"
#include "buffers.glsl"
#include "rows.glsl"

layout(local_size_x = 64) in;
layout(push_constant) uniform Parameters {
  Floats x;
  Floats weight;
  Elements y;
  Ints from;  // or null
  int n, ldy;
  float eps;
  int first;  // of the rows
};

void main() {
  const int row = int(gl_WorkGroupID.x), lane = int(gl_LocalInvocationID.x);
  const bool listed = present(uvec2(from));
  const int named = Ints(either(uvec2(from), uvec2(x))).at[listed ? row : 0], at = (listed ? named : first + row) * n;
  if (lane < kLanes) {
    float sum = 0.0;
    for (int i = lane; i < n; i += kLanes) sum = mad(x.at[at + i], x.at[at + i], sum);
    lane_sums[lane] = sum;
  }
  barrier();
  const float inverse = quotient(1.0, root(quotient(sum_of_lanes(), float(n)) + eps));
  for (int i = lane; i < n; i += 64) put(y, row * ldy + i, x.at[at + i] * inverse * weight.at[i]);
}
