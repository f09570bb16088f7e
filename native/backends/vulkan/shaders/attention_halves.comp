#version 460
// Gradients of attention's outputs, rounded to T, as float16 for products on cooperative matrices: each head of a row by the
// power of two that brings its largest element between 2^14 and 2^15; units[rows][heads] undo that. And delta[rows][heads] as
// attention_delta.comp has it. A workgroup to a row and head.
#extension GL_GOOGLE_include_directive : require
#include "arithmetic.glsl"
#include "functions.glsl"
#include "buffers.glsl"
#include "rows.glsl"
#include "attention_fast_backward.glsl"

layout(local_size_x = 16) in;
layout(push_constant) uniform Parameters {
  Elements attention;  // [rows][ld]
  Floats d_attention;  // [rows][heads * head_dim]
  Floats delta, units;
  Granules halves;  // [rows][heads][head_dim]
  int heads, head_dim, ld;
};

shared uint largest;

void main() {
  const int row = int(gl_WorkGroupID.x), head = int(gl_WorkGroupID.y), lane = int(gl_LocalInvocationID.x);
  const int from = (row * heads + head) * head_dim;
  if (lane == 0) largest = 0u;
  barrier();
  float sum = 0.0;
  uint most = 0u;
  for (int i = lane; i < head_dim; i += kLanes) {
    const float d = rounded(d_attention.at[from + i]);
    most = max(most, as_bits(d) & 0x7fffffffu);
    sum = mad(element(attention, row * ld + head * head_dim + i), d, sum);
  }
  lane_sums[lane] = sum;
  atomicMax(largest, most);
  barrier();
  const int shift = shift_of(as_float(largest));
  const float factor = power(shift);
  if (lane == 0) delta.at[row * heads + head] = sum_of_lanes(), units.at[row * heads + head] = power(-shift);
  for (int g = lane; g < head_dim / 8; g += kLanes) {
    uvec4 granule;
    for (int i = 0; i < 4; i++) {
      const int at = from + g * 8 + 2 * i;
      granule[i] = packHalf2x16(vec2(rounded(d_attention.at[at]) * factor, rounded(d_attention.at[at + 1]) * factor));
    }
    halves.at[from / 8 + g] = granule;
  }
}
