#version 460
// z[row] = round(s A x[row]) by the row's own adapter, where it adapts the projection; a workgroup to a row.
#extension GL_GOOGLE_include_directive : require
#include "arithmetic.glsl"
#include "buffers.glsl"
#include "weights.glsl"
#include "adapters.glsl"

layout(local_size_x = 32) in;
layout(push_constant) uniform Parameters {
  Granules x;  // [rows][ldx]
  Addresses adapters;  // of each row's
  Elements z;  // [rows][ldz granules]
  int k, ldx, ldz, projection;
};

void main() {
  const int row = int(gl_WorkGroupID.x), granules = granules_of(k);
  if (!present(adapters.at[row])) return;
  LowRank low = Adapter(adapters.at[row]).at[projection];
  if (!present(uvec2(low.a))) return;
  for (int r = int(gl_LocalInvocationID.x); r < low.rank; r += 32) {
    float c = 0.0;
    LOOP for (int g = 0; g < granules; g++)
      c = chain(c, x.at[row * ldx + g], low.a.at[(r / 32 * granules + g) * 32 + r % 32], k - g * kGranule);
    put(z, row * ldz * kGranule + r, c * low.scale);
  }
}
