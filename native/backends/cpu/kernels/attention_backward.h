// Gradients of attention, with the probabilities recomputed from the log-sum-exp of each row.
//
// p = exp(scale q.k - lse), dp = dout.v, ds = p (dp - sum(dout out)) scale; dq = ds K, dk = ds^T q, dv = p^T dout.
// p (for dv), ds and dout are rounded to T for the products. dq belongs to a tile of query rows and visits the key
// blocks in ascending order; dk and dv belong to a key block and visit the rows in the order given, in chunks of 64.
#pragma once
#include "attention.h"
#include "convert.h"

namespace anneal::cpu {
namespace {

template <class T> struct AttentionBackwardScratch {
  float *scores, *dp;         // [64 rows][64 keys]
  float* delta;               // [64 rows]: sum(dout out)
  T *p, *ds;                  // [64 rows][64 keys]
  T *p_t, *ds_t;              // [64 keys][64 rows]
  T* dout;                    // [64 rows][depth]
  T* v_t;                     // panels of V^T: outputs = 64 keys, reduction = head_dim
  T* k_t;                     // panels of K^T: outputs = head_dim, reduction = 64 keys
  T *q_panels, *dout_panels;  // outputs = head_dim, reduction = rows
  float *first, *second;      // [64][width]: dq, or dk and dv
  size_t bytes;

  ANNEAL_INLINE AttentionBackwardScratch(void* at, int head_dim) {
    Scratch s{(char*)at};
    const size_t width = round_to(head_dim, kLanes), square = size_t(kAttentionRows) * kPage, tall = kPage * width;
    scores = s.take<float>(square);
    dp = s.take<float>(square);
    delta = s.take<float>(kAttentionRows);
    p = s.take<T>(square);
    ds = s.take<T>(square);
    p_t = s.take<T>(square);
    ds_t = s.take<T>(square);
    dout = s.take<T>(tall);
    v_t = s.take<T>(tall);
    k_t = s.take<T>(tall);
    q_panels = s.take<T>(tall);
    dout_panels = s.take<T>(tall);
    first = s.take<float>(tall);
    second = s.take<float>(tall);
    bytes = s.used;
  }
};

template <class T> size_t attention_backward_scratch(int head_dim) {
  return AttentionBackwardScratch<T>(nullptr, head_dim).bytes;
}

// dout rounded, and delta, of rows row0 .. row0 + rows.
template <class T>
void prepare_rows(const AttentionBackwardTask& t, int row0, int rows, int width, const AttentionBackwardScratch<T>& s) {
  round_rows<T>(t.dout + row0 * t.lddo, t.lddo, rows, t.head_dim, 1.0f, s.dout, width);
  for (int r = 0; r < rows; r++) {
    const float *out = t.out + (row0 + r) * t.ldo, *dout = t.dout + (row0 + r) * t.lddo;
    F32x16 sum = zero();
    each16(t.head_dim, [&](int64_t i, auto lanes) { sum = fma(load(out + i, lanes), load(dout + i, lanes), sum); });
    s.delta[r] = sum_lanes(sum);
  }
}

// p and ds of rows row0 .. row0 + rows for one key block; v_t must hold the block's panels.
template <class T>
void score_gradients(const AttentionBackwardTask& t, int row0, int rows, int block, const void* k_page, int width,
                     const AttentionBackwardScratch<T>& s) {
  gemm<T>((const T*)t.q + row0 * t.ldq, t.ldq, rows, k_page, t.head_dim, kKeyPanels, s.scores, kPage, false);
  gemm<T>(s.dout, width, rows, s.v_t, t.head_dim, kKeyPanels, s.dp, kPage, false);
  const float cap = t.sight.soft_cap;
  if (cap > 0) cap_scores(s.scores, rows, t.scale, cap);
  const F32x16 scale = all(t.scale), factor = all(cap > 0 ? 1.0f : t.scale),
               inverse_cap = all(cap > 0 ? 1 / cap : 0.0f);
  for (int r = 0; r < rows; r++) {
    const Visible visible(t.sight, t.positions[row0 + r], block);
    const bool whole = visible.whole();
    const F32x16 shift = all(-t.lse[row0 + r]), delta = all(s.delta[r]);
#pragma GCC unroll 4
    for (int j = 0; j < kKeyPanels; j++) {
      const int at = r * kPage + j * kLanes;
      F32x16 p = exp(fma(load(s.scores + at), factor, shift));
      F32x16 ds = p * (load(s.dp + at) - delta) * scale;
      if (cap > 0) {
        const F32x16 t = load(s.scores + at) * inverse_cap;  // d tanh = 1 - tanh^2
        ds = ds * (all(1.0f) - t * t);
      }
      if (!whole) {
        p = masked<Sees::window>(visible, j, p, 0.0f);
        ds = masked<Sees::window>(visible, j, ds, 0.0f);
      }
      store(s.p + at, p);
      store(s.ds + at, ds);
    }
  }
}

// dq[rows][head_dim], overwritten; at most kAttentionRows rows.
template <class T> void attention_backward_dq(const AttentionBackwardTask& t) {
  const AttentionBackwardScratch<T> s(t.scratch, t.head_dim);
  const int width = round_to(t.head_dim, kLanes);
  prepare_rows(t, 0, t.rows, width, s);
  for (int b = t.sight.first; b < t.blocks; b++) {
    transpose_panels<T>(t.v_pages[b], t.head_dim, kPage, 0, kPage, 0, t.head_dim, s.v_t);
    score_gradients(t, 0, t.rows, b, t.k_pages[b], width, s);
    transpose_panels<T>(t.k_pages[b], kPage, t.head_dim, 0, width, 0, kPage, s.k_t);
    gemm<T>(s.ds, kPage, t.rows, s.k_t, kPage, width / kLanes, s.first, width, b > t.sight.first);
  }
  for (int r = 0; r < t.rows; r++)
    each16(t.head_dim,
           [&](int64_t i, auto lanes) { store(t.dq + r * t.lddq + i, load(s.first + r * width + i), lanes); });
}

// Copies [64][head_dim] between rows of ld and rows of width.
ANNEAL_INLINE void copy_keys(const float* from, int64_t ld_from, float* to, int64_t ld_to, int head_dim) {
  for (int r = 0; r < kPage; r++)
    each16(head_dim,
           [&](int64_t i, auto lanes) { store(to + r * ld_to + i, load(from + r * ld_from + i, lanes), lanes); });
}

// dk[64][head_dim], dv[64][head_dim] of one key block, added to. Any number of rows.
template <class T> void attention_backward_dkv(const AttentionBackwardTask& t) {
  const AttentionBackwardScratch<T> s(t.scratch, t.head_dim);
  const int width = round_to(t.head_dim, kLanes);
  copy_keys(t.dk, t.lddkv, s.first, width, t.head_dim);
  copy_keys(t.dv, t.lddkv, s.second, width, t.head_dim);
  transpose_panels<T>(t.v_pages[0], t.head_dim, kPage, 0, kPage, 0, t.head_dim, s.v_t);
  for (int row0 = 0; row0 < t.rows; row0 += kAttentionRows) {
    const int rows = t.rows - row0 < kAttentionRows ? t.rows - row0 : kAttentionRows;
    prepare_rows(t, row0, rows, width, s);
    score_gradients(t, row0, rows, t.block, t.k_pages[0], width, s);
    transpose<T>(s.p, kType<T>, kPage, rows, kPage, s.p_t, kAttentionRows);
    transpose<T>(s.ds, kType<T>, kPage, rows, kPage, s.ds_t, kAttentionRows);
    pack_transposed<T>(s.dout, kType<T>, width, rows, t.head_dim, s.dout_panels);
    pack_transposed<T>((const T*)t.q + row0 * t.ldq, kType<T>, t.ldq, rows, t.head_dim, s.q_panels);
    gemm<T>(s.p_t, kAttentionRows, kPage, s.dout_panels, rows, width / kLanes, s.second, width, true);
    gemm<T>(s.ds_t, kAttentionRows, kPage, s.q_panels, rows, width / kLanes, s.first, width, true);
  }
  copy_keys(s.first, width, t.dk, t.lddkv, t.head_dim);
  copy_keys(s.second, width, t.dv, t.lddkv, t.head_dim);
}

}  // namespace
}  // namespace anneal::cpu
