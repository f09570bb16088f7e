// Weights as panels of 16 outputs, [N/16][K/step][16][step] (step 2 for bfloat16, 1 for float32): to, from and across.
#pragma once
#include "simd.h"

namespace anneal::cpu {
namespace {

// Elements of one panel over k.
template <class T> ANNEAL_INLINE int64_t panel_size(int k) { return int64_t(kLanes) * round_to(k, kStep<T>); }

template <class S, class T> ANNEAL_INLINE void convert16(const S* from, T* to, int n) {
  if (n >= kLanes)
    store(to, load(from));
  else {
    store(to, zero());
    if (n > 0) store(to, load(from, Part{n}));
  }
}
// The same type is copied bit by bit.
ANNEAL_INLINE void convert16(const bf16* from, bf16* to, int n) {
  for (int i = 0; i < kLanes; i++) to[i] = i < n ? from[i] : bf16{};
}

// panels <- src[n][k].
template <class T, class S> void pack_from(const S* src, int64_t ld, int n, int k, T* panels) {
  constexpr int wide = kLanes * kStep<T>;  // k of one 16 x 16 block of 32-bit elements
  alignas(64) T stage[kLanes][wide];
  for (int n0 = 0; n0 < n; n0 += kLanes, panels += panel_size<T>(k)) {
    int k0 = 0;
    if constexpr (std::is_same_v<S, T>)  // whole blocks as they lie
      for (; n - n0 >= kLanes && k - k0 >= wide; k0 += wide) {
        I32x16 block[kLanes];
#pragma GCC unroll 16
        for (int r = 0; r < kLanes; r++) block[r] = load_int(src + (n0 + r) * ld + k0);
        transpose16(block);
#pragma GCC unroll 16
        for (int i = 0; i < kLanes; i++) store_int(panels + (int64_t(k0) + i * kStep<T>)*kLanes, block[i]);
      }
    for (; k0 < k; k0 += wide) {
      I32x16 block[kLanes];
      for (int r = 0; r < kLanes; r++) {
        for (int part = 0; part < wide; part += kLanes)
          convert16(src + (n0 + r) * ld + k0 + part, stage[r] + part, n0 + r < n ? k - k0 - part : 0);
        block[r] = load_int(stage[r]);
      }
      transpose16(block);
      int steps = round_to(k - k0, kStep<T>) / kStep<T>;
      for (int i = 0; i < kLanes && i < steps; i++) store_int(panels + (int64_t(k0) + i * kStep<T>)*kLanes, block[i]);
    }
  }
}

template <class T> void pack(const void* src, DType src_type, int64_t ld, int n, int k, void* panels) {
  if (src_type == DType::f32)
    pack_from((const float*)src, ld, n, k, (T*)panels);
  else
    pack_from((const bf16*)src, ld, n, k, (T*)panels);
}

// dst[n][k] <- panels.
template <class T> void unpack(const void* from, int n, int k, float* dst, int64_t ld) {
  constexpr int wide = kLanes * kStep<T>;
  const T* panels = (const T*)from;
  alignas(64) T row[wide];
  for (int n0 = 0; n0 < n; n0 += kLanes, panels += panel_size<T>(k)) {
    for (int k0 = 0; k0 < k; k0 += wide) {
      I32x16 block[kLanes];
      int steps = round_to(k - k0, kStep<T>) / kStep<T>;
      for (int i = 0; i < kLanes; i++)
        block[i] = i < steps ? load_int(panels + (int64_t(k0) + i * kStep<T>)*kLanes) : all_int(0);
      transpose16(block);
      for (int r = 0; r < kLanes && n0 + r < n; r++) {
        store_int(row, block[r]);
        int count = k - k0 < wide ? k - k0 : wide;
        float* to = dst + (n0 + r) * ld + k0;
        each16(count, [&](int64_t i, auto lanes) { store(to + i, load(row + i, lanes), lanes); });
      }
    }
  }
}

// dst[n][ld] <- whole panels, `panel` elements apart, bit by bit; rows are written in whole blocks of 32-bit elements.
template <class T> void unpack_rows(const T* panels, int64_t panel, int n, int k, T* dst, int64_t ld) {
  constexpr int wide = kLanes * kStep<T>;
  for (int n0 = 0; n0 < n; n0 += kLanes, panels += panel, dst += kLanes * ld)
    for (int k0 = 0; k0 < k; k0 += wide) {
      I32x16 block[kLanes];
#pragma GCC unroll 16
      for (int i = 0; i < kLanes; i++) block[i] = load_int(panels + int64_t(k0) * kLanes + i * kStep<T> * kLanes);
      transpose16(block);
#pragma GCC unroll 16
      for (int r = 0; r < kLanes; r++) store_int(dst + r * ld + k0, block[r]);
    }
}

// One step of k for 16 outputs, from rows of src^T.
template <class S, class Lanes>
ANNEAL_INLINE void store_step(const S* src, int64_t ld, int rows_left, Lanes lanes, float* to) {
  (void)ld, (void)rows_left;
  store(to, load(src, lanes));
}
template <class S, class Lanes>
ANNEAL_INLINE void store_step(const S* src, int64_t ld, int rows_left, Lanes lanes, bf16* to) {
  I32x16 even = round_words(load(src, lanes));
  I32x16 odd = rows_left > 1 ? round_words(load(src + ld, lanes)) : all_int(0);
  store_int(to, even | shift_left<16>(odd));
}

// The same type is copied bit by bit.
template <class Lanes>
ANNEAL_INLINE void store_step(const bf16* src, int64_t ld, int rows_left, Lanes lanes, bf16* to) {
  const I32x16 even = load_words(src, lanes), odd = rows_left > 1 ? load_words(src + ld, lanes) : all_int(0);
  store_int(to, even | shift_left<16>(odd));
}

// panels of src^T, src[rows][cols]: outputs = cols, reduction = rows.
template <class T, class S>
ANNEAL_INLINE void pack_transposed_from(const S* src, int64_t ld, int rows, int cols, T* panels) {
  each16(cols, [&](int64_t c, auto lanes) {
    T* to = panels + c / kLanes * panel_size<T>(rows);
    for (int r = 0; r < rows; r += kStep<T>)
      store_step(src + r * ld + c, ld, rows - r, lanes, to + int64_t(r) * kLanes);
  });
}

template <class T> void pack_transposed(const void* src, DType src_type, int64_t ld, int rows, int cols, void* panels) {
  if (src_type == DType::f32)
    pack_transposed_from((const float*)src, ld, rows, cols, (T*)panels);
  else
    pack_transposed_from((const bf16*)src, ld, rows, cols, (T*)panels);
}

// 16 outputs n by 16 k, from panels of W[n][k] to panels of W^T: one block.
ANNEAL_INLINE void transpose_block(const float* from, int k_left, int n_left, float* to) {
  I32x16 block[kLanes];
  for (int i = 0; i < kLanes; i++) block[i] = i < k_left ? load_int(from + i * kLanes) : all_int(0);
  transpose16(block);
  for (int i = 0; i < kLanes && i < n_left; i++) store_int(to + i * kLanes, block[i]);
}
ANNEAL_INLINE void transpose_block(const bf16* from, int k_left, int n_left, bf16* to) {
  I32x16 block[kLanes / 2];
  for (int i = 0; i < kLanes / 2; i++) block[i] = 2 * i < k_left ? load_int(from + i * 2 * kLanes) : all_int(0);
  transpose_pairs(block);
  for (int i = 0; i < kLanes / 2 && 2 * i < n_left; i++) store_int(to + i * 2 * kLanes, block[i]);
}

// Panels ahead of the one whose piece is transposed: pieces lie a panel apart, which no processor fetches ahead of.
constexpr int kTransposeAhead = 4;

// out <- panels of W^T, `out_panel` elements apart, with outputs col0 .. col0 + cols and reduction n0 .. n0 + rows.
template <class T>
void transpose_panels_into(const void* panels, int k, int col0, int cols, int n0, int rows, void* out,
                           int64_t out_panel) {
  const T* from = (const T*)panels + n0 / kLanes * panel_size<T>(k) + int64_t(col0) * kLanes;
  const int64_t ahead = kTransposeAhead * panel_size<T>(k), piece = int64_t(cols) * kLanes;
  for (int r = 0; r < rows; r += kLanes, from += panel_size<T>(k)) {
    for (int64_t at = 0; at < piece; at += 64 / int64_t(sizeof(T))) prefetch(from + ahead + at);
    T* to = (T*)out + int64_t(r) * kLanes;
    for (int c = 0; c < cols; c += kLanes, to += out_panel)
      transpose_block(from + int64_t(c) * kLanes, k - col0 - c, rows - r, to);
  }
}

template <class T>
void transpose_panels(const void* panels, int n, int k, int col0, int cols, int n0, int rows, void* out) {
  (void)n;
  transpose_panels_into<T>(panels, k, col0, cols, n0, rows, out, panel_size<T>(rows));
}

// Row id of W as float32.
template <class T> void embed(const void* panels, int n, int k, int id, float* out) {
  (void)n;
  const T* at = (const T*)panels + id / kLanes * panel_size<T>(k) + id % kLanes * kStep<T>;
  for (int i = 0; i < k; i++) out[i] = widen(at[int64_t(i / kStep<T>) * kLanes * kStep<T> + i % kStep<T>]);
}

}  // namespace
}  // namespace anneal::cpu
