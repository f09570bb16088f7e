#version 460
// x W^T of few rows: an invocation has one output of up to 8 rows, and reads its weights once.
#extension GL_GOOGLE_include_directive : require
#include "arithmetic.glsl"
#include "functions.glsl"
#include "buffers.glsl"
#include "weights.glsl"
#include "quantized.glsl"
#include "adapters.glsl"
#include "product_output.glsl"

layout(local_size_x = 64) in;
layout(constant_id = 2) const int kRows = 1;

void main() {
  const int col = int(gl_GlobalInvocationID.x), row0 = int(gl_WorkGroupID.y) * kRows, granules = granules_of(k);
  if (col >= n) return;
  float c[kRows];
  LOOP for (int r = 0; r < kRows; r++) c[r] = beginning(row0 + r, col);
  LOOP for (int g = 0; g < granules; g++) {
    const uvec4 weight = weights_of(w, k, col, g);
    const int count = k - g * kGranule;
    LOOP for (int r = 0; r < kRows; r++) c[r] = chain(c[r], x.at[min(row0 + r, rows - 1) * ldx + g], weight, count);
  }
  LOOP for (int r = 0; r < kRows; r++) finish(row0 + r, col, c[r]);
}
