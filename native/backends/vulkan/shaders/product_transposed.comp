#version 460
// out[rows][k] (+)= x[rows][n] W[n][k], float32: a chain over n, from `first` on. A workgroup has a tile of 64 rows by 64 outputs, an
// invocation 4 by 4 of it.
#extension GL_GOOGLE_include_directive : require
#include "arithmetic.glsl"
#include "buffers.glsl"
#include "weights.glsl"
#include "quantized.glsl"

layout(local_size_x = 256) in;
layout(push_constant) uniform Parameters {
  Granules x;  // [rows][ldx]
  Granules w;
  Floats to;
  int rows, first, n, k, ldx, ldo, accumulate;
};

const int kTile = 64, kDepth = 32;
shared float xs[kDepth][kTile], ws[kDepth][kTile];

void main() {
  const int me = int(gl_LocalInvocationID.x), col0 = int(gl_WorkGroupID.x) * kTile, row0 = int(gl_WorkGroupID.y) * kTile;
  const int r0 = me / 16 * 4, c0 = me % 16 * 4, granules = granules_of(k);
  float c[4][4];
  LOOP for (int i = 0; i < 4; i++)
    LOOP for (int j = 0; j < 4; j++) {
      const int row = row0 + r0 + i, col = col0 + c0 + j;
      c[i][j] = accumulate != 0 && row < rows && col < k ? to.at[row * ldo + col] : 0.0;
    }
  for (int n0 = first; n0 < n; n0 += kDepth) {
    const int depth = min(kDepth, n - n0);
    for (int at = me; at < kTile * kDepth / kGranule; at += 256) {
      const int row = at % kTile, g = at / kTile;
      const bool inside = n0 + g * kGranule < n && row0 + row < rows;
      const uvec4 left = inside ? x.at[(row0 + row) * ldx + n0 / kGranule + g] : uvec4(0);
      for (int i = 0; i < kGranule; i++) xs[g * kGranule + i][row] = part(left, i);
      const int unit = at % kDepth, granule = col0 / kGranule + at / kDepth;
      const uvec4 right = unit < depth && granule < granules ? weights_of(w, k, n0 + unit, granule) : uvec4(0);
      for (int i = 0; i < kGranule; i++) ws[unit][at / kDepth * kGranule + i] = part(right, i);
    }
    barrier();
    LOOP for (int step = 0; step < depth; step += kStep) {
      LOOP for (int kk = min(step + kStep, depth) - 1; kk >= step; kk--) {
        float a[4], b[4];
        for (int i = 0; i < 4; i++) a[i] = xs[kk][r0 + i], b[i] = ws[kk][c0 + i];
        LOOP for (int i = 0; i < 4; i++)
          for (int j = 0; j < 4; j++) c[i][j] = mad(a[i], b[j], c[i][j]);
      }
    }
    barrier();
  }
  LOOP for (int i = 0; i < 4; i++)
    LOOP for (int j = 0; j < 4; j++) {
      const int row = row0 + r0 + i, col = col0 + c0 + j;
      if (row < rows && col < k) to.at[row * ldo + col] = flushed(c[i][j]);
    }
}
