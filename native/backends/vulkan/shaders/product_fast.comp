#version 460
// x W^T of many rows on cooperative matrices.
#extension GL_GOOGLE_include_directive : require
#include "arithmetic.glsl"
#include "functions.glsl"
#include "buffers.glsl"
#include "weights.glsl"
#include "quantized.glsl"
#include "adapters.glsl"
#include "product_output.glsl"
#include "cooperative.glsl"

const bool kTransposed = false;
#include "matrix_tiles.glsl"
#include "slices.glsl"

void finish_outputs(int row[kAtOnce], int col[kAtOnce], float sum[kAtOnce]) { finish_slices(row, col, sum); }

void main() { compute_tile(steps_of(k), slice_steps(k)); }
