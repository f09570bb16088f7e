// Rows of activations between float32 and the compute type, straight and transposed.
#pragma once
#include "simd.h"

namespace anneal::cpu {
namespace {

// dst[rows][ldd] (T, zero padded) = round(src[rows][cols] * scale).
template <class T>
void round_rows(const float* src, int64_t lds, int rows, int cols, float scale, void* dst, int64_t ldd) {
  const F32x16 s = all(scale);
  for (int r = 0; r < rows; r++) {
    const float* from = src + r * lds;
    T* to = (T*)dst + r * ldd;
    each16(cols, [&](int64_t i, auto lanes) { store(to + i, load(from + i, lanes) * s, lanes); });
    zero_fill(to, cols, ldd);
  }
}

// dst[rows][ldd] (float32) = src[rows][lds] (T), cols columns.
template <class T> void widen_rows(const void* src, int64_t lds, int rows, int cols, float* dst, int64_t ldd) {
  for (int r = 0; r < rows; r++) {
    const T* from = (const T*)src + r * lds;
    float* to = dst + r * ldd;
    each16(cols, [&](int64_t i, auto lanes) { store(to + i, load(from + i, lanes), lanes); });
  }
}

// to[cols][ldd] = from[rows][lds]^T of one 16 x 16 block at most: lanes in over columns, out over rows.
template <class S, class T, class In, class Out>
ANNEAL_INLINE void transpose_tile(const S* from, int64_t lds, int rows, In in, T* to, int64_t ldd, int cols, Out out) {
  I32x16 block[kLanes];
#pragma GCC unroll 16
  for (int r = 0; r < kLanes; r++) block[r] = r < rows ? as_int(load(from + r * lds, in)) : all_int(0);
  transpose16(block);
#pragma GCC unroll 16
  for (int c = 0; c < kLanes; c++)
    if (c < cols) store(to + c * ldd, as_float(block[c]), out);
}

template <class T, class S>
ANNEAL_INLINE void transpose_from(const S* src, int64_t lds, int rows, int cols, T* dst, int64_t ldd) {
  // Whole blocks of rows; the last one writes only the rows there are, and the padding follows.
  each16(cols, [&](int64_t c, auto in) {
    each16(rows, [&](int64_t r, auto out) {
      transpose_tile(src + r * lds + c, lds, out.n, in, dst + c * ldd + r, ldd, in.n, out);
    });
  });
  for (int c = 0; c < cols; c++) zero_fill(dst + c * ldd, rows, ldd);
}

// dst[cols][ldd] (T, zero padded) = src[rows][lds]^T.
template <class T>
void transpose(const void* src, DType src_type, int64_t lds, int rows, int cols, void* dst, int64_t ldd) {
  if (src_type == DType::f32)
    transpose_from((const float*)src, lds, rows, cols, (T*)dst, ldd);
  else
    transpose_from((const bf16*)src, lds, rows, cols, (T*)dst, ldd);
}

}  // namespace
}  // namespace anneal::cpu
