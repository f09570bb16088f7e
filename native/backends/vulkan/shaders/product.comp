#version 460
// x W^T of many rows, by tiles.
#extension GL_GOOGLE_include_directive : require
#include "arithmetic.glsl"
#include "functions.glsl"
#include "buffers.glsl"
#include "weights.glsl"
#include "quantized.glsl"
#include "adapters.glsl"
#include "product_output.glsl"
#include "tiles.glsl"

uvec4 activations[kHeld], weights[kHeld];

int row0() { return int(gl_WorkGroupID.y) * kTileRows; }
int col0() { return int(gl_WorkGroupID.x) * kTileCols; }

// Beyond the rows, the outputs and the last granule those are taken again: nothing comes of it.
void fetch(int first) {
  const int granule = first / kGranule, last = granules_of(k) - 1;
  UNROLL for (int i = 0; i < kHeld; i++) {
    const int at = me() + i * 256, row = min(row0() + at % kTileRows, rows - 1), col = min(col0() + at % kTileCols, n - 1);
    if (at < kTileRows * kDepth / kGranule) activations[i] = x.at[row * ldx + min(granule + at / kTileRows, last)];
    if (at < kTileCols * kDepth / kGranule) weights[i] = weights_of(w, k, col, min(granule + at / kTileCols, last));
  }
}

void stage(int half_at) {
  UNROLL for (int i = 0; i < kHeld; i++) {
    const int at = me() + i * 256;
    if (at < kTileRows * kDepth / kGranule)
      [[unroll]] for (int j = 0; j < kGranule; j++)
        put_staged(left_at(half_at, at / kTileRows * kGranule + j, at % kTileRows), part(activations[i], j));
    if (at < kTileCols * kDepth / kGranule)
      [[unroll]] for (int j = 0; j < kGranule; j++)
        put_staged(right_at(half_at, at / kTileCols * kGranule + j, at % kTileCols), part(weights[i], j));
  }
}

void main() {
  UNROLL for (int i = 0; i < kRows; i++)
    [[unroll]] for (int j = 0; j < kCols; j++) c[i * kCols + j] = beginning(row0() + row_of(i), col0() + col_of(j));
  take_chains(0, k);
  // Up to 64 rows at once, through shared memory: each subgroup puts out what lies together.
  const int each = kRows < 4 ? kRows : 4, some = 16 * each;
  UNROLL for (int of = 0; of < kRows; of += each) {
    const int first = 16 * of;
    UNROLL for (int i = 0; i < each; i++)
      [[unroll]] for (int j = 0; j < kCols; j++)
        put_staged((row_of(of + i) - first) * kTileCols + col_of(j), c[(of + i) * kCols + j]);
    barrier();
    LOOP for (int at = me(); at < some * kTileCols; at += 256)
      finish(row0() + first + at / kTileCols, col0() + at % kTileCols, staged_at(at));
    barrier();
  }
}
