#version 460
// out[rows][k] (+)= x[rows][n] W[n][k] on cooperative matrices, float32: a workgroup has a tile of 128 rows by 64 outputs, a
// subgroup 32 by 32 of it.
#extension GL_GOOGLE_include_directive : require
#include "arithmetic.glsl"
#include "buffers.glsl"
#include "weights.glsl"
#include "quantized.glsl"
#include "cooperative.glsl"

layout(push_constant) uniform Parameters {
  Granules x;  // halves [rows][ldx]
  Granules w;
  Floats to;
  int rows, n, k, ldx, ldo, accumulate;
};

const int kTileRows = 128, kTileCols = 64, kPart = 32, kDown = kPart / kM, kAcross = kPart / kN;
const int kAcrossLd = kTileCols / 8 + 1;
shared uvec4 xs[kTileRows * kLd], ws[kDepth * kAcrossLd];
shared float outs[kSubgroups * kM * kN];

void main() {
  const int me = int(gl_LocalInvocationID.x), all = int(gl_WorkGroupSize.x), subgroup = int(gl_SubgroupID);
  const int col0 = int(gl_WorkGroupID.x) * kTileCols, row0 = int(gl_WorkGroupID.y) * kTileRows;
  const int down = subgroup / 2 * kPart, across = subgroup % 2 * kPart, granules = granules_of(k);
  Sum sums[kDown][kAcross];
  for (int i = 0; i < kDown; i++)
    for (int j = 0; j < kAcross; j++) sums[i][j] = Sum(0.0);
  for (int step = 0; step < steps_of(n); step++) {
    for (int i = me; i < kTileRows * kDepthGranules; i += all) {
      const int row = i / kDepthGranules, g = i % kDepthGranules;
      xs[row * kLd + g] = row0 + row < rows ? x.at[(row0 + row) * ldx + step * kDepthGranules + g] : uvec4(0);
    }
    for (int i = me; i < kDepth * kTileCols / 8; i += all) {
      const int unit = i % kDepth, g = i / kDepth, granule = col0 / 8 + g;
      ws[unit * kAcrossLd + g] =
          step * kDepth + unit < n && granule < granules ? halves(weights_of(w, k, step * kDepth + unit, granule)) : uvec4(0);
    }
    barrier();
    for (int at = 0; at < kDepth; at += kK) {
      Right right[kAcross];
      for (int j = 0; j < kAcross; j++)
        coopMatLoadNV(right[j], ws, at * kAcrossLd + (across + j * kN) / 8, kAcrossLd, false);
      for (int i = 0; i < kDown; i++) {
        Left left;
        coopMatLoadNV(left, xs, (down + i * kM) * kLd + at / 8, kLd, false);
        for (int j = 0; j < kAcross; j++) sums[i][j] = coopMatMulAddNV(left, right[j], sums[i][j]);
      }
    }
    barrier();
  }
  const int mine = subgroup * kM * kN;
  for (int i = 0; i < kDown; i++)
    for (int j = 0; j < kAcross; j++) {
      coopMatStoreNV(sums[i][j], outs, mine, kN, false);
      barrier();
      for (int e = int(gl_SubgroupInvocationID); e < kM * kN; e += int(gl_SubgroupSize)) {
        const int row = row0 + down + i * kM + e / kN, col = col0 + across + j * kN + e % kN;
        if (row < rows && col < k) {
          const float sum = outs[mine + e] * unit_of(x, row, ldx);
          to.at[row * ldo + col] = flushed(accumulate != 0 ? to.at[row * ldo + col] + sum : sum);
        }
      }
      barrier();
    }
}
