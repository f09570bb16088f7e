// Causal attention of up to 64 query rows, of one key-value head or several, over pages of 64 keys: online softmax over
// the pages in ascending order, segments of 1,024 positions merged in ascending order.
//
// A sink is one more score of each row, taken up at the end.
//
// A row's result depends on its own query, position and pages only: keys it does not see, later ones and those before
// its window, have p = 0 in the same lanes, and rows are never reduced with each other. Scores, maxima, sums and
// outputs are float32; probabilities are rounded to T for the product with V, their sum takes them unrounded. The full
// score matrix never exists. Pages of codes are taken apart block by block; see kv_page.h.
#pragma once
#include "gemm.h"
#include "kv_page.h"
#include "logits.h"

namespace anneal::cpu {
namespace {

constexpr int kKeyPanels = kPage / kLanes;
constexpr int kSegmentBlocks = kSegment / kPage;

// Hands out pieces of a scratch area, 64-byte aligned; from null it only counts.
struct Scratch {
  char* at;
  size_t used = 0;

  template <class T> ANNEAL_INLINE T* take(size_t n) {
    T* p = (T*)(at + used);
    used += (n * sizeof(T) + 63) / 64 * 64;
    return p;
  }
};

// Running softmax of every row over the blocks of a segment.
struct SegmentState {
  float* maximum;  // [rows]
  float* sums;     // [rows][16], reduced at the end
  float* out;      // [rows][width], not yet divided by the sum

  ANNEAL_INLINE SegmentState from(int row, int width) const {
    return {maximum + row, sums + row * kLanes, out + int64_t(row) * width};
  }

