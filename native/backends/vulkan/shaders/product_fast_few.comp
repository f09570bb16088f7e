#version 460
// x W^T of few rows on cooperative matrices: a workgroup has a tile of 16 rows by 32 outputs, each subgroup a slice of k,
// of which kAhead steps are on their way while one is multiplied, so that a weight is read once and by many.
#extension GL_GOOGLE_include_directive : require
#include "arithmetic.glsl"
#include "functions.glsl"
#include "buffers.glsl"
#include "weights.glsl"
#include "quantized.glsl"
#include "adapters.glsl"
#include "product_output.glsl"
#include "cooperative.glsl"

layout(constant_id = 2) const int kAhead = 2;

const int kTileRows = 16, kTileCols = 32, kDown = kTileRows / kM, kAcross = kTileCols / kN;
const int kAtOnce = (kTileRows * kTileCols + kThreads - 1) / kThreads;
#include "slices.glsl"

// Granules of a step, and those of them that an invocation of its subgroup brings: of x, then of weights.
const int kRowGranules = kTileRows * kDepthGranules, kColGranules = kTileCols * kDepthGranules;
const int kOwnRows = (kRowGranules + kSubgroupThreads - 1) / kSubgroupThreads;
const int kOwnCols = (kColGranules + kSubgroupThreads - 1) / kSubgroupThreads, kOwn = kOwnRows + kOwnCols;

// A step of each slice, and then, in its place, what it sums up to.
const int kColsAt = kTileRows * kLd, kStage = kColsAt + kTileCols * kLd, kSumLd = kTileCols / 4 + 1;
shared uvec4 stages[kSlices * kStage];

int tile_row() { return int(gl_WorkGroupID.x) * kTileRows; }
int tile_col() { return int(gl_WorkGroupID.y) * kTileCols; }
int own(int i, int count) { return min(i * kSubgroupThreads + int(gl_SubgroupInvocationID), count - 1); }

// As matrix_tiles.glsl has it.
uvec4 fetched(int step, int i) {
  if (i < kOwnRows) {
    const ivec2 at = brought(own(i, kRowGranules));
    return x.at[min(tile_row() + at.x, rows - 1) * ldx + step * kDepthGranules + at.y];
  }
  const int at = own(i - kOwnRows, kColGranules), granules = granules_of(k);
  return weights_of(w, k, min(tile_col() + at % kTileCols, n - 1), min(step * kDepthGranules + at / kTileCols, granules - 1));
}

void put_down(int stage, int i, uvec4 granule) {
  if (i < kOwnRows) {
    const ivec2 at = brought(own(i, kRowGranules));
    stages[stage + at.x * kLd + at.y] = granule;
  } else {
    const int at = own(i - kOwnRows, kColGranules);
    stages[stage + kColsAt + at % kTileCols * kLd + at / kTileCols] = halves(granule);
  }
}

void main() {
  const int slice = int(gl_SubgroupID), stage = slice * kStage;
  const int first = first_step(slice, k), last = first_step(slice + 1, k);
  Sum sums[kDown][kAcross];
  [[unroll]] for (int i = 0; i < kDown; i++)
    [[unroll]] for (int j = 0; j < kAcross; j++) sums[i][j] = Sum(0.0);
  uvec4 held[kAhead * kOwn];
  [[unroll]] for (int a = 0; a < kAhead; a++)
    if (first + a < last)
      [[unroll]] for (int i = 0; i < kOwn; i++) held[a * kOwn + i] = fetched(first + a, i);
  // As many barriers for all slices: Mesa's software device takes a subgroup's for the workgroup's.
  for (int begin = first; begin < first + slice_steps(k); begin += kAhead)
    [[unroll]] for (int a = 0; a < kAhead; a++) {
      const int step = begin + a;
      if (step < last)
        [[unroll]] for (int i = 0; i < kOwn; i++) put_down(stage, i, held[a * kOwn + i]);
      if (step + kAhead < last)
        [[unroll]] for (int i = 0; i < kOwn; i++) held[a * kOwn + i] = fetched(step + kAhead, i);
      subgroupBarrier();
      if (step < last)
        [[unroll]] for (int at = 0; at < kDepth; at += kK) {
          Left left[kDown];
          [[unroll]] for (int i = 0; i < kDown; i++) coopMatLoadNV(left[i], stages, stage + i * kM * kLd + at / 8, kLd, false);
          [[unroll]] for (int j = 0; j < kAcross; j++) {
            Right right;
            coopMatLoadNV(right, stages, stage + kColsAt + j * kN * kLd + at / 8, kLd, true);
            [[unroll]] for (int i = 0; i < kDown; i++) sums[i][j] = coopMatMulAddNV(left[i], right, sums[i][j]);
          }
        }
      subgroupBarrier();
    }
  [[unroll]] for (int i = 0; i < kDown; i++)
    [[unroll]] for (int j = 0; j < kAcross; j++) coopMatStoreNV(sums[i][j], stages, stage + i * kM * kSumLd + j * kN / 4, kSumLd, false);
  barrier();
  int row[kAtOnce], col[kAtOnce];
  float total[kAtOnce];
  [[unroll]] for (int e = 0; e < kAtOnce; e++) {
    const int at = e * kThreads + int(gl_LocalInvocationID.x), r = at / kTileCols, c = at % kTileCols;
    row[e] = r < kTileRows ? tile_row() + r : rows, col[e] = tile_col() + c;
    total[e] = 0.0;
    [[unroll]] for (int s = 0; s < kSlices; s++)
      total[e] = total[e] + as_float(stages[s * kStage + min(r, kTileRows - 1) * kSumLd + c / 4][c % 4]);
  }
  finish_slices(row, col, total);
}
