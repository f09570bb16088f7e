#version 460
// x W^T of many rows on cooperative matrices: a workgroup has a tile of 128 rows by 64 outputs, a subgroup 32 by 32 of it.
#extension GL_GOOGLE_include_directive : require
#include "arithmetic.glsl"
#include "functions.glsl"
#include "buffers.glsl"
#include "weights.glsl"
#include "quantized.glsl"
#include "adapters.glsl"
#include "product_output.glsl"
#include "cooperative.glsl"
#include "slices.glsl"

const int kTileRows = 128, kTileCols = 64, kPart = 32, kDown = kPart / kM, kAcross = kPart / kN;
shared uvec4 xs[kTileRows * kLd], ws[kTileCols * kLd];
shared float outs[kSubgroups * kM * kN];

void main() {
  const int me = int(gl_LocalInvocationID.x), all = int(gl_WorkGroupSize.x), subgroup = int(gl_SubgroupID);
  const int col0 = int(gl_WorkGroupID.x) * kTileCols, row0 = int(gl_WorkGroupID.y) * kTileRows;
  const int down = subgroup / 2 * kPart, across = subgroup % 2 * kPart, granules = granules_of(k);
  Sum sums[kDown][kAcross], total[kDown][kAcross];
  for (int i = 0; i < kDown; i++)
    for (int j = 0; j < kAcross; j++) total[i][j] = Sum(0.0);
  for (int slice = 0; slice < kSlices; slice++) {
    for (int i = 0; i < kDown; i++)
      for (int j = 0; j < kAcross; j++) sums[i][j] = Sum(0.0);
    for (int step = first_step(slice, k); step < first_step(slice + 1, k); step++) {
      for (int i = me; i < kTileRows * kDepthGranules; i += all) {
        const int row = i / kDepthGranules, g = i % kDepthGranules;
        xs[row * kLd + g] = row0 + row < rows ? x.at[(row0 + row) * ldx + step * kDepthGranules + g] : uvec4(0);
      }
      for (int i = me; i < kTileCols * kDepthGranules; i += all) {
        const int col = i % kTileCols, g = i / kTileCols, granule = step * kDepthGranules + g;
        ws[col * kLd + g] = col0 + col < n && granule < granules ? halves(weights_of(w, k, col0 + col, granule)) : uvec4(0);
      }
      barrier();
      for (int at = 0; at < kDepth; at += kK) {
        Right right[kAcross];
        for (int j = 0; j < kAcross; j++) coopMatLoadNV(right[j], ws, (across + j * kN) * kLd + at / 8, kLd, true);
        for (int i = 0; i < kDown; i++) {
          Left left;
          coopMatLoadNV(left, xs, (down + i * kM) * kLd + at / 8, kLd, false);
          for (int j = 0; j < kAcross; j++) sums[i][j] = coopMatMulAddNV(left, right[j], sums[i][j]);
        }
      }
      barrier();
    }
    for (int i = 0; i < kDown; i++)
      for (int j = 0; j < kAcross; j++) total[i][j] = total[i][j] + sums[i][j];
  }
  const int mine = subgroup * kM * kN;
  for (int i = 0; i < kDown; i++)
    for (int j = 0; j < kAcross; j++) {
      coopMatStoreNV(total[i][j], outs, mine, kN, false);
      barrier();
      for (int e = int(gl_SubgroupInvocationID); e < kM * kN; e += int(gl_SubgroupSize))
        finish_slices(row0 + down + i * kM + e / kN, col0 + across + j * kN + e % kN, outs[mine + e]);
      barrier();
    }
}
