#version 460
// x W^T of quantised weights with activations of 8 bits, as product_codes.comp has it, of many rows: a workgroup has a
// tile of kTile rows by as many outputs, an invocation 4 by 4 of it.
#extension GL_GOOGLE_include_directive : require
#include "arithmetic.glsl"
#include "functions.glsl"
#include "buffers.glsl"
#include "weights.glsl"
#include "quantized.glsl"
#include "byte_products.glsl"
#include "adapters.glsl"
#include "product_output.glsl"

layout(constant_id = 2) const int kTile = 64;
layout(local_size_x_id = 8) in;  // kTile / 4 squared

const int kStage = 4;  // groups of k between barriers
const int kWords = kGroup / 4;
shared uint xs[kStage * kWords][kTile], ws[kStage * kWords][kTile];
shared float x_scales[kStage][kTile], x_sums[kStage][kTile], w_scales[kStage * kParts][kTile], w_extras[kStage][kTile];
shared int x_codes[kStage * kParts][kTile], w_rests[kStage][kTile];  // what bytes lack of the sums is their product

void take_activations(int row, int g, int groups, int s, int within) {
  const int from = (min(row, rows - 1) * groups + g) * 3;
  const uvec4 of_row = x.at[from + 2];
  x_scales[s][within] = as_float(of_row.x), x_sums[s][within] = as_float(of_row.y);
  for (int p = 0; p < kParts; p++) x_codes[s * kParts + p][within] = sum_of_codes(of_row, p);
  for (int j = 0; j < kWords; j++) xs[s * kWords + j][within] = x.at[from + (j >> 2)][j & 3];
}

void take_weights(int col, int g, int groups, int s, int within) {
  const int record = record_of(groups, min(col, n - 1), g), lane = min(col, n - 1) % 32;
  const float extra = extra_of(w, record, lane);
  const int zero = zero_of(extra);
  w_extras[s][within] = extra;
  w_rests[s][within] = rest_of(zero);
  for (int p = 0; p < kParts; p++) w_scales[s * kParts + p][within] = scale_of(w, record, lane, p);
  for (int j = 0; j < kWords; j++) ws[s * kWords + j][within] = bytes_of_codes(w, record, lane, j);
}

void main() {
  const int me = int(gl_LocalInvocationID.x), all = kTile * kTile / 16, across = kTile / 4, groups = k / kGroup;
  const int col0 = int(gl_WorkGroupID.x) * kTile, row0 = int(gl_WorkGroupID.y) * kTile;
  const int r0 = me / across * 4, c0 = me % across * 4, words = kWords / kParts;
  float c[4][4];
  LOOP for (int i = 0; i < 4; i++)
    LOOP for (int j = 0; j < 4; j++) c[i][j] = beginning(row0 + r0 + i, col0 + c0 + j);
  for (int g0 = 0; g0 < groups; g0 += kStage) {
    const int count = min(kStage, groups - g0);
    for (int at = me; at < kTile * kStage; at += all) {
      const int mine = at % kStage, theirs = at / kTile;
      if (mine < count) take_activations(row0 + at / kStage, g0 + mine, groups, mine, at / kStage);
      if (theirs < count) take_weights(col0 + at % kTile, g0 + theirs, groups, theirs, at % kTile);
    }
    barrier();
    LOOP for (int s = 0; s < count; s++) {
      LOOP for (int p = 0; p < kParts; p++) {
        int sums[4][4];
        for (int i = 0; i < 4; i++)
          for (int j = 0; j < 4; j++) sums[i][j] = x_codes[s * kParts + p][r0 + i] * w_rests[s][c0 + j];
        for (int word = s * kWords + p * words; word < s * kWords + (p + 1) * words; word++) {
          uint a[4], b[4];
          for (int i = 0; i < 4; i++) a[i] = xs[word][r0 + i], b[i] = ws[word][c0 + i];
          for (int i = 0; i < 4; i++)
            for (int j = 0; j < 4; j++) sums[i][j] += dot_bytes(a[i], b[j]);
        }
        LOOP for (int i = 0; i < 4; i++)
          LOOP for (int j = 0; j < 4; j++)
            c[i][j] = mad(float(sums[i][j]), x_scales[s][r0 + i] * w_scales[s * kParts + p][c0 + j], c[i][j]);
      }
      if (kMinima != 0)
        LOOP for (int i = 0; i < 4; i++)
          LOOP for (int j = 0; j < 4; j++) c[i][j] = mad(x_sums[s][r0 + i], w_extras[s][c0 + j], c[i][j]);
    }
    barrier();
  }
  LOOP for (int i = 0; i < 4; i++)
    LOOP for (int j = 0; j < 4; j++) finish(row0 + r0 + i, col0 + c0 + j, c[i][j]);
}
