#version 460
// out[rows][k] (+)= x[rows][n] W[n][k] on cooperative matrices, float32.
#extension GL_GOOGLE_include_directive : require
#include "arithmetic.glsl"
#include "buffers.glsl"
#include "weights.glsl"
#include "quantized.glsl"
#include "cooperative.glsl"

layout(push_constant) uniform Parameters {
  Granules x;  // halves [rows][ldx]
  Granules w;
  Floats to;
  int rows, n, k, ldx, ldo, accumulate;
};

const bool kTransposed = true;
#include "matrix_tiles.glsl"

void finish_outputs(int row[kAtOnce], int col[kAtOnce], float sum[kAtOnce]) {
  float found[kAtOnce];
  [[unroll]] for (int i = 0; i < kAtOnce; i++) {
    const int r = min(row[i], rows - 1), o = min(col[i], k - 1);
    sum[i] = sum[i] * unit_of(x, r, ldx);
    found[i] = accumulate != 0 ? to.at[r * ldo + o] : 0.0;
  }
  [[unroll]] for (int i = 0; i < kAtOnce; i++)
    if (row[i] < rows && col[i] < k)
      to.at[row[i] * ldo + col[i]] = flushed(accumulate != 0 ? found[i] + sum[i] : sum[i]);
}

void main() { compute_tile(steps_of(n), steps_of(n)); }
