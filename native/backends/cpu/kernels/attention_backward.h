// Gradients of attention, with the probabilities recomputed from the log-sum-exp of each row.
//
// p = exp(scale q.k - lse), dp = dout.v, ds = p (dp - sum(dout out)) scale; dq += ds K, dk += ds^T q, dv += p^T dout.
// p (for dv) and ds are rounded to T for the products. Of pages of codes K and V are what the codes stand for; ds is
// multiplied with a key's scale before it is rounded for dq. A task is some rows of a sequence against some of its key
// blocks: scores are made once and serve all three gradients. Each row of dq takes up the keys in ascending order, each
// key of dk and dv the rows in the order given: whoever runs tasks in that order gets the bits of one task.
//
// Sums are taken up and put down as rarely as scratch that fits the second-level cache allows: a row of dq for
// kBackwardBlocks of keys, a key of dk and dv for kBackwardRows of rows.
#pragma once
#include "attention.h"
#include "convert.h"

namespace anneal::cpu {
namespace {

constexpr int kBackwardBlocks = 4, kBackwardKeys = kBackwardBlocks * kPage, kBackwardRows = 2 * kAttentionRows;

template <class T, class Pages> struct AttentionBackwardScratch {
  float *scores, *dp;                    // [64 rows][64 keys]
  T* ds;                                 // times the scales of the keys [kBackwardRows][kBackwardKeys]
  T *p_panels, *ds_panels;               // of a block: outputs = 64 keys, reduction = kBackwardRows
  T *p_t, *ds_t;                         // [64 keys][kBackwardRows]
  T* v_t;                                // panels of V^T of each block: outputs = 64 keys, reduction = head_dim
  T* k_t;                                // panels of K^T: outputs = head_dim, reduction = kBackwardKeys
  T *q_panels, *dout_panels;             // outputs = head_dim, reduction = rows
  T *keys = nullptr, *values = nullptr;  // panels of each block of codes
  size_t bytes;

  ANNEAL_INLINE AttentionBackwardScratch(void* at, int head_dim) {
    Scratch s{(char*)at};
    const size_t width = round_to(head_dim, kLanes), square = size_t(kAttentionRows) * kPage,
                 tall = kBackwardRows * size_t(kPage), pages = kBackwardKeys * width, chunk = kBackwardRows * width;
    scores = s.take<float>(square);
    dp = s.take<float>(square);
    ds = s.take<T>(size_t(kBackwardRows) * kBackwardKeys);
    p_panels = s.take<T>(tall);
    ds_panels = s.take<T>(tall);
    p_t = s.take<T>(tall);
    ds_t = s.take<T>(tall);
    v_t = s.take<T>(pages);
    k_t = s.take<T>(pages);
    q_panels = s.take<T>(chunk);
    dout_panels = s.take<T>(chunk);
    if (Pages::kCoded) keys = s.take<T>(pages), values = s.take<T>(pages);
    bytes = s.used;
  }
};

template <class T, class Pages> size_t attention_backward_scratch(int head_dim) {
  return AttentionBackwardScratch<T, Pages>(nullptr, head_dim).bytes;
}

// Two steps of a reduction for 16 outputs, of which bfloat16 makes one vector.
ANNEAL_INLINE void store_steps(float* to, F32x16 even, F32x16 odd) { store(to, even), store(to + kLanes, odd); }
ANNEAL_INLINE void store_steps(bf16* to, F32x16 even, F32x16 odd) { store_int(to, round_pairs(even, odd)); }

// Scores of up to 64 rows of a chunk with a block of keys, and what becomes of them.
template <class T, class Pages> struct ScoreGradients {
  const AttentionBackwardTask& t;
  const AttentionBackwardScratch<T, Pages>& s;
  const KvBlock<T>& kv;
  const int block;
  const float cap = t.sight.soft_cap;
  const F32x16 scale = all(t.scale), factor = all(cap > 0 ? 1.0f : t.scale),
               inverse_cap = all(cap > 0 ? 1 / cap : 0.0f);

  struct Row {
    Visible visible;
    bool whole;
    F32x16 shift, delta;
    ANNEAL_INLINE Row(const AttentionBackwardTask& t, int row, int block)
        : visible(t.sight, t.positions[row], block),
          whole(visible.whole()),
          shift(all(-t.lse[row])),
          delta(all(t.delta[row])) {}
  };
  struct Gradients {
    F32x16 p, ds;
  };

  // Of 16 keys; `at` is where their scores are.
  ANNEAL_INLINE Gradients of(const Row& row, int at, int panel) const {
    const F32x16 score = load(s.scores + at);
    F32x16 p = exp(fma(score, factor, row.shift));
    F32x16 ds = p * (load(s.dp + at) - row.delta) * scale;
    if (cap > 0) {
      const F32x16 t = score * inverse_cap;  // d tanh = 1 - tanh^2
      ds = ds * (all(1.0f) - t * t);
    }
    if (!row.whole) {
      p = masked<Sees::window>(row.visible, panel, p, 0.0f);
      ds = masked<Sees::window>(row.visible, panel, ds, 0.0f);
    }
    return {p, ds};
  }

  // Rows row0 + first .. row0 + first + rows of the task, `first` rows into their chunk; ds [rows][kBackwardKeys]; v_t
  // of the block. They see `seen` keys, the chunk `chunk_seen`, whole panels: what is between has p = ds = 0. What lies
  // at next_k and next_v is fetched, as much as a block of keys takes.
  void operator()(int row0, int first, int rows, int seen, int chunk_seen, T* ds, const T* v_t, const void* next_k,
                  const void* next_v) const {
    const int from = row0 + first, panels = seen / kLanes;
    const int64_t panel = panel_size<T>(t.head_dim);
    multiply_block<T>((const T*)t.q + from * t.ldq, t.ldq, rows, kv.keys, panel, t.head_dim, panels, s.scores, kPage,
                      false, {(const char*)next_k});
    multiply_block<T>((const T*)t.dout + from * t.lddo, t.lddo, rows, v_t, panel, t.head_dim, panels, s.dp, kPage,
                      false, {(const char*)next_v});
    if constexpr (Pages::kCoded) scale_keys(s.scores, rows, kv.key_scales), scale_keys(s.dp, rows, kv.value_scales);
    if (cap > 0) cap_scores(s.scores, rows, t.scale, cap);
    for (int r = 0; r < rows; r += 2) {
      const bool pair = r + 1 < rows;
      const Row even(t, from + r, block), odd(t, from + (pair ? r + 1 : r), block);
      T *p_to = s.p_panels + (first + r) * kLanes, *ds_to = s.ds_panels + (first + r) * kLanes;
      constexpr int panel_stride = kBackwardRows * kLanes;
#pragma GCC unroll 4
      for (int j = 0; j < kKeyPanels; j++, p_to += panel_stride, ds_to += panel_stride) {
        if (j == panels) break;
        const int at = r * kPage + j * kLanes;
        const Gradients a = of(even, at, j), b = pair ? of(odd, at + kPage, j) : Gradients{zero(), zero()};
        store_steps(p_to, a.p, b.p);
        store_steps(ds_to, a.ds, b.ds);
        const F32x16 by = Pages::kCoded ? load(kv.key_scales + j * kLanes) : all(1.0f);
        store(ds + r * kBackwardKeys + j * kLanes, Pages::kCoded ? a.ds * by : a.ds);
        if (pair) store(ds + (r + 1) * kBackwardKeys + j * kLanes, Pages::kCoded ? b.ds * by : b.ds);
      }
      for (int j = panels; j < chunk_seen / kLanes; j++, p_to += panel_stride, ds_to += panel_stride)
        store_steps(p_to, zero(), zero()), store_steps(ds_to, zero(), zero());
    }
  }
};

// Keys of the block up to the last one that one of these rows sees, in whole panels; 0: they see none.
ANNEAL_INLINE int keys_seen(const AttentionBackwardTask& t, int row0, int rows, int block) {
  int seen = 0;
  for (int r = row0; r < row0 + rows; r++) {
    const int keys = keys_up_to(t.positions[r], block);
    if (keys > seen && Visible(t.sight, t.positions[r], block).any()) seen = keys;
  }
  return seen;
}

// dq of up to 64 rows += ds K, over keys from .. to of the blocks at hand.
template <class T, class Pages>
ANNEAL_INLINE void add_query_gradients(const AttentionBackwardTask& t, const AttentionBackwardScratch<T, Pages>& s,
                                       const T* ds, int row0, int rows, int from, int to) {
  if (from == to) return;
  multiply_block<T>(ds + from, kBackwardKeys, rows, s.k_t + from * kLanes, panel_size<T>(kBackwardKeys), to - from,
                    round_to(t.head_dim, kLanes) / kLanes, t.dq + row0 * t.lddq, t.lddq, true);
}

// Up to kBackwardRows rows against blocks b0 .. b0 + blocks of the task.
template <class T, class Pages>
void chunk_gradients(const AttentionBackwardTask& t, const AttentionBackwardScratch<T, Pages>& s, const KvBlock<T>* kv,
                     int b0, int blocks, int row0, int rows) {
  const int width = round_to(t.head_dim, kLanes), panels = width / kLanes;
  constexpr int kParts = kBackwardRows / kAttentionRows;
  int begin[kParts] = {}, end[kParts] = {};  // of each part of the rows: keys that dq has not taken up yet
  bool is_packed = false;
  const auto rows_of = [&](int part) {
    const int left = rows - part * kAttentionRows;
    return left < kAttentionRows ? left : kAttentionRows;
  };
  const auto take_up = [&](int part) {
    const int first = part * kAttentionRows;
    add_query_gradients(t, s, s.ds + first * kBackwardKeys, row0 + first, rows_of(part), begin[part], end[part]);
  };
  for (int b = 0; b < blocks; b++) {
    const int block = t.block + b0 + b, seen = keys_seen(t, row0, rows, block);
    // Keys that no row sees would have p = ds = 0 and add nothing.
    if (seen == 0) continue;
    if (!is_packed) {
      pack_transposed<T>((const T*)t.q + row0 * t.ldq, kType<T>, t.ldq, rows, t.head_dim, s.q_panels);
      pack_transposed<T>((const T*)t.dout + row0 * t.lddo, kType<T>, t.lddo, rows, t.head_dim, s.dout_panels);
    }
    is_packed = true;
    const ScoreGradients<T, Pages> gradients{t, s, kv[b], block};
    for (int part = 0; part * kAttentionRows < rows; part++) {
      const int first = part * kAttentionRows, mine = keys_seen(t, row0 + first, rows_of(part), block), at = b * kPage;
      // Halves of what this block's sums are added to.
      const int64_t half = part * (kPage / kParts) * t.lddkv;
      gradients(row0, first, rows_of(part), mine, seen, s.ds + first * kBackwardKeys + at, s.v_t + at * width,
                t.dk[b0 + b] + half, t.dv[b0 + b] + half);
      if (end[part] != at) take_up(part), begin[part] = at;
      end[part] = at + mine;
    }
    unpack_rows<T>(s.p_panels, kBackwardRows * kLanes, seen, rows, s.p_t, kBackwardRows);
    unpack_rows<T>(s.ds_panels, kBackwardRows * kLanes, seen, rows, s.ds_t, kBackwardRows);
    // What is read next is fetched meanwhile: these rows of dq, then the next rows.
    const int next = row0 + rows < t.rows ? row0 + rows : row0;
    const void *after_dv = (const T*)t.q + next * t.ldq, *after_dk = (const T*)t.dout + next * t.lddo;
    if (b == 0) after_dv = t.dq + row0 * t.lddq, after_dk = t.dq + (row0 + rows / 2) * t.lddq;
    const int64_t panel = panel_size<T>(rows);
    multiply_block<T>(s.p_t, kBackwardRows, seen, s.dout_panels, panel, rows, panels, t.dv[b0 + b], t.lddkv, true,
                      {(const char*)after_dv});
    multiply_block<T>(s.ds_t, kBackwardRows, seen, s.q_panels, panel, rows, panels, t.dk[b0 + b], t.lddkv, true,
                      {(const char*)after_dk});
  }
  for (int part = 0; part * kAttentionRows < rows; part++) take_up(part);
}

template <class T, class Pages> void attention_backward(const AttentionBackwardTask& t) {
  const AttentionBackwardScratch<T, Pages> s(t.scratch, t.head_dim);
  const int width = round_to(t.head_dim, kLanes);
  for (int b0 = 0; b0 < t.blocks; b0 += kBackwardBlocks) {
    const int blocks = t.blocks - b0 < kBackwardBlocks ? t.blocks - b0 : kBackwardBlocks;
    KvBlock<T> kv[kBackwardBlocks];
    bool any = false;
    for (int b = 0; b < blocks; b++) {
      if (keys_seen(t, 0, t.rows, t.block + b0 + b) == 0) continue;
      any = true;
      const void *keys = t.k_pages[b0 + b], *values = t.v_pages[b0 + b];
      const int64_t at = int64_t(b) * kPage * width;
      kv[b] = open_block<T, Pages>(keys, values, t.head_dim, s.keys + at, s.values + at, keys, values);
      transpose_panels<T>(kv[b].values, t.head_dim, kPage, 0, kPage, 0, t.head_dim, s.v_t + at);
      transpose_panels_into<T>(kv[b].keys, t.head_dim, 0, width, 0, kPage, s.k_t + b * kPage * kLanes,
                               panel_size<T>(kBackwardKeys));
    }
    for (int row0 = 0; any && row0 < t.rows; row0 += kBackwardRows)
      chunk_gradients(t, s, kv, b0, blocks, row0, t.rows - row0 < kBackwardRows ? t.rows - row0 : kBackwardRows);
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
