#version 460
// Gradients of what heads of the delta rule put out, in the place of `d`, and of their gates, rows of T; a workgroup to a row
// and head.
#extension GL_GOOGLE_include_directive : require
#include "arithmetic.glsl"
#include "functions.glsl"
#include "buffers.glsl"
#include "rows.glsl"

layout(local_size_x = 64) in;
layout(push_constant) uniform Parameters {
  Elements x, gate;  // [rows][ld]
  Floats weight;     // [n]
  Floats d;          // [rows][heads * n]
  Elements d_gate;   // [rows][ld]
  int n, ld;
  float eps;
  int heads;
};

void main() {
  const int row = int(gl_WorkGroupID.x), head = int(gl_WorkGroupID.y), lane = int(gl_LocalInvocationID.x);
  const int at = row * ld + head * n, to = (row * heads + head) * n;
  if (lane < kLanes) {
    float sum = 0.0;
    for (int i = lane; i < n; i += kLanes) sum = mad(element(x, at + i), element(x, at + i), sum);
    lane_sums[lane] = sum;
  }
  barrier();
  const float inverse = quotient(1.0, root(quotient(sum_of_lanes(), float(n)) + eps));
  barrier();
  if (lane < kLanes) {
    float dot = 0.0;
    for (int i = lane; i < n; i += kLanes) {
      const float g = element(gate, at + i), s = quotient(1.0, 1.0 + exponential(-g)), w = weight.at[i];
      const float value = g * s, slope = s * mad(g, 1.0 - s, 1.0), u = element(x, at + i) * inverse, normed = d.at[to + i] * value;
      put(d_gate, at + i, d.at[to + i] * u * w * slope);
      d.at[to + i] = flushed(normed * w);
      dot = mad(normed * w, u, dot);
    }
    lane_sums[lane] = dot;
  }
  barrier();
  const float mean = -quotient(sum_of_lanes(), float(n));
  // Each goes on with what it has written.
  if (lane < kLanes)
    for (int i = lane; i < n; i += kLanes)
      d.at[to + i] = flushed(mad(element(x, at + i) * inverse, mean, d.at[to + i]) * inverse);
}
