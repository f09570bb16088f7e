#version 460
// x W^T of many rows: a workgroup has a tile of 64 rows by 64 outputs, an invocation 4 by 4 of it.
#extension GL_GOOGLE_include_directive : require
#include "arithmetic.glsl"
#include "functions.glsl"
#include "buffers.glsl"
#include "weights.glsl"
#include "quantized.glsl"
#include "adapters.glsl"
#include "product_output.glsl"

layout(local_size_x = 256) in;

const int kTile = 64, kDepth = 32;
shared float xs[kDepth][kTile], ws[kDepth][kTile];

void main() {
  const int me = int(gl_LocalInvocationID.x), col0 = int(gl_WorkGroupID.x) * kTile, row0 = int(gl_WorkGroupID.y) * kTile;
  const int r0 = me / 16 * 4, c0 = me % 16 * 4, granules = granules_of(k);
  float c[4][4];
  LOOP for (int i = 0; i < 4; i++)
    LOOP for (int j = 0; j < 4; j++) c[i][j] = beginning(row0 + r0 + i, col0 + c0 + j);
  for (int k0 = 0; k0 < k; k0 += kDepth) {
    const int depth = min(kDepth, k - k0);
    for (int at = me; at < kTile * kDepth / kGranule; at += 256) {
      const int within = at % kTile, g = at / kTile, granule = k0 / kGranule + g;
      const bool inside = granule < granules;
      const uvec4 activation = inside && row0 + within < rows ? x.at[(row0 + within) * ldx + granule] : uvec4(0);
      const int col = col0 + within;
      const uvec4 weight = inside && col < n ? weights_of(w, k, col, granule) : uvec4(0);
      for (int i = 0; i < kGranule; i++) {
        xs[g * kGranule + i][within] = part(activation, i);
        ws[g * kGranule + i][within] = part(weight, i);
      }
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
    LOOP for (int j = 0; j < 4; j++) finish(row0 + r0 + i, col0 + c0 + j, c[i][j]);
}
