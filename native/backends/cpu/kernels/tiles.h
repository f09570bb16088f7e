// Products of bfloat16 as x86's matrix unit (AMX) sums them: the fast family of arithmetic.
//
// An output takes up 32 k at a time: the products of the even k are one chain of fused multiply-adds from zero, those of
// the odd k another, and c = c + (even + odd). What the last 32 lack counts as zeros; denormals do, too, and every step
// rounds to nearest even. The instruction says so of every row and column of a tile, so that bits do not depend on how
// many rows there are, or where one lies. With ANNEAL_AMX it is what multiplies; else the same bits come from vectors,
// which is no faster than the exact family.
//
// Sums may be put down and taken up again where a multiple of 32 k is done, and nowhere else.
#pragma once
#include "panels.h"

namespace anneal::cpu {
namespace {

constexpr int kTileDepth = 32, kTileHeight = 16;  // of a tile of activations
constexpr int kTileElements = kTileDepth * kLanes;
constexpr int kPassRows = 2 * kTileHeight;  // that go through a panel together
constexpr int kPassK = 1024;              // of activations that stay in a cache while panels pass
constexpr int kTilesAhead = 6;            // of a panel, where few rows wait for memory

// What is fetched while panels are multiplied: for every tile of theirs so many lines, one after the other.
struct TileFetch {
  const char* at;
  int lines;
  int64_t panel;  // bytes from what the next panel fetches
};

// Activations and panels of the last k, filled up to 32 with zeros.
struct LastTiles {
  alignas(64) bf16 a[kPassRows][kTileDepth];
  alignas(64) bf16 w[4][kTileElements];

