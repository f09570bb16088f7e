// Products of bfloat16 where no instruction multiplies pairs of it: rows, and panels for many of them, are widened to
// float32 a block at a time. See gemm.h for their sums.
#pragma once
#include "product_tile.h"

#ifndef ANNEAL_PAIR_PRODUCT
namespace anneal::cpu {
namespace {

constexpr int kRowsAhead = 8;                          // rows fetched ahead of the one that is widened
constexpr int kLineElements = 64 / int(sizeof(bf16));  // of a cache line
static_assert(kWideK % (2 * kLanes) == 0);             // whole vectors of each half of a row

// Pairs i .. i + 15 of bfloat16 as float32, to a row of `stride`: the odd ones, and in its second half the even ones.
template <int stride, class... Lanes> ANNEAL_INLINE void widen16(const bf16* from, int i, float* to, Lanes... part) {
  const I32x16 both = load_int(from + 2 * i, part...);
  store(to + i, as_float(both & all_int(int(0xffff0000u))));
  store(to + stride / 2 + i, as_float(shift_left<16>(both)));
}

// A row of them; whole vectors are written. As much of what lies at `next` is fetched.
template <int stride> ANNEAL_INLINE void widen_pairs(const bf16* from, int pairs, float* to, const bf16* next) {
  int i = 0;
  for (; i + kLanes <= pairs; i += kLanes) {
    prefetch(next + 2 * i);
    widen16<stride>(from, i, to);
  }
  if (i < pairs) widen16<stride>(from, i, to, Part{pairs - i});
}

// Rows of activations that are widened for a block of k, one after the other: before all products, or beside those of
// the rows before them, which hide how long a cache of the second level takes.
struct Widening {
  const bf16* from;
  int64_t ld;
  int pairs;
  float* to;
  int rows;   // left
  int i = 0;  // pairs of the first of these that are done

  // Whole ones, until no more than `some` are left.
  void until(int some) {
    while (rows > some) {
      widen_pairs<kWideK>(from, pairs, to, from + (kRowsAhead < rows ? kRowsAhead * ld : 0));
      step();
    }
  }
  // So many vectors; pairs are a multiple of kLanes.
  ANNEAL_INLINE void next(int vectors) {
    for (; vectors > 0 && rows > 0; vectors--) {
      widen16<kWideK>(from, i, to);
      i += kLanes;
      if (i == pairs) step();
    }
  }

 private:
  ANNEAL_INLINE void step() { from += ld, to += kWideK, rows--, i = 0; }
};

// What a tile does between its multiplications: it fetches its share of panels to come, `panel` bytes apart, and widens
// `vectors` of rows to come at a time.
struct Beside {
  Ahead ahead;
  int64_t panel;
  Widening* widening;
  int vectors;

