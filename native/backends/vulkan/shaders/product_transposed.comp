#version 460
// out[rows][k] (+)= x[rows][n] W[n][k], float32: a chain over n, from `first` on; by tiles of rows and k.
#extension GL_GOOGLE_include_directive : require
#include "arithmetic.glsl"
#include "buffers.glsl"
#include "weights.glsl"
#include "quantized.glsl"
#include "tiles.glsl"

layout(push_constant) uniform Parameters {
  Granules x;  // [rows][ldx]
  Granules w;
  Floats to;
  int rows, first, n, k, ldx, ldo, accumulate;
};

uvec4 lefts[kHeld], rights[kHeld];
const int kColGranules = kTileCols / kGranule;

int row0() { return int(gl_WorkGroupID.y) * kTileRows; }
int col0() { return int(gl_WorkGroupID.x) * kTileCols; }

// Beyond the rows, n and the last granule those are taken again: nothing comes of it.
void fetch(int from) {
  const int last = granules_of(k) - 1;
  UNROLL for (int i = 0; i < kHeld; i++) {
    const int at = me() + i * 256;
    if (at < kTileRows * kDepth / kGranule)
      lefts[i] = x.at[min(row0() + at % kTileRows, rows - 1) * ldx +
                      min(from / kGranule + at / kTileRows, (n - 1) / kGranule)];
    if (at < kTileCols * kDepth / kGranule)
      rights[i] = weights_of(w, k, min(from + at / kColGranules, n - 1),
                             min(col0() / kGranule + at % kColGranules, last));
  }
}

void stage(int half_at) {
  UNROLL for (int i = 0; i < kHeld; i++) {
    const int at = me() + i * 256;
    if (at < kTileRows * kDepth / kGranule)
      [[unroll]] for (int j = 0; j < kGranule; j++)
        put_staged(left_at(half_at, at / kTileRows * kGranule + j, at % kTileRows), part(lefts[i], j));
    if (at < kTileCols * kDepth / kGranule)
      put_granule(right_at(half_at, at / kColGranules, at % kColGranules * kGranule), rights[i]);
  }
}

void main() {
  UNROLL for (int i = 0; i < kRows; i++)
    [[unroll]] for (int j = 0; j < kCols; j++) {
      const int row = row0() + row_of(i), col = col0() + col_of(j);
      c[i * kCols + j] = accumulate != 0 && row < rows && col < k ? to.at[row * ldo + col] : 0.0;
    }
  take_chains(first, n);
  UNROLL for (int i = 0; i < kRows; i++)
    [[unroll]] for (int j = 0; j < kCols; j++) {
      const int row = row0() + row_of(i), col = col0() + col_of(j);
      if (row < rows && col < k) to.at[row * ldo + col] = flushed(c[i * kCols + j]);
    }
}
