#version 460
// x W^T of few rows: a workgroup has 32 outputs of up to 64 rows, and reads their weights once. All its invocations stage a
// stretch of k in shared memory, and have the next one's loads in flight while the chains go through this one: of an
// output, and kEach rows, to an invocation.
#extension GL_GOOGLE_include_directive : require
#include "arithmetic.glsl"
#include "functions.glsl"
#include "buffers.glsl"
#include "weights.glsl"
#include "quantized.glsl"
#include "adapters.glsl"
#include "product_output.glsl"
#include "staged_chains.glsl"

void main() {
  const int block = int(gl_WorkGroupID.x), lane = int(gl_LocalInvocationID.x) % kCols, col = block * kCols + lane;
  const int row0 = int(gl_WorkGroupID.y) * kRows, mine = row0 + int(gl_LocalInvocationID.x) / kCols * kEach;
  const bool sums = has_chains();
  Staged staged;
  fetch(staged, x, w, col, row0, rows, 0);
  float c[kEach];
  LowRank low[kEach];
  int most = 0;  // granules of any rank
  LOOP for (int r = 0; r < kEach; r++) {
    c[r] = sums ? beginning(mine + r, col) : 0.0;
    low[r] = adapter_of(min(mine + r, rows - 1));
    if (present(uvec2(low[r].b))) most = max(most, granules_of(low[r].rank));
  }
  sum_chains(c, staged, x, w, col, row0, rows);
  if (!sums || col >= n) return;
  LOOP for (int r = 0; r < kEach; r++) c[r] = with_bias(col, c[r]);
  // What all rows need is read at once.
  LOOP for (int g = 0; g < most; g++) {
    uvec4 left[kEach], right[kEach];
    LOOP for (int r = 0; r < kEach; r++) {
      const bool has_it = present(uvec2(low[r].b)) && g < granules_of(low[r].rank);
      left[r] = z.at[min(mine + r, rows - 1) * ldz + (has_it ? g : 0)];
      right[r] = Granules(either(uvec2(low[r].b), uvec2(w))).at[has_it ? (block * granules_of(low[r].rank) + g) * 32 + lane : 0];
    }
    LOOP for (int r = 0; r < kEach; r++) {
      const int count = present(uvec2(low[r].b)) ? low[r].rank - g * kGranule : 0;
      c[r] = chain(c[r], left[r], right[r], count);
    }
  }
  LOOP for (int r = 0; r < kEach; r++) write(mine + r, col, c[r]);
}
