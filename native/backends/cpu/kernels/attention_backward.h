// Gradients of attention, with the probabilities recomputed from the log-sum-exp of each row.
//
// p = exp(scale q.k - lse), dp = dout.v, ds = p (dp - sum(dout out)) scale; dq += ds K, dk += ds^T q, dv += p^T dout.
// p (for dv) and ds are rounded to T for the products. Of pages of codes K and V are what the codes stand for; ds is
// multiplied with a key's scale before it is rounded for dq. A task is some rows of a sequence against some of its key
// blocks: scores are made once and serve all three gradients. Each row of dq takes up the blocks in ascending order,
// each key of dk and dv the rows in the order given, in chunks of 64: whoever runs tasks in that order gets the bits of
// one task.
#pragma once
#include "attention.h"
#include "convert.h"

namespace anneal::cpu {
namespace {

template <class T, class Pages> struct AttentionBackwardScratch {
  float *scores, *dp;                    // [64 rows][64 keys]
  T *p, *ds;                             // [64 rows][64 keys]
  T *p_t, *ds_t;                         // [64 keys][64 rows]
  T* v_t;                                // panels of V^T: outputs = 64 keys, reduction = head_dim
  T* k_t;                                // panels of K^T: outputs = head_dim, reduction = 64 keys
  T *q_panels, *dout_panels;             // of each chunk of rows: outputs = head_dim, reduction = rows
  T *keys = nullptr, *values = nullptr;  // panels of a block of codes
  T* ds_scaled;                          // ds times the scales of the keys [64 rows][64 keys]; exact pages: ds itself
  size_t bytes;

  ANNEAL_INLINE AttentionBackwardScratch(void* at, int head_dim) {
    Scratch s{(char*)at};
    const size_t width = round_to(head_dim, kLanes), square = size_t(kAttentionRows) * kPage, tall = kPage * width;
    scores = s.take<float>(square);
    dp = s.take<float>(square);
    p = s.take<T>(square);
    ds = s.take<T>(square);
    p_t = s.take<T>(square);
    ds_t = s.take<T>(square);
    v_t = s.take<T>(tall);
    k_t = s.take<T>(tall);
    q_panels = s.take<T>(kAttentionBackwardRows * width);
    dout_panels = s.take<T>(kAttentionBackwardRows * width);
    ds_scaled = Pages::kCoded ? s.take<T>(square) : ds;
    if (Pages::kCoded) keys = s.take<T>(tall), values = s.take<T>(tall);
    bytes = s.used;
  }
};

template <class T, class Pages> size_t attention_backward_scratch(int head_dim) {
  return AttentionBackwardScratch<T, Pages>(nullptr, head_dim).bytes;
}

// p and ds of rows row0 .. row0 + rows for the first `seen` keys of a block, whole panels; v_t must hold its panels.
template <class T, class Pages>
void score_gradients(const AttentionBackwardTask& t, int row0, int rows, int block, int seen, const KvBlock<T>& kv,
                     const AttentionBackwardScratch<T, Pages>& s) {
  const int panels = seen / kLanes;
  gemm<T>((const T*)t.q + row0 * t.ldq, t.ldq, rows, kv.keys, t.head_dim, panels, s.scores, kPage, false);
  gemm<T>((const T*)t.dout + row0 * t.lddo, t.lddo, rows, s.v_t, t.head_dim, panels, s.dp, kPage, false);
  if constexpr (Pages::kCoded) scale_keys(s.scores, rows, kv.key_scales), scale_keys(s.dp, rows, kv.value_scales);
  const float cap = t.sight.soft_cap;
  if (cap > 0) cap_scores(s.scores, rows, t.scale, cap);
  const F32x16 scale = all(t.scale), factor = all(cap > 0 ? 1.0f : t.scale),
               inverse_cap = all(cap > 0 ? 1 / cap : 0.0f);
  for (int r = 0; r < rows; r++) {
    const Visible visible(t.sight, t.positions[row0 + r], block);
    const bool whole = visible.whole();
    const F32x16 shift = all(-t.lse[row0 + r]), delta = all(t.delta[row0 + r]);
#pragma GCC unroll 4
    for (int j = 0; j < kKeyPanels; j++) {
      if (j == panels) break;
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
      if constexpr (Pages::kCoded) store(s.ds_scaled + at, ds * load(kv.key_scales + j * kLanes));
    }
  }
}

// Keys of the block up to the last one that one of these rows sees, in whole panels; 0: they see none.
ANNEAL_INLINE int keys_seen(const AttentionBackwardTask& t, int row0, int rows, int block) {
  int seen = 0;
  for (int r = row0; r < row0 + rows; r++) {
    const int keys = keys_up_to(t.positions[r], block);
    if (keys > seen && Visible(t.sight, t.positions[r], block).any()) seen = keys;
  }
  return seen;
}

template <class T, class Pages> void attention_backward(const AttentionBackwardTask& t) {
  const AttentionBackwardScratch<T, Pages> s(t.scratch, t.head_dim);
  const int width = round_to(t.head_dim, kLanes), panels = width / kLanes;
  bool is_packed = false;
  for (int b = 0; b < t.blocks; b++) {
    const int block = t.block + b;
    if (keys_seen(t, 0, t.rows, block) == 0) continue;
    if (!is_packed)
      for (int row0 = 0; row0 < t.rows; row0 += kAttentionRows) {
        const int rows = t.rows - row0 < kAttentionRows ? t.rows - row0 : kAttentionRows;
        pack_transposed<T>((const T*)t.q + row0 * t.ldq, kType<T>, t.ldq, rows, t.head_dim, s.q_panels + row0 * width);
        pack_transposed<T>((const T*)t.dout + row0 * t.lddo, kType<T>, t.lddo, rows, t.head_dim,
                           s.dout_panels + row0 * width);
      }
    is_packed = true;
    const KvBlock<T> kv =
        open_block<T, Pages>(t.k_pages[b], t.v_pages[b], t.head_dim, s.keys, s.values, t.k_pages[b], t.v_pages[b]);
    transpose_panels<T>(kv.values, t.head_dim, kPage, 0, kPage, 0, t.head_dim, s.v_t);
    transpose_panels<T>(kv.keys, kPage, t.head_dim, 0, width, 0, kPage, s.k_t);
    float *dk = t.dk[b], *dv = t.dv[b];
    for (int row0 = 0; row0 < t.rows; row0 += kAttentionRows) {
      const int rows = t.rows - row0 < kAttentionRows ? t.rows - row0 : kAttentionRows;
      // Keys that no row sees would have p = ds = 0 and add nothing.
      const int seen = keys_seen(t, row0, rows, block);
      if (seen == 0) continue;
      score_gradients(t, row0, rows, block, seen, kv, s);
      transpose<T>(s.p, kType<T>, kPage, rows, seen, s.p_t, kAttentionRows);
      transpose<T>(s.ds, kType<T>, kPage, rows, seen, s.ds_t, kAttentionRows);
      multiply_block<T>(s.ds_scaled, kPage, rows, s.k_t, panel_size<T>(kPage), seen, panels, t.dq + row0 * t.lddq,
                        t.lddq, true);
      gemm<T>(s.p_t, kAttentionRows, seen, s.dout_panels + row0 * width, rows, panels, dv, t.lddkv, true);
      gemm<T>(s.ds_t, kAttentionRows, seen, s.q_panels + row0 * width, rows, panels, dk, t.lddkv, true);
    }
  }
}

// out[r] = sum over n of a[r] b[r].
template <class T>
void row_dots(const void* a_, int64_t lda, const void* b_, int64_t ldb, int rows, int n, float* out) {
  const T *a = (const T*)a_, *b = (const T*)b_;
  for (int r = 0; r < rows; r++) {
    F32x16 sum = zero();
    each16(n,
           [&](int64_t i, auto lanes) { sum = fma(load(a + r * lda + i, lanes), load(b + r * ldb + i, lanes), sum); });
    out[r] = sum_lanes(sum);
  }
}

}  // namespace
}  // namespace anneal::cpu
