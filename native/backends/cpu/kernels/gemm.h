// The product c[m][16 * panels] (+)= a[m][k] . W^T over panels of W: of the exact family here, of the fast one in
// tiles.h.
//
// Each output is one chain of float32 sums over ascending k, whatever the tile, the row count or the instruction set:
// float32, c = fma(a_k, w_k, c); bfloat16, pairs of k, c = fma(even, fma(odd, c)), as one vdpbf16ps does it. Blocking
// over k stores the chain's value in c and takes it up again.
#pragma once
#include "panels.h"
#ifdef ANNEAL_TILES
#include "tiles.h"
#endif

namespace anneal::cpu {
namespace {

constexpr int kWidenedK = 256;  // k of activations widened to float32 at a time
constexpr int kBlockK = 4096;   // k for which three panels stay in the second-level cache
// Panel vectors ahead: of panels side by side; of one row and of few rows that go from panel to panel.
constexpr int kPrefetch = 32, kAheadOfRow = 24, kAheadOfFew = 96;

// Whether a step of a chain takes several instructions: pairs of bfloat16 are widened where nothing multiplies them.
#ifdef ANNEAL_PAIR_PRODUCT
template <class T> constexpr bool kWidensPairs = false;
#else
template <class T> constexpr bool kWidensPairs = kStep<T> == 2;
#endif

// Whether products of T are summed by tiles; see tiles.h.
#ifdef ANNEAL_TILES
template <class T> constexpr bool kByTiles = kStep<T> == 2;
#else
template <class T> constexpr bool kByTiles = false;
#endif

// Panels that are best multiplied at once.
template <class T> constexpr int kProductPanels = kWidensPairs<T> && !kByTiles<T> ? kWidenedProductPanels : 12;

// Where a tile prefetches weights: for each of its panels, `step` bytes further per panel vector. Few rows read a
// little ahead of themselves: they wait for memory anyway, or go from panel to panel, since memory answers one stream
// faster than several. More rows find their panels in the cache, and fetch the panels after these meanwhile, each tile
// its share. Where the caller knows what it will read after the product, that is fetched instead.
struct Ahead {
  const char* at;
  int64_t step;