  static ANNEAL_INLINE SegmentState in(Scratch& s, int width) {
    return {s.take<float>(kAttentionRows), s.take<float>(kAttentionRows * kLanes),
            s.take<float>(size_t(kAttentionRows) * width)};
  }
};

template <class T, class Pages> struct AttentionScratch {
  float* scores;     // [rows][64]
  T* probabilities;  // [rows][64]
  SegmentState total, segment;
  T *keys = nullptr, *values = nullptr;  // panels of a block of codes
  size_t bytes;

  ANNEAL_INLINE AttentionScratch(void* at, int head_dim) {
    Scratch s{(char*)at};
    const int width = round_to(head_dim, kLanes);
    scores = s.take<float>(kAttentionRows * kPage);
    probabilities = s.take<T>(kAttentionRows * kPage);
    total = SegmentState::in(s, width);
    segment = SegmentState::in(s, width);
    if (Pages::kCoded) keys = s.take<T>(page_elements(head_dim)), values = s.take<T>(page_elements(head_dim));
    bytes = s.used;
  }
};

template <class T, class Pages> size_t attention_scratch(int head_dim) {
  return AttentionScratch<T, Pages>(nullptr, head_dim).bytes;
}

// A block as products take it; what lies at `next_keys` and `next_values` is fetched meanwhile, where that is of use.
template <class T, class Pages>
ANNEAL_INLINE KvBlock<T> open_block(const void* k_page, const void* v_page, int head_dim, T* keys, T* values,
                                    const void* next_keys, const void* next_values) {
  if constexpr (Pages::kCoded) {
    Pages::unpack(k_page, kKeyPanels * panel_size<T>(head_dim), keys, next_keys);
    Pages::unpack(v_page, round_to(head_dim, kLanes) / kLanes * panel_size<T>(kPage), values, next_values);
    return {keys, values, Pages::scales(k_page, head_dim), Pages::scales(v_page, head_dim)};
  } else {
    return {(const T*)k_page, (const T*)v_page, nullptr, nullptr};
  }
}

// Scores [rows][64] times a number of each key.
ANNEAL_INLINE void scale_keys(float* scores, int rows, const float* scales) {
  for (int r = 0; r < rows; r++, scores += kPage)
    for (int i = 0; i < kPage; i += kLanes) store(scores + i, load(scores + i) * load(scales + i));
}

// Which keys of a block a row sees: all; up to its own; from its window's first up to its own.
enum class Sees { all, causal, window };

// Keys [from, to) of a block that a row at `position` sees; none where they cross.
struct Visible {
  int from, to;
  ANNEAL_INLINE Visible(const AttentionSight& sight, int position, int block)
      : from(sight.window ? position - sight.window + 1 - block * kPage : 0), to(position - block * kPage + 1) {}
  ANNEAL_INLINE bool any() const { return to > 0 && from < kPage; }
  ANNEAL_INLINE bool whole() const { return from <= 0 && to >= kPage; }
};

template <Sees sees> ANNEAL_INLINE F32x16 masked(const Visible& v, int panel, F32x16 x, float otherwise) {
  if (sees == Sees::all) return x;
  x = select(first(v.to - panel * kLanes), x, all(otherwise));
  if (sees == Sees::window) x = select(first(v.from - panel * kLanes), all(otherwise), x);
  return x;
}

// Scores [rows][64] times the scale, capped.
ANNEAL_INLINE void cap_scores(float* scores, int rows, float scale, float cap) {
  const F32x16 inward = all(scale / cap), outward = all(cap);
  for (int i = 0; i < rows * kPage; i += kLanes) store(scores + i, tanh(load(scores + i) * inward) * outward);
}

// Up to 16 rows of one block: scores into probabilities (T, times the scales of the values), and the rows' maxima, sums
// and outputs brought up to date. A score times `factor` is formed in the same fused step as its distance from the
// maximum.
template <class T, class Pages, Sees sees>
ANNEAL_INLINE void softmax_rows(const AttentionTask& t, float factor, int block, const float* value_scales, int row0,
                                int rows, const AttentionScratch<T, Pages>& scratch, const SegmentState& state,
                                int width, bool fresh) {
  alignas(64) float high[kLanes], now[kLanes], shrink[kLanes];
  for (int i = 0; i < rows; i++) {
    const float* scores = scratch.scores + (row0 + i) * kPage;
    const Visible visible(t.sight, t.positions[row0 + i], block);
    F32x16 s[kKeyPanels];
#pragma GCC unroll 4
    for (int j = 0; j < kKeyPanels; j++) s[j] = masked<sees>(visible, j, load(scores + j * kLanes), kLowest);
    const float largest = max_lanes(max(max(s[0], s[1]), max(s[2], s[3])));
    high[i] = sees == Sees::all || visible.any() ? largest * factor : kLowest;
  }
  const Part lanes{rows};
  const F32x16 before = load(state.maximum + row0, lanes), after = max(before, load(high, lanes));
  store(state.maximum + row0, after, lanes);
  store(now, after);
  store(shrink, exp(before - after));
  const F32x16 scale = all(factor);
  for (int i = 0; i < rows; i++) {
    const int r = row0 + i;
    const Visible visible(t.sight, t.positions[r], block);
    const F32x16 shift = all(-now[i]), shrunk = all(shrink[i]);
    F32x16 p[kKeyPanels];
#pragma GCC unroll 4
    for (int j = 0; j < kKeyPanels; j++) {
      p[j] = masked<sees>(visible, j, exp(fma(load(scratch.scores + r * kPage + j * kLanes), scale, shift)), 0.0f);
      F32x16 weight = p[j];
      if constexpr (Pages::kCoded) weight = masked<sees>(visible, j, p[j] * load(value_scales + j * kLanes), 0.0f);
      store(scratch.probabilities + r * kPage + j * kLanes, weight);
    }
    float *sums = state.sums + r * kLanes, *out = state.out + int64_t(r) * width;
    store(sums, fma(load(sums), shrunk, (p[0] + p[1]) + (p[2] + p[3])));
    if (!fresh && shrink[i] != 1)
      for (int d = 0; d < width; d += kLanes) store(out + d, load(out + d) * shrunk);
  }
}

template <class T, class Pages>
ANNEAL_INLINE void softmax_block(const AttentionTask& t, int block, const float* value_scales,
                                 const AttentionScratch<T, Pages>& scratch, const SegmentState& state, int width,
                                 bool fresh) {
  float factor = t.scale;
  if (t.sight.soft_cap > 0) {
    cap_scores(scratch.scores, t.rows, t.scale, t.sight.soft_cap);
    factor = 1;
  }
  for (int row0 = 0; row0 < t.rows; row0 += kLanes) {
    const int rows = t.rows - row0 < kLanes ? t.rows - row0 : kLanes;
    bool whole = true;
    for (int i = 0; i < rows; i++) whole &= Visible(t.sight, t.positions[row0 + i], block).whole();
    const auto take = [&]<Sees sees>() {
      softmax_rows<T, Pages, sees>(t, factor, block, value_scales, row0, rows, scratch, state, width, fresh);
    };
    if (whole)
      take.template operator()<Sees::all>();
    else if (t.sight.window == 0)
      take.template operator()<Sees::causal>();
    else
      take.template operator()<Sees::window>();
  }
}

constexpr int kKeyStep = kByTiles<bf16> ? kFastDepth : kLanes;  // keys that products take up together

// Keys of a block up to a position, in whole steps.
ANNEAL_INLINE int keys_up_to(int position, int block) {
  const int keys = position + 1 - block * kPage;
  return keys < kPage ? round_to(keys, kKeyStep) : kPage;
}

// Into the second-level cache: what products that are cut short have no time for.
ANNEAL_INLINE void fetch(const void* at, int64_t bytes) {
  for (int64_t i = 0; i < bytes; i += 64) prefetch((const char*)at + i);
}

// As multiply_block, over panels of a page. A page that comes from memory is read fastest in the order in which it
// lies: panels side by side are as many short streams, which processors fetch a quarter slower. More rows than a few
// have more to compute than to read, and so has a chain that takes several instructions a step.
template <class T, class Pages>
ANNEAL_INLINE void multiply_page(const T* a, int64_t lda, int m, const T* w, int64_t panel, int k, int npanels,
                                 float* c, int64_t ldc, bool accumulate, Upcoming next) {
  constexpr int kPageRows = 6;
  if (kByTiles<T> || Pages::kCoded || kWidensPairs<T> || m > kPageRows)
    return multiply_block<T>(a, lda, m, w, panel, k, npanels, c, ldc, accumulate, next);
  for (int i = 0; i < npanels; i++, w += panel, c += kLanes) {
    multiply_panels<T, 1>(a, lda, m, w, panel, k, c, ldc, accumulate, next);
    if (next.at) next.at += panel * int64_t(sizeof(T));
  }
}

// Blocks [begin, end) of one segment; fresh: its first ones.
template <class T, class Pages>
void attend_segment(const AttentionTask& t, int begin, int end, bool fresh, const AttentionScratch<T, Pages>& scratch,
                    const SegmentState& states) {
  const int width = round_to(t.head_dim, kLanes);
  int latest = 0;  // position
  for (int r = 0; r < t.rows; r++) latest = latest < t.positions[r] ? t.positions[r] : latest;
  for (int r = 0; fresh && r < t.heads * t.rows; r++) {
    states.maximum[r] = kLowest;
    store(states.sums + r * kLanes, zero());
  }
  const int64_t key_panel = panel_size<T>(t.head_dim), value_panel = panel_size<T>(kPage),
                page = page_elements(t.head_dim) * int64_t(sizeof(T));
  for (int b = begin; b < end; b++) {
    const bool first = fresh && b == begin, last = b + 1 == t.blocks;
    // Keys that no row sees are neither fetched nor read: their scores would be masked, their values multiplied with 0.
    const int seen = keys_up_to(latest, b);
    for (int h = 0; h < t.heads; h++) {
      const char *keys = (const char*)t.k_pages[b] + h * t.head_page,
                 *values = (const char*)t.v_pages[b] + h * t.head_page;
      // Each product, or what takes codes apart, fetches what will be read a head or a block later: pages come from
      // memory and lie apart, so that nothing else could tell.
      const bool same_block = h + 1 < t.heads;
      const void *next_keys = same_block ? keys + t.head_page
                              : last     ? t.next_k
                                         : t.k_pages[b + 1],
                 *next_values = same_block ? values + t.head_page
                                : last     ? t.next_v
                                           : t.v_pages[b + 1];
      if (!next_keys) next_keys = values;
      const KvBlock<T> kv = open_block<T, Pages>(keys, values, t.head_dim, scratch.keys, scratch.values, next_keys,
                                                 next_values ? next_values : values);
      const int next_seen = same_block ? seen : last ? kPage : keys_up_to(latest, b + 1);
      Upcoming after_keys, after_values;
      if constexpr (!Pages::kCoded) {
        after_keys.at = (const char*)next_keys, after_values.at = (const char*)next_values;
        if (next_seen < seen) {  // whole panels of keys, a part of every panel of values
          fetch(next_keys, next_seen / kLanes * key_panel * int64_t(sizeof(T)));
          after_keys.step = 0, after_values.step = next_seen;
        }
        if (next_seen > seen) fetch(next_keys, page);
      }
      const SegmentState state = states.from(h * t.rows, width);
      multiply_page<T, Pages>((const T*)t.q + h * t.head_queries, t.ldq, t.rows, kv.keys, key_panel, t.head_dim,
                              seen / kLanes, scratch.scores, kPage, false, after_keys);
      if constexpr (Pages::kCoded) scale_keys(scratch.scores, t.rows, kv.key_scales);
      softmax_block(t, b, kv.value_scales, scratch, state, width, first);
      if (!Pages::kCoded && next_seen > seen && next_values) fetch(next_values, page);
      multiply_page<T, Pages>(scratch.probabilities, kPage, t.rows, kv.values, value_panel, seen, width / kLanes,
                              state.out, width, !first, after_values);
    }
  }
}

// total <- total and segment of one row, a later segment onto the earlier ones.
ANNEAL_INLINE void merge_segment(const SegmentState& total, const SegmentState& segment, int r, int width) {
  const float before = total.maximum[r], other = segment.maximum[r];
  if (other == kLowest) return;  // the row sees nothing of it
  const float now = other > before ? other : before;
  const F32x16 a = exp(all(before - now)), b = exp(all(other - now));
  float *sums = total.sums + r * kLanes, *out = total.out + r * width;
  store(sums, fma(load(segment.sums + r * kLanes), b, load(sums) * a));
  for (int i = 0; i < width; i += kLanes) store(out + i, fma(load(segment.out + r * width + i), b, load(out + i) * a));
  total.maximum[r] = now;
}

// One row's state, as tasks hand it on: total, then the segment that is not whole yet.
ANNEAL_INLINE void load_state(const float* from, const SegmentState& state, int r, int width) {
  state.maximum[r] = from[0];
  store(state.sums + r * kLanes, load(from + kLanes));
  for (int i = 0; i < width; i += kLanes) store(state.out + r * width + i, load(from + 2 * kLanes + i));
}
ANNEAL_INLINE void save_state(float* to, const SegmentState& state, int r, int width) {
  to[0] = state.maximum[r];
  store(to + kLanes, load(state.sums + r * kLanes));
  for (int i = 0; i < width; i += kLanes) store(to + 2 * kLanes + i, load(state.out + r * width + i));
}

template <class T, class Pages> void attention(const AttentionTask& t) {
  const AttentionScratch<T, Pages> scratch(t.scratch, t.head_dim);
  const SegmentState &total = scratch.total, &segment = scratch.segment;
  const int width = round_to(t.head_dim, kLanes), rows = t.heads * t.rows;
  const int64_t state = attention_state_floats(t.head_dim);
  for (int i = 0; i < t.resumed; i++)
    for (int r = 0; r < rows; r++) {
      const float* from = t.resume[i] + r * state;
      if (i == 0) load_state(from, total, r, width);
      load_state(i == 0 ? from + state / 2 : from, segment, r, width);
      if (i > 0) merge_segment(total, segment, r, width);
    }
  int begin = t.begin > t.sight.first ? t.begin : t.sight.first;
  // Segments that a row does not see leave its total as it is, so that it may begin with any of them.
  const int origin = t.resumed ? t.sight.first : begin;
  bool whole = true;  // every segment that was begun is part of the total
  for (int end; begin < t.blocks; begin = end) {
    const int floor = begin / kSegmentBlocks * kSegmentBlocks, boundary = floor + kSegmentBlocks;
    const int start = floor > origin ? floor : origin;
    end = boundary < t.blocks ? boundary : t.blocks;
    attend_segment(t, begin, end, begin == start, scratch, start == origin ? total : segment);
    whole = start == origin || end == boundary || !t.save;
    if (start > origin && whole)
      for (int r = 0; r < rows; r++) merge_segment(total, segment, r, width);
  }
  if (t.save) {
    for (int r = 0; r < rows; r++) {
      save_state(t.save + r * state, total, r, width);
      if (!whole) save_state(t.save + r * state + state / 2, segment, r, width);
    }
    return;
  }
  for (int r = 0; r < rows; r++) {
    float sum = sum_lanes(load(scratch.total.sums + r * kLanes)), maximum = scratch.total.maximum[r], share = 1;
    if (t.sinks) {
      const float before = maximum, sink = t.sinks[r / t.rows * t.group + r % t.rows % t.group];
      maximum = sink > before ? sink : before;
      share = exp(before - maximum);
      sum = sum * share + exp(sink - maximum);
    }
    const F32x16 inverse = all(share / sum);
    const float* from = scratch.total.out + r * width;
    float* to = t.out + r * t.ldo;
    // Adding 0 turns -0 into 0: blocks that a row does not see may change the sign of a zero.
    each16(t.head_dim, [&](int64_t i, auto lanes) { store(to + i, fma(load(from + i), inverse, zero()), lanes); });
    if (t.lse) t.lse[r / t.rows * t.head_lse + r % t.rows] = maximum + log(sum);
  }
}

}  // namespace
}  // namespace anneal::cpu
