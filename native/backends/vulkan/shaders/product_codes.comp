#version 460
// x W^T of quantised weights with activations of 8 bits: exact integer sums, and a multiply-add for each scale of a group
// (cpu/kernels/quantized.h). An invocation has one output of up to 8 rows. T is what outputs are rounded to.
#extension GL_GOOGLE_include_directive : require
#include "arithmetic.glsl"
#include "functions.glsl"
#include "buffers.glsl"
#include "weights.glsl"
#include "quantized.glsl"
#include "byte_products.glsl"
#include "adapters.glsl"
#include "product_output.glsl"

layout(local_size_x = 64) in;
layout(constant_id = 2) const int kRows = 1;

void main() {
  const int col = int(gl_GlobalInvocationID.x), row0 = int(gl_WorkGroupID.y) * kRows, groups = k / kGroup;
  if (col >= n) return;
  const int lane = col % 32, quads = 8 / kParts;
  float c[kRows];
  LOOP for (int r = 0; r < kRows; r++) c[r] = beginning(row0 + r, col);
  LOOP for (int g = 0; g < groups; g++) {
    const int record = record_of(groups, col, g);
    const float extra = extra_of(w, record, lane);
    const int zero = zero_of(extra);
    LOOP for (int p = 0; p < kParts; p++) {
      int sums[kRows];
      LOOP for (int r = 0; r < kRows; r++)
        sums[r] = sum_of_codes(x.at[(min(row0 + r, rows - 1) * groups + g) * 3 + 2], p) * rest_of(zero);
      LOOP for (int j = p * quads; j < (p + 1) * quads; j++) {
        const uint bytes = bytes_of_codes(w, record, lane, j);
        LOOP for (int r = 0; r < kRows; r++)
          sums[r] += dot_bytes(x.at[(min(row0 + r, rows - 1) * groups + g) * 3 + (j >> 2)][j & 3], bytes);
      }
      const float scale = scale_of(w, record, lane, p);
      LOOP for (int r = 0; r < kRows; r++) {
        const uvec4 of_row = x.at[(min(row0 + r, rows - 1) * groups + g) * 3 + 2];
        c[r] = mad(float(sums[r]), as_float(of_row.x) * scale, c[r]);
      }
    }
    if (kMinima != 0)
      LOOP for (int r = 0; r < kRows; r++)
        c[r] = mad(as_float(x.at[(min(row0 + r, rows - 1) * groups + g) * 3 + 2].y), extra, c[r]);
  }
  LOOP for (int r = 0; r < kRows; r++) finish(row0 + r, col, c[r]);
}