  // For the next `vectors` of each of NR panels that lie `panel` bytes apart: a tile's share of several is one line
  // where tiles are many, and each fetch takes the place of a multiplication. Memory answers few at once best.
  template <int NR, int vectors> ANNEAL_INLINE void fetch(int64_t panel) {
    const char* line = at;
    at += vectors * step;
    do {
#pragma GCC unroll 8
      for (int j = 0; j < NR; j++) prefetch(line + j * panel);
      line += 64;
    } while (vectors > 1 && line < at);
  }
};

// A register tile: MR rows of c by NR panels. Each row's address comes from the one before: g++ would make all of them
// before the sums begin, move them through vector registers, and have a tile wait for the sums of the one before it.
template <int MR, int NR> struct Tile {
  F32x16 c[MR][NR];

  ANNEAL_INLINE void begin(const float* from, int64_t ldc, bool accumulate) {
#pragma GCC unroll 16
    for (int i = 0; i < MR; i++) {
#pragma GCC unroll 8
      for (int j = 0; j < NR; j++) c[i][j] = accumulate ? load(from + j * kLanes) : zero();
      from = next_row(from, ldc);
    }
  }
  ANNEAL_INLINE void end(float* to, int64_t ldc) const {
#pragma GCC unroll 16
    for (int i = 0; i < MR; i++) {
#pragma GCC unroll 8
      for (int j = 0; j < NR; j++) store(to + j * kLanes, c[i][j]);
      to = next_row(to, ldc);
    }
  }

 private:
  template <class P> static ANNEAL_INLINE P* next_row(P* row, int64_t ldc) {
    row += ldc;
    asm("" : "+r"(row));
    return row;
  }
};

// Rows of activations, from two bases: the offsets of eight rows from one do not fit the registers beside the rest, and
// g++ then moves one through a vector register, which costs the products a cycle in 25.
template <class T, int MR> struct ActivationRows {
  const T *upper, *lower;
  int64_t lda;

  ANNEAL_INLINE ActivationRows(const T* a, int64_t lda_) : upper(a), lower(MR > 4 ? a + 4 * lda_ : a), lda(lda_) {
    asm("" : "+r"(lower));  // not to be derived from the other again
  }
  ANNEAL_INLINE const T* at(int i) const { return i < 4 ? upper + i * lda : lower + (i - 4) * lda; }
};

template <int MR, int NR>
void multiply_tile(const float* a, int64_t lda, const float* w, int64_t panel, int k, float* c, int64_t ldc,
                   bool accumulate, Ahead ahead) {
  Tile<MR, NR> tile;
  tile.begin(c, ldc, accumulate);
  const ActivationRows<float, MR> x_rows(a, lda);
  for (int kk = 0; kk < k; kk++) {
    F32x16 wide[NR];
#pragma GCC unroll 8
    for (int j = 0; j < NR; j++) {
      wide[j] = load(w + j * panel + int64_t(kk) * kLanes);
      prefetch(ahead.at + j * panel * int64_t(sizeof(float)));
    }
    ahead.at += ahead.step;
#pragma GCC unroll 16
    for (int i = 0; i < MR; i++) {
      F32x16 x = all(x_rows.at(i)[kk]);
#pragma GCC unroll 8
      for (int j = 0; j < NR; j++) tile.c[i][j] = fma(x, wide[j], tile.c[i][j]);
    }
  }
  tile.end(c, ldc);
}

template <int MR, int NR>
void multiply_tile(const bf16* a, int64_t lda, const bf16* w, int64_t panel, int k, float* c, int64_t ldc,
                   bool accumulate, Ahead ahead) {
  Tile<MR, NR> tile;
  tile.begin(c, ldc, accumulate);
#ifdef ANNEAL_PAIR_PRODUCT
  const ActivationRows<bf16, MR> x_rows(a, lda);
  for (int kk = 0; kk < k; kk += 2) {
    I32x16 pairs[NR];
#pragma GCC unroll 8
    for (int j = 0; j < NR; j++) {
      pairs[j] = load_int(w + j * panel + int64_t(kk) * kLanes);
      prefetch(ahead.at + j * panel * int64_t(sizeof(bf16)));
    }
    ahead.at += ahead.step;
#pragma GCC unroll 16
    for (int i = 0; i < MR; i++) {
      int pair;
      __builtin_memcpy(&pair, x_rows.at(i) + kk, 4);
      I32x16 x = all_int(pair);
#pragma GCC unroll 8
      for (int j = 0; j < NR; j++) tile.c[i][j] = pair_product(tile.c[i][j], pairs[j], x);
    }
  }
#else
  // Activations widened to float32 once per tile; panels in registers, by shift (even k) and mask (odd k).
  alignas(64) float wide[MR][kWidenedK];
  const I32x16 upper = all_int(int(0xffff0000u));
  for (int k0 = 0; k0 < k; k0 += kWidenedK) {
    const int count = k - k0 < kWidenedK ? round_to(k - k0, 2) : kWidenedK;
    for (int i = 0; i < MR; i++)
      each16(count, [&](int64_t kk, auto lanes) { store(&wide[i][kk], load(a + i * lda + k0 + kk, lanes)); });
    for (int kk = 0; kk < count; kk += 2) {
      I32x16 pairs[NR];
      F32x16 part[NR];
#pragma GCC unroll 8
      for (int j = 0; j < NR; j++) {
        const bf16* at = w + j * panel + int64_t(k0 + kk) * kLanes;
        pairs[j] = load_int(at);
        prefetch(ahead.at + j * panel * int64_t(sizeof(bf16)));
        part[j] = as_float(pairs[j] & upper);
      }
      ahead.at += ahead.step;
#pragma GCC unroll 16
      for (int i = 0; i < MR; i++) {
        F32x16 x = all(wide[i][kk + 1]);
#pragma GCC unroll 8
        for (int j = 0; j < NR; j++) tile.c[i][j] = fma(x, part[j], tile.c[i][j]);
      }
#pragma GCC unroll 8
      for (int j = 0; j < NR; j++) part[j] = as_float(shift_left<16>(pairs[j]));
#pragma GCC unroll 16
      for (int i = 0; i < MR; i++) {
        F32x16 x = all(wide[i][kk]);
#pragma GCC unroll 8
        for (int j = 0; j < NR; j++) tile.c[i][j] = fma(x, part[j], tile.c[i][j]);
      }
    }
  }
#endif
  tile.end(c, ldc);
}

// Rows of a full tile over NR panels, for T.
template <class T> ANNEAL_INLINE constexpr int tile_rows(int panels) {
  if (panels > 4) return kFewRows;
  return kWidensPairs<T> ? kWidenedTileRows[panels] : kTileRows[panels];
}

template <class T, int MR, int NR>
ANNEAL_INLINE void multiply_rows(int rows, const T* a, int64_t lda, const T* w, int64_t panel, int k, float* c,
                                 int64_t ldc, bool accumulate, Ahead ahead) {
  if (rows == MR) return multiply_tile<MR, NR>(a, lda, w, panel, k, c, ldc, accumulate, ahead);
  if constexpr (MR > 1) multiply_rows<T, MR - 1, NR>(rows, a, lda, w, panel, k, c, ldc, accumulate, ahead);
}

// Whether few rows go from panel to panel. Panels side by side hide how long a step of a chain takes, which is more
// where weights lie in a cache, as those of short rows do; and they share one widening of a row.
template <class T> ANNEAL_INLINE constexpr bool streams_panels(int rows, int k) {
  return rows <= kFewRows && k >= kStreamedK && !(kWidensPairs<T> && rows == 1);
}

// What is read after a product: null, or as much memory as its panels take. Rows of one tile fetch `step` bytes of it
// for each of their vectors, so that 64 are all.
struct Upcoming {
  const char* at = nullptr;
  int64_t step = 64;
};

// All m rows over NR panels, in tiles of nearly equal height.
template <class T, int NR>
void multiply_panels(const T* a, int64_t lda, int m, const T* w, int64_t panel, int k, float* c, int64_t ldc,
                     bool accumulate, Upcoming next) {
  constexpr int most = tile_rows<T>(NR);
  const int tiles = (m + most - 1) / most;
  const int height = m / tiles, taller = m % tiles;  // the first `taller` tiles have one row more
  for (int t = 0, row = 0; t < tiles; t++) {
    const int rows = height + (t < taller);
    const int64_t part = int64_t(k) * kLanes * int64_t(sizeof(T)) / tiles * t;
    const int own = !streams_panels<T>(m, k) ? kPrefetch : m == 1 ? kAheadOfRow : kAheadOfFew;
    const Ahead ahead = next.at && tiles == 1 ? Ahead{next.at, next.step}
                        : m > kFewRows ? Ahead{(next.at ? next.at : (const char*)(w + NR * panel)) + part, 64 / tiles}
                                       : Ahead{(const char*)(w + kStep<T> * own * kLanes), 64};
    multiply_rows<T, most, NR>(rows, a + row * lda, lda, w, panel, k, c + row * ldc, ldc, accumulate, ahead);
    row += rows;
  }
}

#ifndef ANNEAL_PAIR_PRODUCT
constexpr int kRowsAhead = 8;                          // rows fetched ahead of the one that is widened
constexpr int kLineElements = 64 / int(sizeof(bf16));  // of a cache line

// Pairs of bfloat16 as float32, a row of `stride`: the odd ones, and in its second half the even ones; whole vectors of
// them are written. As much of what lies at `next` is fetched.
template <int stride> ANNEAL_INLINE void widen_pairs(const bf16* from, int pairs, float* to, const bf16* next) {
  const I32x16 upper = all_int(int(0xffff0000u));
  const auto widen16 = [&](int i, auto... part) {
    const I32x16 both = load_int(from + 2 * i, part...);
    store(to + i, as_float(both & upper));
    store(to + stride / 2 + i, as_float(shift_left<16>(both)));
  };
  int i = 0;
  for (; i + kLanes <= pairs; i += kLanes) {
    prefetch(next + 2 * i);
    widen16(i);
  }
  if (i < pairs) widen16(i, Part{pairs - i});
}

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
                            bool accumulate, Ahead ahead) {
  Tile<MR, NR> tile;
  tile.begin(c, ldc, accumulate);
  const I32x16 upper = all_int(int(0xffff0000u));
  for (int p = 0; p < pairs; p++, a++, w += 2 * kLanes) {
    if (p % kPairsAhead == 0) ahead.template fetch<NR, kPairsAhead>(panel * int64_t(sizeof(bf16)));
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
void multiply_wide_tile(const float* a, const float* w, int pairs, float* c, int64_t ldc, bool accumulate, Ahead ahead,
                        int64_t ahead_panel) {
  Tile<MR, NR> tile;
  tile.begin(c, ldc, accumulate);
  int p = 0;
#ifdef ANNEAL_SUMS_IN_PLACE
  if constexpr (MR == 3)
    for (; p + kPairsInPlace <= pairs; p += kPairsInPlace, a += kPairsInPlace, w += 2 * kPairsInPlace * kLanes) {
      ahead.template fetch<NR, kPairsInPlace>(ahead_panel);
      multiply_in_place(tile, a, w);
    }
#endif
  for (; p < pairs; p++, a++, w += 2 * kLanes) {
    if (p % kPairsAhead == 0) ahead.template fetch<NR, kPairsAhead>(ahead_panel);
    multiply_wide_pair(tile, a, [&](int j, int half) { return load(w + (j * kWideK + half) * kLanes); });
  }
  tile.end(c, ldc);
}

template <int MR, int NR>
ANNEAL_INLINE void multiply_wide_rows(int rows, const float* a, const float* w, int pairs, float* c, int64_t ldc,
                                      bool accumulate, Ahead ahead, int64_t ahead_panel) {
  if (rows == MR) return multiply_wide_tile<MR, NR>(a, w, pairs, c, ldc, accumulate, ahead, ahead_panel);
  if constexpr (MR > 1) multiply_wide_rows<MR - 1, NR>(rows, a, w, pairs, c, ldc, accumulate, ahead, ahead_panel);
}

// The activations of a next block: `k` of each row are fetched.
struct UpcomingRows {
  const bf16* at;
  int64_t ld;
  int k;
};

// One block of k over NR panels: widened once for all rows. As much of what lies at `next` is fetched meanwhile, and of
// each row its part of next_rows.
template <int NR>
void multiply_wide_panels(const float* a, int rows, const bf16* w, int64_t panel, int k, float* c, int64_t ldc,
                          bool accumulate, const bf16* next, const UpcomingRows& next_rows) {
  alignas(64) float wide[NR * kWideK * kLanes];
  constexpr int first = kWidenedTileRows[NR], most = kTileRows[NR];
  const int tiles = 1 + (rows - first + most - 1) / most;
  const int64_t bytes = int64_t(k) * kLanes * int64_t(sizeof(bf16)) / tiles;
  const auto fetch_rows = [&](int row, int count) {
    for (int i = row; i < row + count; i++)
      for (int kk = 0; kk < next_rows.k; kk += kLineElements) prefetch(next_rows.at + i * next_rows.ld + kk);
  };
  Ahead ahead{(const char*)next, 64 / tiles};
  fetch_rows(0, first);
  multiply_widening_tile<first, NR>(a, w, panel, wide, k / 2, c, ldc, accumulate, ahead);
  for (int t = 1, row = first; t < tiles; t++) {
    const int left = tiles - t, mine = (rows - row + left - 1) / left;
    ahead.at += bytes;
    fetch_rows(row, mine);
    multiply_wide_rows<most, NR>(mine, a + row * kWideK, wide, k / 2, c + row * ldc, ldc, accumulate, ahead,
                                 panel * int64_t(sizeof(bf16)));
    row += mine;
  }
}

// Many rows without instructions for pairs of bfloat16: blocks of rows and k are widened once for all panels, and
// blocks of panels once for all rows. A block fetches the next one of its panels; the last fetches the first one of
// panels as far on as there are, which their worker will likely multiply next, or of its own again for more rows.
// Activations of the next block are fetched by all panels, each its share: a few lines of every row, which no processor
// fetches ahead.
inline void multiply_wide(const bf16* a, int64_t lda, int m, const bf16* w, int64_t panel, int k, int npanels, float* c,
                          int64_t ldc, bool accumulate) {
  alignas(64) float wide[kWideRows * kWideK];
  const int blocks = (m + kWideRows - 1) / kWideRows, height = m / blocks, taller = m % blocks;
  for (int b = 0, row = 0; b < blocks; b++) {
    const int rows = height + (b < taller);
    for (int k0 = 0; k0 < k; k0 += kWideK) {
      const int depth = round_to(k - k0 < kWideK ? k - k0 : kWideK, 2);
      for (int i = 0; i < rows; i++) {
        const bf16* from = a + (row + i) * lda + k0;
        widen_pairs<kWideK>(from, depth / 2, wide + i * kWideK, from + (i + kRowsAhead < rows ? kRowsAhead * lda : 0));
      }
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
          multiply_wide_panels<NR>(wide, rows, from, panel, depth, to, ldc, add, next, rows_ahead);
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

template <int MR>
ANNEAL_INLINE void multiply_some_rows(int rows, const float* a, const bf16* w, int pairs, float* c, int64_t ldc,
                                      bool accumulate, Ahead ahead) {
  if (rows == MR) return multiply_some_tile<MR>(a, w, pairs, c, ldc, accumulate, ahead);
  if constexpr (MR > 1) multiply_some_rows<MR - 1>(rows, a, w, pairs, c, ldc, accumulate, ahead);
}

// Some rows without instructions for pairs of bfloat16: widened once for all panels, which each of their tiles widens
// anew. Tiles fetch the next panel, each its share.
inline void multiply_some(const bf16* a, int64_t lda, int m, const bf16* w, int64_t panel, int k, int npanels, float* c,
                          int64_t ldc, bool accumulate) {
  alignas(64) float wide[(kManyRows - 1) * kSomeK];
  const int tiles = (m + kSomeTileRows - 1) / kSomeTileRows;
  for (int k0 = 0; k0 < k; k0 += kSomeK) {
    const int depth = round_to(k - k0 < kSomeK ? k - k0 : kSomeK, 2);
    for (int i = 0; i < m; i++) {
      const bf16* from = a + i * lda + k0;
      widen_pairs<kSomeK>(from, depth / 2, wide + i * kSomeK, from + (i + kRowsAhead < m ? kRowsAhead * lda : 0));
    }
    for (int p = 0; p < npanels; p++) {
      const bf16* from = w + p * panel + int64_t(k0) * kLanes;
      const bf16* next = p + 1 < npanels  ? from + panel
                         : k0 + depth < k ? w + int64_t(k0 + depth) * kLanes
                                          : w + npanels * panel;
      for (int t = 0, row = 0; t < tiles; t++) {
        const int left = tiles - t, mine = (m - row + left - 1) / left;
        const Ahead ahead{(const char*)(next + int64_t(depth) * kLanes / tiles * t), 64 / tiles};
        multiply_some_rows<kSomeTileRows>(mine, wide + row * kSomeK, from, depth / 2, c + row * ldc + p * kLanes, ldc,
                                          accumulate || k0 > 0, ahead);
        row += mine;
      }
    }
  }
}
#endif
#endif

// c [m][16 * npanels] (+)= a [m][k] . W^T over neighbouring panels of `panel` elements.
template <class T>
void multiply_block(const T* a, int64_t lda, int m, const T* w, int64_t panel, int k, int npanels, float* c,
                    int64_t ldc, bool accumulate, Upcoming next = {}) {
#ifdef ANNEAL_TILES
  if constexpr (kByTiles<T>)
    return multiply_tiles(a, lda, m, w, panel, k, npanels, c, ldc, accumulate, next.at, next.step);
#endif
#ifdef ANNEAL_SOME_ROWS
  if constexpr (kStep<T> == 2)
    if (m >= kSomeRows && m < kManyRows && npanels > 1)
      return multiply_some(a, lda, m, w, panel, k, npanels, c, ldc, accumulate);
#endif
#ifndef ANNEAL_PAIR_PRODUCT
  if constexpr (kStep<T> == 2)
    if (m >= kManyRows && npanels > 1) return multiply_wide(a, lda, m, w, panel, k, npanels, c, ldc, accumulate);
#endif
  const bool streams = streams_panels<T>(m, k);
  while (npanels > 0) {
    const int most = streams ? 1 : npanels;
    int width;
    if (m <= kFewRows && most >= kFewRowsPanels) {
      multiply_panels<T, kFewRowsPanels>(a, lda, m, w, panel, k, c, ldc, accumulate, next);
      width = kFewRowsPanels;
    } else if (kBestPanels == 3 && most == 4) {
      multiply_panels<T, 4>(a, lda, m, w, panel, k, c, ldc, accumulate, next);
      width = 4;
    } else if (kBestPanels == 3 && most >= 3) {
      multiply_panels<T, 3>(a, lda, m, w, panel, k, c, ldc, accumulate, next);
      width = 3;
    } else if (kBestPanels == 3 && most == 2) {
      multiply_panels<T, 2>(a, lda, m, w, panel, k, c, ldc, accumulate, next);
      width = 2;
    } else {
      multiply_panels<T, 1>(a, lda, m, w, panel, k, c, ldc, accumulate, next);
      width = 1;
    }
    npanels -= width;
    w += width * panel;
    if (next.at) next.at += width * panel * int64_t(sizeof(T));
    c += width * kLanes;
  }
}

// c [m][16 * npanels] (+)= a [m][k] (T) . W^T, cut into blocks of k and of rows that stay in the cache.
template <class T>
void gemm(const void* a_, int64_t lda, int m, const void* panels, int k, int npanels, float* c, int64_t ldc,
          bool accumulate) {
  const T* a = (const T*)a_;
  const T* w = (const T*)panels;
  const int64_t panel = panel_size<T>(k);
  if (k == 0 && m > 0) return multiply_block<T>(a, lda, m, w, panel, 0, npanels, c, ldc, accumulate);
  for (int k0 = 0; k0 < k; k0 += kBlockK) {
    const int depth = k - k0 < kBlockK ? k - k0 : kBlockK;
    // Rows whose activations fit the second-level cache beside the panels, in blocks of nearly equal height; processors
    // that have tiles have twice as much. Rows that are widened are cut where that is done.
    constexpr bool kWhole = kWidensPairs<T> && !kByTiles<T>;
    constexpr int kBytes = (kByTiles<T> ? 1024 : 384) * 1024, kUnit = kByTiles<T> ? 32 : 48;
    const int fit = kBytes / int(sizeof(T)) / (depth + 1), most = fit < 96 ? 96 : fit / kUnit * kUnit;
    const int blocks = (m + most - 1) / most, height = kWhole ? m : round_to((m + blocks - 1) / blocks, kUnit);
    for (int row = 0; row < m; row += height) {
      const int rows = m - row < height ? m - row : height;
      multiply_block<T>(a + row * lda + k0, lda, rows, w + int64_t(k0) * kLanes, panel, depth, npanels, c + row * ldc,
                        ldc, accumulate || k0 > 0);
    }
  }
}

}  // namespace
}  // namespace anneal::cpu
