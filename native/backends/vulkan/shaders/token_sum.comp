#version 460
// to[m][n] += sum over tokens [first, first + tokens) of left[token][m] right[token][n], float32: a chain over tokens in
// order; by tiles of m and n.
#extension GL_GOOGLE_include_directive : require
#include "arithmetic.glsl"
#include "buffers.glsl"
#include "tiles.glsl"

layout(push_constant) uniform Parameters {
  Granules left, right;  // of T: [tokens][ldl], [tokens][ldr]
  Floats to;
  int first, tokens, m, n, ldl, ldr, ldo;
};

uvec4 lefts[kHeld], rights[kHeld];
const int kRowGranules = kTileRows / kGranule, kColGranules = kTileCols / kGranule;

int row0() { return int(gl_WorkGroupID.y) * kTileRows; }
int col0() { return int(gl_WorkGroupID.x) * kTileCols; }

// Beyond the tokens, m and n the last granule is taken again: nothing comes of it.
void fetch(int from) {
  UNROLL for (int i = 0; i < kHeld; i++) {
    const int at = me() + i * 256;
    if (at < kRowGranules * kDepth)
      lefts[i] = left.at[(first + min(from + at / kRowGranules, tokens - 1)) * (ldl / kGranule) +
                         min(row0() / kGranule + at % kRowGranules, (m - 1) / kGranule)];
    if (at < kColGranules * kDepth)
      rights[i] = right.at[(first + min(from + at / kColGranules, tokens - 1)) * (ldr / kGranule) +
                           min(col0() / kGranule + at % kColGranules, (n - 1) / kGranule)];
  }
}

void stage(int half_at) {
  UNROLL for (int i = 0; i < kHeld; i++) {
    const int at = me() + i * 256;
    if (at < kRowGranules * kDepth)
      put_granule(left_at(half_at, at / kRowGranules, at % kRowGranules * kGranule), lefts[i]);
    if (at < kColGranules * kDepth)
      put_granule(right_at(half_at, at / kColGranules, at % kColGranules * kGranule), rights[i]);
  }
}

void main() {
  UNROLL for (int i = 0; i < kRows; i++)
    [[unroll]] for (int j = 0; j < kCols; j++) {
      const int row = row0() + row_of(i), col = col0() + col_of(j);
      c[i * kCols + j] = row < m && col < n ? to.at[row * ldo + col] : 0.0;
    }
  take_chains(0, tokens);
  UNROLL for (int i = 0; i < kRows; i++)
    [[unroll]] for (int j = 0; j < kCols; j++) {
      const int row = row0() + row_of(i), col = col0() + col_of(j);
      if (row < m && col < n) to.at[row * ldo + col] = flushed(c[i * kCols + j]);
    }
}
