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
  const int col = int(gl_WorkGroupID.x) * kCols + int(gl_LocalInvocationID.x) % kCols;
  const int row0 = int(gl_WorkGroupID.y) * kRows, mine = row0 + int(gl_LocalInvocationID.x) / kCols * kEach;
  const bool sums = has_chains();
  Staged staged;
  fetch(staged, x, w, col, row0, rows, 0);
  float c[kEach];
  LOOP for (int r = 0; r < kEach; r++) c[r] = sums ? beginning(mine + r, col) : 0.0;
  sum_chains(c, staged, x, w, col, row0, rows);
  if (!sums) return;
  // All that is read stands before all that is written, so that it may be read at once.
  LOOP for (int r = 0; r < kEach; r++) c[r] = completed(min(mine + r, rows - 1), min(col, n - 1), c[r]);
  LOOP for (int r = 0; r < kEach; r++) write(mine + r, col, c[r]);
}
