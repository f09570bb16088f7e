#version 460
// z[row] = round(s A x[row]) by the row's own adapter, where it adapts the projection; a workgroup to 32 of an A's rows and
// kRows rows of x, those of one adapter at a time.
#extension GL_GOOGLE_include_directive : require
#include "arithmetic.glsl"
#include "buffers.glsl"
#include "weights.glsl"
#include "quantized.glsl"
#include "adapters.glsl"

layout(push_constant) uniform Parameters {
  Granules x;  // [rows][ldx]
  Addresses adapters;  // of each row's
  Elements z;  // [rows][ldz granules]
  int rows, k, ldx, ldz, projection;
};

#include "staged_chains.glsl"

void main() {
  const int me = int(gl_LocalInvocationID.x), col0 = int(gl_WorkGroupID.x) * kCols, col = col0 + me % kCols;
  const int row0 = int(gl_WorkGroupID.y) * kRows, mine = row0 + me / kCols * kEach, last = min(row0 + kRows, rows);
  for (int begin = row0, end; begin < last; begin = end) {
    const uvec2 adapter = adapters.at[begin];
    end = begin + 1;
    while (end < last && adapters.at[end] == adapter) end++;
    if (!present(adapter)) continue;
    LowRank low = Adapter(adapter).at[projection];
    if (!present(uvec2(low.a)) || col0 >= low.rank) continue;
    Staged staged;
    fetch(staged, x, low.a, col, row0, rows, 0);
    float c[kEach];
    LOOP for (int r = 0; r < kEach; r++) c[r] = 0.0;
    sum_chains(c, staged, x, low.a, col, row0, rows);
    LOOP for (int r = 0; r < kEach; r++) {
      const int row = mine + r;
      if (has_chains() && row >= begin && row < end && col < low.rank) put(z, row * ldz * kGranule + col, c[r] * low.scale);
    }
  }
}