  void set_rows(const bf16* from, int64_t lda, int rows, int k) {
    for (int i = 0; i < rows; i++) {
      __builtin_memset(a[i], 0, sizeof a[i]);
      __builtin_memcpy(a[i], from + i * lda, size_t(k) * sizeof(bf16));
    }
  }
  void set_panels(const bf16* from, int64_t panel, int panels, int k) {
    for (int j = 0; j < panels; j++) {
      __builtin_memcpy(w[j], from + j * panel, size_t(k) * kLanes * sizeof(bf16));
      __builtin_memset(w[j] + k * kLanes, 0, size_t(kTileDepth - k) * kLanes * sizeof(bf16));
    }
  }
};

#ifdef ANNEAL_AMX

// The tile registers: sums 0 to 3, activations 4 and 5, weights 6 and 7. Registers 0, 1 and 4 have `upper` rows, 2, 3
// and 5 `lower` ones. Setting that up takes as long as 15 products of tiles, so it is kept until it changes.
struct TileShape {
  uint8_t upper = 0, lower = 0;
  void set(int upper_, int lower_) {
    if (upper == upper_ && lower == lower_) return;
    upper = uint8_t(upper_), lower = uint8_t(lower_);
    struct alignas(64) {
      uint8_t palette = 1, start_row = 0, reserved[14] = {};
      uint16_t row_bytes[16] = {};
      uint8_t rows[16] = {};
    } config;
    for (int i = 0; i < 8; i++) config.row_bytes[i] = 64, config.rows[i] = kTileHeight;
    for (int i : {0, 1, 4}) config.rows[i] = upper;
    for (int i : {2, 3, 5}) config.rows[i] = lower;
    asm volatile("ldtilecfg %0" ::"m"(config) : "memory");
  }
};
thread_local TileShape tile_shape;

// Around whatever multiplies: other code of the thread may use the tiles afterwards, and a thread that holds none is
// cheaper to switch.
struct TilesInUse {
  ~TilesInUse() {
    if (tile_shape.upper == 0) return;
    asm volatile("tilerelease" ::: "memory");
    tile_shape = {};
  }
};

template <int t> ANNEAL_INLINE void zero_tile() { asm volatile("tilezero %%tmm%c0" ::"i"(t)); }
template <int t> ANNEAL_INLINE void load_tile(const void* p, int64_t bytes) {
  asm volatile("tileloadd (%1,%2,1), %%tmm%c0" ::"i"(t), "r"(p), "r"(bytes));
}
template <int t> ANNEAL_INLINE void store_tile(void* p, int64_t bytes) {
  asm volatile("tilestored %%tmm%c0, (%1,%2,1)" ::"i"(t), "r"(p), "r"(bytes) : "memory");
}
template <int c, int a, int w> ANNEAL_INLINE void multiply_tile_registers() {
  asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(c), "i"(a), "i"(w));
}

// One tile of rows by up to four panels, or (two_tiles) two by up to two.
template <int NR, bool two_tiles> struct TilePass {
  static_assert(two_tiles ? NR <= 2 : NR <= 4);
  static constexpr int kSecond = 2;  // where the sums of the second tile of rows begin

  template <int j = 0> static ANNEAL_INLINE void begin(const float* c, int64_t ldc, bool accumulate) {
    if constexpr (j < NR) {
      if (accumulate) {
        load_tile<j>(c + j * kLanes, ldc * 4);
        if constexpr (two_tiles) load_tile<kSecond + j>(c + kTileHeight * ldc + j * kLanes, ldc * 4);
      } else {
        zero_tile<j>();
        if constexpr (two_tiles) zero_tile<kSecond + j>();
      }
      begin<j + 1>(c, ldc, accumulate);
    }
  }
  template <int j = 0> static ANNEAL_INLINE void end(float* c, int64_t ldc) {
    if constexpr (j < NR) {
      store_tile<j>(c + j * kLanes, ldc * 4);
      if constexpr (two_tiles) store_tile<kSecond + j>(c + kTileHeight * ldc + j * kLanes, ldc * 4);
      end<j + 1>(c, ldc);
    }
  }
  // The panels' tiles at w, `panel` elements apart.
  template <int j = 0> static ANNEAL_INLINE void panels(const bf16* w, int64_t panel) {
    if constexpr (j < NR) {
      load_tile<6 + j % 2>(w + j * panel, 64);
      multiply_tile_registers<j, 4, 6 + j % 2>();
      if constexpr (two_tiles) multiply_tile_registers<kSecond + j, 5, 6 + j % 2>();
      panels<j + 1>(w, panel);
    }
  }
  static ANNEAL_INLINE void step(const bf16* a, int64_t lda, const bf16* w, int64_t panel) {
    load_tile<4>(a, lda * 2);
    if constexpr (two_tiles) load_tile<5>(a + kTileHeight * lda, lda * 2);
    panels(w, panel);
  }
};

// c [rows][NR * 16] (+)= `steps` tiles of a . W^T, and `last` where there is one.
template <int NR, bool two_tiles>
void multiply_tiles_of(const bf16* a, int64_t lda, int rows, const bf16* w, int64_t panel, int steps,
                       const LastTiles* last, float* c, int64_t ldc, bool accumulate, TileFetch fetch) {
  using Pass = TilePass<NR, two_tiles>;
  if (two_tiles)
    tile_shape.set(kTileHeight, rows - kTileHeight);
  else
    tile_shape.set(rows, rows);
  asm volatile("" ::: "memory");  // what is loaded below has been stored
  Pass::begin(c, ldc, accumulate);
  for (int s = 0; s < steps; s++) {
    for (int j = 0; j < NR; j++)
      for (int i = 0; i < fetch.lines; i++) prefetch(fetch.at + j * fetch.panel + i * 64);
    fetch.at += fetch.lines * 64;
    Pass::step(a + s * kTileDepth, lda, w + int64_t(s) * kTileElements, panel);
  }
  if (last) Pass::step(last->a[0], kTileDepth, last->w[0], kTileElements);
  Pass::end(c, ldc);
}

#else

struct TilesInUse {
  ~TilesInUse() {}
};

// One tile of k of MR rows by NR panels.
template <int MR, int NR>
ANNEAL_INLINE void add_tile(const bf16* a, int64_t lda, const bf16* w, int64_t panel, F32x16 (&c)[MR][NR]) {
  const I32x16 upper = all_int(int(0xffff0000u));
  F32x16 even[MR][NR], odd[MR][NR];
  for (int i = 0; i < MR; i++)
    for (int j = 0; j < NR; j++) even[i][j] = odd[i][j] = zero();
  for (int k = 0; k < kTileDepth; k += 2) {
    I32x16 pairs[NR];
    for (int j = 0; j < NR; j++) pairs[j] = load_int(w + j * panel + k * kLanes);
#pragma GCC unroll 4
    for (int i = 0; i < MR; i++) {
      const F32x16 x_even = all(widen(a[i * lda + k])), x_odd = all(widen(a[i * lda + k + 1]));
#pragma GCC unroll 4
      for (int j = 0; j < NR; j++) {
        even[i][j] = fma(x_even, as_float(shift_left<16>(pairs[j])), even[i][j]);
        odd[i][j] = fma(x_odd, as_float(pairs[j] & upper), odd[i][j]);
      }
    }
  }
#pragma GCC unroll 4
  for (int i = 0; i < MR; i++)
#pragma GCC unroll 4
    for (int j = 0; j < NR; j++) c[i][j] = c[i][j] + (even[i][j] + odd[i][j]);
}

template <int MR, int NR>
void multiply_tile_rows(const bf16* a, int64_t lda, const bf16* w, int64_t panel, int steps, const bf16* last_a,
                        const bf16* last_w, float* c, int64_t ldc, bool accumulate) {
  F32x16 sums[MR][NR];
  for (int i = 0; i < MR; i++)
    for (int j = 0; j < NR; j++) sums[i][j] = accumulate ? load(c + i * ldc + j * kLanes) : zero();
  for (int s = 0; s < steps; s++)
    add_tile<MR, NR>(a + s * kTileDepth, lda, w + int64_t(s) * kTileElements, panel, sums);
  if (last_a) add_tile<MR, NR>(last_a, kTileDepth, last_w, kTileElements, sums);
  for (int i = 0; i < MR; i++)
    for (int j = 0; j < NR; j++) store(c + i * ldc + j * kLanes, sums[i][j]);
}

template <int NR, bool two_tiles>
void multiply_tiles_of(const bf16* a, int64_t lda, int rows, const bf16* w, int64_t panel, int steps,
                       const LastTiles* last, float* c, int64_t ldc, bool accumulate, TileFetch) {
  constexpr int kRows = NR <= 2 ? 4 : 2;
  int row = 0;
  const auto take = [&]<int MR>() {
    multiply_tile_rows<MR, NR>(a + row * lda, lda, w, panel, steps, last ? last->a[row] : nullptr,
                               last ? last->w[0] : nullptr, c + row * ldc, ldc, accumulate);
    row += MR;
  };
  while (rows - row >= kRows) take.template operator()<kRows>();
  while (row < rows) take.template operator()<1>();
}

#endif

// Rows of one pass over all panels, `steps` tiles of k and what `last_k` is left after them.
template <int most, bool two_tiles>
ANNEAL_INLINE void multiply_pass(const bf16* a, int64_t lda, int rows, const bf16* w, int64_t panel, int steps,
                                 int last_k, LastTiles& last, int npanels, float* c, int64_t ldc, bool accumulate,
                                 TileFetch fetch) {
  if (last_k) last.set_rows(a + steps * kTileDepth, lda, rows, last_k);
  for (int p = 0; p < npanels;) {
    const int left = npanels - p < most ? npanels - p : most;
    const bf16* from = w + p * panel;
    if (last_k) last.set_panels(from + int64_t(steps) * kTileElements, panel, left, last_k);
    TileFetch own = fetch;
    own.at += p * fetch.panel;
    const auto take = [&]<int NR>() {
      multiply_tiles_of<NR, two_tiles>(a, lda, rows, from, panel, steps, last_k ? &last : nullptr, c + p * kLanes, ldc,
                                       accumulate, own);
      p += NR;
    };
    if constexpr (most == 4) {
      if (left >= 4) {
        take.template operator()<4>();
        continue;
      }
      if (left == 3) {
        take.template operator()<3>();
        continue;
      }
    }
    if constexpr (most >= 2) {
      if (left >= 2) {
        take.template operator()<2>();
        continue;
      }
    }
    take.template operator()<1>();
  }
}

// c [m][16 * npanels] (+)= a [m][k] . W^T over neighbouring panels of `panel` elements. Of what lies at `next`,
// `next_step` bytes are fetched for every 64 bytes of the panels; null: what lies behind them is.
inline void multiply_tiles(const bf16* a, int64_t lda, int m, const bf16* w, int64_t panel, int k, int npanels,
                           float* c, int64_t ldc, bool accumulate, const char* next, int64_t next_step) {
  LastTiles last;
  const int64_t panel_bytes = panel * int64_t(sizeof(bf16));
  // Few rows go from panel to panel, which memory reads faster than several at a time.
  const bool streams = m <= kTileHeight && k >= kStreamedK && !next;
  int k0 = 0;
  do {
    const int depth = k - k0 < kPassK ? k - k0 : kPassK, steps = depth / kTileDepth, last_k = round_to(depth % kTileDepth, 2);
    for (int row = 0; row < m; row += kPassRows) {
      const int rows = m - row < kPassRows ? m - row : kPassRows;
      const bf16 *rows_at = a + row * lda + k0, *panels_at = w + int64_t(k0) * kLanes;
      float* to = c + row * ldc;
      const bool add = accumulate || k0 > 0;
      TileFetch fetch{nullptr, 0, panel_bytes};
      if (row == 0 && next)
        fetch = {next + int64_t(k0) * kLanes * int64_t(sizeof(bf16)), int(next_step / 4), panel_bytes};
      else if (row == 0)
        fetch = {(const char*)(panels_at + (streams ? kTilesAhead * kTileElements : 4 * panel)), kTileHeight, panel_bytes};
      if (rows > kTileHeight)
        multiply_pass<2, true>(rows_at, lda, rows, panels_at, panel, steps, last_k, last, npanels, to, ldc, add, fetch);
      else if (streams)
        multiply_pass<1, false>(rows_at, lda, rows, panels_at, panel, steps, last_k, last, npanels, to, ldc, add,
                                fetch);
      else
        multiply_pass<4, false>(rows_at, lda, rows, panels_at, panel, steps, last_k, last, npanels, to, ldc, add,
                                fetch);
    }
    k0 += depth;
  } while (k0 < k);
}

}  // namespace
}  // namespace anneal::cpu
