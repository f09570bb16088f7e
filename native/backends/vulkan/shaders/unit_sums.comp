#version 460
// dh[row] = the units of a row's entry times the loss's derivatives by its log-probability and its entropy; zeros where it
// has none.
#extension GL_GOOGLE_include_directive : require
#include "arithmetic.glsl"
#include "buffers.glsl"

layout(local_size_x = 64) in;
layout(push_constant) uniform Parameters {
  Floats units, entropy_units;  // [entries][n]; the latter or null
  Floats by_logprob, by_entropy;
  Ints entry_of;  // [rows]; -1: none
  Floats dh;
  int n;
};

void main() {
  const int row = int(gl_WorkGroupID.x), entry = entry_of.at[row];
  const bool with_entropy = present(uvec2(by_entropy));
  Floats of_entropy = Floats(either(uvec2(by_entropy), uvec2(by_logprob)));
  for (int i = int(gl_LocalInvocationID.x); i < n; i += 64) {
    float sum = entry < 0 ? 0.0 : mad(by_logprob.at[entry], units.at[entry * n + i], 0.0);
    if (entry >= 0 && with_entropy) sum = mad(of_entropy.at[entry], entropy_units.at[entry * n + i], sum);
    dh.at[row * n + i] = flushed(sum);
  }
}
