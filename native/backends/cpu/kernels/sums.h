// Sums of rows and vectors in float32.
#pragma once
#include "simd.h"

namespace anneal::cpu {
namespace {

// c [rows][ldc] += bias [n].
void bias_add(float* c, int64_t ldc, int rows, int n, const float* bias) {
  for (int r = 0; r < rows; r++) {
    float* row = c + r * ldc;
    each16(n, [&](int64_t i, auto lanes) { store(row + i, load(row + i, lanes) + load(bias + i, lanes), lanes); });
  }
}

// y [n] += x [n].
void add(float* y, const float* x, int64_t n) {
  each16(n, [&](int64_t i, auto lanes) { store(y + i, load(y + i, lanes) + load(x + i, lanes), lanes); });
}

// y [n] += s * x [n], one fma each.
void add_scaled(float* y, const float* x, float s, int64_t n) {
  const F32x16 scale = all(s);
  each16(n, [&](int64_t i, auto lanes) { store(y + i, fma(scale, load(x + i, lanes), load(y + i, lanes)), lanes); });
}

// sums[n] += x[rows][n], rows in order.
void column_sums(const float* x, int64_t ldx, int rows, int n, float* sums) {
  each16(n, [&](int64_t i, auto lanes) {
    F32x16 sum = load(sums + i, lanes);
    for (int r = 0; r < rows; r++) sum = sum + load(x + r * ldx + i, lanes);
    store(sums + i, sum, lanes);
  });
}

// Blocks of 4096 summed in 16 lanes and one tree; the blocks in ascending order in double.
double sum_squares(const float* x, int64_t n) {
  constexpr int64_t block = 4096;
  double total = 0;
  for (int64_t b = 0; b < n; b += block) {
    F32x16 sum = zero();
    each16(n - b < block ? n - b : block, [&](int64_t i, auto lanes) {
      F32x16 v = load(x + b + i, lanes);
      sum = fma(v, v, sum);
    });
    total += double(sum_lanes(sum));
  }
  return total;
}

}  // namespace
}  // namespace anneal::cpu
