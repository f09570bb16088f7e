// The product c[m][16 * panels] (+)= a[m][k] . W^T over panels of W: of the exact family here, of the fast one in
// tiles.h.
//
// Each output is one chain of float32 sums over ascending k, whatever the tile, the row count or the instruction set:
// float32, c = fma(a_k, w_k, c); bfloat16, pairs of k, c = fma(even, fma(odd, c)), as one vdpbf16ps does it. Blocking
// over k stores the chain's value in c and takes it up again.
#pragma once
#include "product_tile.h"
#include "widened_products.h"
#ifdef ANNEAL_TILES
#include "tiles.h"
#endif

namespace anneal::cpu {
namespace {

constexpr int kWidenedK = 256;  // k of activations widened to float32 at a time
constexpr int kBlockK = 4096;   // k for which three panels stay in the second-level cache
// Panel vectors ahead: of panels side by side; of one row and of few rows that go from panel to panel. On Zen 4 whole
// pages of 4 KiB ahead are slower.
constexpr int kPrefetch = 32, kAheadOfRow = 96, kAheadOfFew = 160;

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
  return rows >= (kWidensPairs<T> ? kWidenedFrom : 1) && rows <= kStreamedRows && k >= kStreamedK;
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
  const bool streams = streams_panels<T>(m, k);
  const int tiles = (m + most - 1) / most;
  const int height = m / tiles, taller = m % tiles;  // the first `taller` tiles have one row more
  for (int t = 0, row = 0; t < tiles; t++) {
    const int rows = height + (t < taller);
    const int64_t part = int64_t(k) * kLanes * int64_t(sizeof(T)) / tiles * t;
    const int own = !streams ? kPrefetch : m == 1 ? kAheadOfRow : kAheadOfFew;
    const Ahead ahead = next.at && tiles == 1 ? Ahead{next.at, next.step}
                        : streams || m <= kFewRows
                            ? Ahead{(const char*)(w + kStep<T> * own * kLanes), 64}
                            : Ahead{(next.at ? next.at : (const char*)(w + NR * panel)) + part, 64 / tiles};
    multiply_rows<T, most, NR>(rows, a + row * lda, lda, w, panel, k, c + row * ldc, ldc, accumulate, ahead);
    row += rows;
  }
}

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
