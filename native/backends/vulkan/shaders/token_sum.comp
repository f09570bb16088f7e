#version 460
// to[m][n] += sum over tokens [first, first + tokens) of left[token][m] right[token][n], float32: a chain over tokens in
// order. A workgroup has a tile of 64 by 64, an invocation 4 by 4 of it.
#extension GL_GOOGLE_include_directive : require
#include "arithmetic.glsl"
#include "buffers.glsl"

layout(local_size_x = 256) in;
layout(push_constant) uniform Parameters {
  Elements left, right;  // [tokens][ldl], [tokens][ldr]
  Floats to;
  int first, tokens, m, n, ldl, ldr, ldo;
};

const int kTile = 64, kDepth = 32;
shared float ls[kDepth][kTile], rs[kDepth][kTile];

void main() {
  const int me = int(gl_LocalInvocationID.x), col0 = int(gl_WorkGroupID.x) * kTile, row0 = int(gl_WorkGroupID.y) * kTile;
  const int r0 = me / 16 * 4, c0 = me % 16 * 4;
  float c[4][4];
  LOOP for (int i = 0; i < 4; i++)
    LOOP for (int j = 0; j < 4; j++) {
      const int row = row0 + r0 + i, col = col0 + c0 + j;
      c[i][j] = row < m && col < n ? to.at[row * ldo + col] : 0.0;
    }
  for (int t0 = 0; t0 < tokens; t0 += kDepth) {
    const int depth = min(kDepth, tokens - t0);
    for (int at = me; at < kTile * depth; at += 256) {
      const int t = at / kTile, i = at % kTile, token = first + t0 + t;
      ls[t][i] = row0 + i < m ? element(left, token * ldl + row0 + i) : 0.0;
      rs[t][i] = col0 + i < n ? element(right, token * ldr + col0 + i) : 0.0;
    }
    barrier();
    LOOP for (int step = 0; step < depth; step += kStep) {
      LOOP for (int t = min(step + kStep, depth) - 1; t >= step; t--) {
        float a[4], b[4];
        for (int i = 0; i < 4; i++) a[i] = ls[t][r0 + i], b[i] = rs[t][c0 + i];
        LOOP for (int i = 0; i < 4; i++)
          for (int j = 0; j < 4; j++) c[i][j] = mad(a[i], b[j], c[i][j]);
      }
    }
    barrier();
  }
  LOOP for (int i = 0; i < 4; i++)
    LOOP for (int j = 0; j < 4; j++) {
      const int row = row0 + r0 + i, col = col0 + c0 + j;
      if (row < m && col < n) to.at[row * ldo + col] = flushed(c[i][j]);
    }
}
