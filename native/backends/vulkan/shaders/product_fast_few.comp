#version 460
// x W^T of few rows on cooperative matrices: a workgroup has a tile of 16 rows by 32 outputs, each subgroup a slice of k,
// so that a weight is read once and by many.
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

const int kTileRows = 16, kTileCols = 32, kDown = kTileRows / kM, kAcross = kTileCols / kN;
const int kEach = (kTileRows * kTileCols + int(gl_WorkGroupSize.x) - 1) / int(gl_WorkGroupSize.x);
shared uvec4 xs[kSlices * kTileRows * kLd], ws[kSlices * kTileCols * kLd];
shared float outs[kTileRows * kTileCols];

void main() {
  const int me = int(gl_LocalInvocationID.x), all = int(gl_WorkGroupSize.x), slice = int(gl_SubgroupID);
  const int lane = int(gl_SubgroupInvocationID), lanes = int(gl_SubgroupSize), granules = granules_of(k);
  const int col0 = int(gl_WorkGroupID.x) * kTileCols, row0 = int(gl_WorkGroupID.y) * kTileRows;
  const int my_xs = slice * kTileRows * kLd, my_ws = slice * kTileCols * kLd;
  Sum sums[kDown][kAcross];
  for (int i = 0; i < kDown; i++)
    for (int j = 0; j < kAcross; j++) sums[i][j] = Sum(0.0);
  const int first = first_step(slice, k), last = first_step(slice + 1, k), most = first_step(1, k);
  for (int step = first; step < first + most; step++) {
    const bool inside = step < last;
    for (int i = lane; i < kTileRows * kDepthGranules; i += lanes) {
      const int row = i / kDepthGranules, g = i % kDepthGranules;
      xs[my_xs + row * kLd + g] = inside && row0 + row < rows ? x.at[(row0 + row) * ldx + step * kDepthGranules + g] : uvec4(0);
    }
    for (int i = lane; i < kTileCols * kDepthGranules; i += lanes) {
      const int col = i % kTileCols, g = i / kTileCols, granule = step * kDepthGranules + g;
      ws[my_ws + col * kLd + g] = inside && col0 + col < n && granule < granules ? halves(weights_of(w, k, col0 + col, granule)) : uvec4(0);
    }
    barrier();
    for (int at = 0; inside && at < kDepth; at += kK) {
      Left left[kDown];
      for (int i = 0; i < kDown; i++) coopMatLoadNV(left[i], xs, my_xs + i * kM * kLd + at / 8, kLd, false);
      for (int j = 0; j < kAcross; j++) {
        Right right;
        coopMatLoadNV(right, ws, my_ws + j * kN * kLd + at / 8, kLd, true);
        for (int i = 0; i < kDown; i++) sums[i][j] = coopMatMulAddNV(left[i], right, sums[i][j]);
      }
    }
    barrier();
  }
  float total[kEach];
  for (int e = 0; e < kEach; e++) total[e] = 0.0;
  for (int s = 0; s < kSlices; s++) {
    if (s == slice)
      for (int i = 0; i < kDown; i++)
        for (int j = 0; j < kAcross; j++) coopMatStoreNV(sums[i][j], outs, i * kM * kTileCols + j * kN, kTileCols, false);
    barrier();
    for (int e = 0; e < kEach; e++) {
      const int at = e * all + me;
      if (at < kTileRows * kTileCols) total[e] = total[e] + outs[at];
    }
    barrier();
  }
  for (int e = 0; e < kEach; e++) {
    const int at = e * all + me;
    if (at < kTileRows * kTileCols) finish_slices(row0 + at / kTileCols, col0 + at % kTileCols, total[e]);
  }
}