  template <int NR, int pairs> ANNEAL_INLINE void next() {
    ahead.fetch<NR, pairs>(panel);
    if constexpr (kWidensBeside)
      if (vectors > 0) widening->next(vectors);
  }
};

// A step of a tile over rows of widened pairs: part_of(j, half) are the odd k of panel j, then the even ones.
template <int MR, int NR, class Part>
ANNEAL_INLINE void multiply_wide_pair(Tile<MR, NR>& tile, const float* a, Part&& part_of) {
#pragma GCC unroll 2
  for (int half = 0; half < 2; half++) {
    F32x16 part[NR];
#pragma GCC unroll 8
    for (int j = 0; j < NR; j++) part[j] = part_of(j, half);
#pragma GCC unroll 16
    for (int i = 0; i < MR; i++) {
      const F32x16 x = all(a[i * kWideK + half * (kWideK / 2)]);
#pragma GCC unroll 8
      for (int j = 0; j < NR; j++) tile.c[i][j] = fma(x, part[j], tile.c[i][j]);
    }
  }
}

// The first tile over a block of panels: widens them beside its multiplications, and leaves them in `wide` for the
// others: panels of kWideK * kLanes with the odd k of a pair before the even one, as a chain takes them up.
template <int MR, int NR>
void multiply_widening_tile(const float* a, const bf16* w, int64_t panel, float* wide, int pairs, float* c, int64_t ldc,
                            bool accumulate, Beside beside) {
  Tile<MR, NR> tile;
  tile.begin(c, ldc, accumulate);
  const I32x16 upper = all_int(int(0xffff0000u));
  for (int p = 0; p < pairs; p++, a++, w += 2 * kLanes) {
    if (p % kPairsAhead == 0) beside.template next<NR, kPairsAhead>();
    multiply_wide_pair(tile, a, [&](int j, int half) {
      const I32x16 pair = load_int(w + j * panel);
      const F32x16 part = as_float(half == 0 ? pair & upper : shift_left<16>(pair));
      store(wide + (j * kWideK + 2 * p + half) * kLanes, part);
      return part;
    });
  }
  tile.end(c, ldc);
}

#ifdef ANNEAL_SUMS_IN_PLACE
constexpr int kPairsInPlace = 4;

// Three rows of kPairsInPlace widened pairs by NR panels. Where two threads share a core, its instructions are what
// both wait for: of this the fewest go with a multiplication.
template <int NR> ANNEAL_INLINE void multiply_in_place(Tile<3, NR>& tile, const float* a, const float* w) {
#pragma GCC unroll 8
  for (int step = 0; step < 2 * kPairsInPlace; step++) {
    const float* const at = a + step % 2 * (kWideK / 2) + step / 2;
    const F32x16 x[3] = {all(at[0]), all(at[kWideK]), all(at[2 * kWideK])};
#pragma GCC unroll 8
    for (int j = 0; j < NR; j++)
      add_three({&tile.c[0][j], &tile.c[1][j], &tile.c[2][j]}, x, w + (j * kWideK + step) * kLanes);
  }
}
#endif

template <int MR, int NR>
__attribute__((noinline)) void multiply_wide_tile(const float* a, const float* w, int pairs, float* c, int64_t ldc,
                                                  bool accumulate, Beside beside) {
  Tile<MR, NR> tile;
  tile.begin(c, ldc, accumulate);
  int p = 0;
#ifdef ANNEAL_SUMS_IN_PLACE
  if constexpr (MR == 3)
    for (; p + kPairsInPlace <= pairs; p += kPairsInPlace, a += kPairsInPlace, w += 2 * kPairsInPlace * kLanes) {
      beside.template next<NR, kPairsInPlace>();
      multiply_in_place(tile, a, w);
    }
#endif
  for (; p < pairs; p++, a++, w += 2 * kLanes) {
    if (p % kPairsAhead == 0) beside.template next<NR, kPairsAhead>();
    multiply_wide_pair(tile, a, [&](int j, int half) { return load(w + (j * kWideK + half) * kLanes); });
  }
  tile.end(c, ldc);
}

template <int MR, int NR>
ANNEAL_INLINE void multiply_wide_rows(int rows, const float* a, const float* w, int pairs, float* c, int64_t ldc,
                                      bool accumulate, const Beside& beside) {
  if (rows == MR) return multiply_wide_tile<MR, NR>(a, w, pairs, c, ldc, accumulate, beside);
  if constexpr (MR > 1) multiply_wide_rows<MR - 1, NR>(rows, a, w, pairs, c, ldc, accumulate, beside);
}

// The activations of a next block: `k` of each row are fetched.
struct UpcomingRows {
  const bf16* at;
  int64_t ld;
  int k;
};

// One block of k over NR panels: widened once for all rows, and what `widening` has left of these meanwhile. As much of
// what lies at `next` is fetched, of each row its part of next_rows, and the sums that the next tile takes up: where
// these happen to share places of a cache, or another core had them, tiles waited a quarter of their time.
template <int NR>
void multiply_wide_panels(const float* a, int rows, Widening& widening, const bf16* w, int64_t panel, int k, float* c,
                          int64_t ldc, bool accumulate, const bf16* next, const UpcomingRows& next_rows) {
  alignas(64) float wide[NR * kWideK * kLanes];
  constexpr int first = kWidenedTileRows[NR], most = kTileRows[NR];
  const int tiles = 1 + (rows - first + most - 1) / most, pairs = k / 2;
  const int64_t bytes = int64_t(k) * kLanes * int64_t(sizeof(bf16)) / tiles;
  widening.until(rows - first);
  for (int t = 0, row = 0, end = first; t < tiles; t++) {
    const int left = tiles - t - 1, after = left > 0 ? end + (rows - end + left - 1) / left : end;
    for (int i = row; i < end; i++)
      for (int kk = 0; kk < next_rows.k; kk += kLineElements) prefetch(next_rows.at + i * next_rows.ld + kk);
    if (accumulate)
      for (int i = end; i < after; i++)
        for (int j = 0; j < NR; j++) prefetch_near(c + i * ldc + j * kLanes);
    const int vectors = (widening.rows - (rows - after)) * (pairs / kLanes);
    const Beside beside{{(const char*)next + t * bytes, 64 / tiles},
                        panel * int64_t(sizeof(bf16)),
                        &widening,
                        (vectors * kPairsAhead + pairs - 1) / pairs};
    if (t == 0)
      multiply_widening_tile<first, NR>(a, w, panel, wide, pairs, c, ldc, accumulate, beside);
    else
      multiply_wide_rows<most, NR>(end - row, a + row * kWideK, wide, pairs, c + row * ldc, ldc, accumulate, beside);
    widening.until(rows - after);
    row = end, end = after;
  }
}

// Many rows without instructions for pairs of bfloat16: blocks of rows and k are widened once for all panels, beside
// the products with the first of these, and blocks of panels once for all rows. A block fetches the next one of its
// panels; the last fetches the first one of panels as far on as there are, which their worker will likely multiply
// next, or of its own again for more rows. Activations of the next block are fetched by all panels, each its share: a
// few lines of every row, which no processor fetches ahead.
inline void multiply_wide(const bf16* a, int64_t lda, int m, const bf16* w, int64_t panel, int k, int npanels, float* c,
                          int64_t ldc, bool accumulate) {
  alignas(64) float wide[kWideRows * kWideK];
  const int blocks = (m + kWideRows - 1) / kWideRows, height = m / blocks, taller = m % blocks;
  for (int b = 0, row = 0; b < blocks; b++) {
    const int rows = height + (b < taller);
    for (int k0 = 0; k0 < k; k0 += kWideK) {
      const int depth = round_to(k - k0 < kWideK ? k - k0 : kWideK, 2);
      Widening widening{a + row * lda + k0, lda, depth / 2, wide, rows};
      if (!kWidensBeside || depth / 2 % kLanes != 0) widening.until(0);
      const bool more_k = k0 + depth < k, more_rows = b + 1 < blocks;
      const bf16* upcoming = more_k ? a + row * lda + k0 + depth : a + (row + rows) * lda;
      const int upcoming_k = more_k ? k - k0 - depth : more_rows ? k : 0;
      const int share = round_to((kWideK * kWidePanels + npanels - 1) / npanels, kLineElements);
      for (int p = 0, fetched = 0; p < npanels; fetched += share) {
        const bf16* from = w + p * panel + int64_t(k0) * kLanes;
        float* to = c + row * ldc + p * kLanes;
        const bool add = accumulate || k0 > 0;
        const int left = npanels - p;
        const bf16* next = more_k ? from + int64_t(depth) * kLanes : w + (more_rows ? p : p + npanels) * panel;
        const int left_k = (upcoming_k < kWideK ? upcoming_k : kWideK) - fetched;
        const UpcomingRows rows_ahead{upcoming + fetched, lda, left_k < share ? left_k : share};
        const auto take = [&]<int NR>() {
          multiply_wide_panels<NR>(wide, rows, widening, from, panel, depth, to, ldc, add, next, rows_ahead);
          p += NR;
        };
        if constexpr (kWidePanels == 3) {
          if (left == 4)
            take.template operator()<4>();
          else if (left >= 3)
            take.template operator()<3>();
          else if (left == 2)
            take.template operator()<2>();
          else
            take.template operator()<1>();
        } else if (kWidePanels == 2 && left >= 2) {
          take.template operator()<2>();
        } else {
          take.template operator()<1>();
        }
      }
    }
    row += rows;
  }
}

#ifdef ANNEAL_SOME_ROWS
// A tile over a panel that it widens for nobody else. Pairs are loaded once for each half of them: six rows leave no
// register for what both are made of.
template <int MR>
void multiply_some_tile(const float* a, const bf16* w, int pairs, float* c, int64_t ldc, bool accumulate, Ahead ahead) {
  Tile<MR, 1> tile;
  tile.begin(c, ldc, accumulate);
  const I32x16 upper = all_int(int(0xffff0000u));
  for (int p = 0; p < pairs; p++, a++, w += 2 * kLanes) {
    if (p % kPairsAhead == 0) ahead.template fetch<1, kPairsAhead>(0);
    const F32x16 odd = as_float(load_int(w) & upper);
#pragma GCC unroll 8
    for (int i = 0; i < MR; i++) add_row(tile.c[i][0], odd, a[i * kSomeK]);
    const bf16* again = w;
    asm volatile("" : "+r"(again));
    const F32x16 even = as_float(shift_left<16>(load_int(again)));
#pragma GCC unroll 8
    for (int i = 0; i < MR; i++) add_row(tile.c[i][0], even, a[i * kSomeK + kSomeK / 2]);
  }
  tile.end(c, ldc);
}

// Two rows by NR panels, which other tiles have fetched.
template <int NR>
void multiply_two_rows(const float* a, const bf16* w, int64_t panel, int pairs, float* c, int64_t ldc,
                       bool accumulate) {
  Tile<2, NR> tile;
  tile.begin(c, ldc, accumulate);
  const I32x16 upper = all_int(int(0xffff0000u));
  for (int p = 0; p < pairs; p++, a++, w += 2 * kLanes) {
#pragma GCC unroll 8
    for (int j = 0; j < NR; j++)
      add_pair_halves<true>(tile.c[0][j], tile.c[1][j], w + j * panel, upper, a[0], a[kSomeK]);
    const float* even = a + kSomeK / 2;
#pragma GCC unroll 8
    for (int j = 0; j < NR; j++)
      add_pair_halves<false>(tile.c[0][j], tile.c[1][j], w + j * panel, upper, even[0], even[kSomeK]);
  }
  tile.end(c, ldc);
}

template <int MR>
ANNEAL_INLINE void multiply_some_rows(int rows, const float* a, const bf16* w, int pairs, float* c, int64_t ldc,
                                      bool accumulate, Ahead ahead) {
  if (rows == MR) return multiply_some_tile<MR>(a, w, pairs, c, ldc, accumulate, ahead);
  if constexpr (MR > 1) multiply_some_rows<MR - 1>(rows, a, w, pairs, c, ldc, accumulate, ahead);
}

// An even number of rows, two by two over npanels neighbouring panels, kPanelsOfTwo of them at most.
inline void multiply_rows_by_two(const float* a, int rows, const bf16* w, int64_t panel, int pairs, int npanels,
                                 float* c, int64_t ldc, bool accumulate) {
  for (int row = 0; row < rows; row += 2, a += 2 * kSomeK, c += 2 * ldc) {
    if (npanels == kPanelsOfTwo)
      multiply_two_rows<kPanelsOfTwo>(a, w, panel, pairs, c, ldc, accumulate);
    else if (npanels == 2)
      multiply_two_rows<2>(a, w, panel, pairs, c, ldc, accumulate);
    else
      multiply_two_rows<1>(a, w, panel, pairs, c, ldc, accumulate);
  }
}

// Some rows without instructions for pairs of bfloat16: widened once for all panels, which each of their tiles widens
// anew. Tiles over one panel fetch the next, each its share.
inline void multiply_some(const bf16* a, int64_t lda, int m, const bf16* w, int64_t panel, int k, int npanels, float* c,
                          int64_t ldc, bool accumulate) {
  alignas(64) float wide[(kManyRows - 1) * kSomeK];
  const int by_two = rows_by_two(m, kSomeTileRows, kSomeByTwo), tall = m - by_two,
            tiles = (tall + kSomeTileRows - 1) / kSomeTileRows;
  for (int k0 = 0; k0 < k; k0 += kSomeK) {
    const int depth = round_to(k - k0 < kSomeK ? k - k0 : kSomeK, 2);
    const bool add = accumulate || k0 > 0;
    for (int i = 0; i < m; i++) {
      const bf16* from = a + i * lda + k0;
      widen_pairs<kSomeK>(from, depth / 2, wide + i * kSomeK, from + (i + kRowsAhead < m ? kRowsAhead * lda : 0));
    }
    for (int p = 0; p < npanels; p++) {
      const bf16* from = w + p * panel + int64_t(k0) * kLanes;
      const bf16* next = p + 1 < npanels  ? from + panel
                         : k0 + depth < k ? w + int64_t(k0 + depth) * kLanes
                                          : w + npanels * panel;
      float* to = c + p * kLanes;
      for (int t = 0, row = 0; t < tiles; t++) {
        const int left = tiles - t, mine = (tall - row + left - 1) / left;
        const Ahead ahead{(const char*)(next + int64_t(depth) * kLanes / tiles * t), 64 / tiles};
        multiply_some_rows<kSomeTileRows>(mine, wide + row * kSomeK, from, depth / 2, to + row * ldc, ldc, add, ahead);
        row += mine;
      }
      const int taken = p % kPanelsOfTwo + 1;
      if (taken == kPanelsOfTwo || p + 1 == npanels)
        multiply_rows_by_two(wide + tall * kSomeK, by_two, from - (taken - 1) * panel, panel, depth / 2, taken,
                             to + tall * ldc - (taken - 1) * kLanes, ldc, add);
    }
  }
}
#endif

}  // namespace
}  // namespace anneal::cpu
#endif
