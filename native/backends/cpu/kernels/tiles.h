// Products of bfloat16 as x86's matrix unit (AMX) sums them: the fast family of arithmetic.
//
// An output takes up 32 k at a time: the products of the even k are one chain of fused multiply-adds from zero, those
// of the odd k another, and c = c + (even + odd). What the last 32 lack counts as zeros, but fewer than 32 altogether
// are one step of their own length. Denormals count as zeros, too, and every step rounds to nearest even. The
// instruction says so of every row and column of a tile, so that bits do not depend on how many rows there are, or
// where one lies. With ANNEAL_AMX it is what multiplies; else the same bits come from vectors, which is no faster than
// the exact family.
//
// Sums may be put down and taken up again where a multiple of 32 k is done, and nowhere else.
#pragma once
#include "product_tile.h"

namespace anneal::cpu {
namespace {

constexpr int kTileDepth = kFastDepth, kTileHeight = 16;  // of a tile of activations
constexpr int kTileElements = kTileDepth * kLanes;
constexpr int kPassRows = 2 * kTileHeight;  // that go through a panel together
constexpr int kLongRows = 4096;             // floats between rows of sums that no cache holds
constexpr int kTilesAhead = 6;              // of a panel, where few rows wait for memory

// What is fetched while panels are multiplied: some lines with each tile of theirs, one after the other.
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
// and 5 `lower` ones; what is multiplied is `depth` k deep, an even number. Setting that up takes as long as 15
// products of tiles, so it is kept until it changes.
struct TileShape {
  uint8_t upper = 0, lower = 0, depth = 0;
  void set(int upper_, int lower_, int depth_) {
    if (upper == upper_ && lower == lower_ && depth == depth_) return;
    upper = uint8_t(upper_), lower = uint8_t(lower_), depth = uint8_t(depth_);
    struct alignas(64) {
      uint8_t palette = 1, start_row = 0, reserved[14] = {};
      uint16_t row_bytes[16] = {};
      uint8_t rows[16] = {};
    } config;
    for (int i = 0; i < 8; i++) config.row_bytes[i] = 64;
    for (int i : {4, 5}) config.row_bytes[i] = uint16_t(depth * sizeof(bf16));
    for (int i : {0, 1, 4}) config.rows[i] = upper;
    for (int i : {2, 3, 5}) config.rows[i] = lower;
    for (int i : {6, 7}) config.rows[i] = depth / 2;
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

// f, and the tiles are given back.
template <auto f> struct Releasing;
template <class... A, void (*f)(A...)> struct Releasing<f> {
  static void call(A... arguments) {
    TilesInUse tiles;
    f(arguments...);
  }
};
template <auto f> constexpr auto giving_back = Releasing<f>::call;

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

// For passes of so many rows that follow, over tiles of that depth.
template <bool two_tiles> void shape_tiles(int rows, int depth) {
  if (two_tiles)
    tile_shape.set(kTileHeight, rows - kTileHeight, depth);
  else
    tile_shape.set(rows, rows, depth);
}

// c [rows][NR * 16] (+)= `steps` tiles of a . W^T, and `last` where there is one, after shape_tiles().
template <int NR, bool two_tiles>
ANNEAL_INLINE void multiply_tiles_of(const bf16* a, int64_t lda, int rows, const bf16* w, int64_t panel, int /*depth*/,
                                     int steps, const LastTiles* last, float* c, int64_t ldc, bool accumulate,
                                     TileFetch fetch) {
  using Pass = TilePass<NR, two_tiles>;
  if (two_tiles && ldc >= kLongRows)
    for (int i = 0; i < rows; i++)
      for (int j = 0; j < NR; j++) prefetch(c + i * ldc + j * kLanes);
  asm volatile("" ::: "memory");  // what is loaded below has been stored
  Pass::begin(c, ldc, accumulate);
  for (int s = 0; s < steps; s++) {
    for (int i = 0; i < fetch.lines; i++, fetch.at += 64)
      for (int j = 0; j < NR; j++) prefetch(fetch.at + j * fetch.panel);
    Pass::step(a + s * kTileDepth, lda, w + int64_t(s) * kTileElements, panel);
  }
  if (last) Pass::step(last->a[0], kTileDepth, last->w[0], kTileElements);
  Pass::end(c, ldc);
}

#else

// Vectors hold no tiles.
template <auto f> constexpr auto giving_back = f;
template <bool two_tiles> void shape_tiles(int, int) {}

// One tile of k of MR rows by NR panels.
template <int MR, int NR>
ANNEAL_INLINE void add_tile(const bf16* a, int64_t lda, const bf16* w, int64_t panel, int depth, F32x16 (&c)[MR][NR]) {
  const I32x16 upper = all_int(int(0xffff0000u));
  F32x16 even[MR][NR], odd[MR][NR];
  for (int i = 0; i < MR; i++)
    for (int j = 0; j < NR; j++) even[i][j] = odd[i][j] = zero();
  for (int k = 0; k < depth; k += 2) {
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
void multiply_tile_rows(const bf16* a, int64_t lda, const bf16* w, int64_t panel, int depth, int steps,
                        const bf16* last_a, const bf16* last_w, float* c, int64_t ldc, bool accumulate) {
  F32x16 sums[MR][NR];
  for (int i = 0; i < MR; i++)
    for (int j = 0; j < NR; j++) sums[i][j] = accumulate ? load(c + i * ldc + j * kLanes) : zero();
  for (int s = 0; s < steps; s++)
    add_tile<MR, NR>(a + s * kTileDepth, lda, w + int64_t(s) * kTileElements, panel, depth, sums);
  if (last_a) add_tile<MR, NR>(last_a, kTileDepth, last_w, kTileElements, kTileDepth, sums);
  for (int i = 0; i < MR; i++)
    for (int j = 0; j < NR; j++) store(c + i * ldc + j * kLanes, sums[i][j]);
}

template <int NR, bool two_tiles>
void multiply_tiles_of(const bf16* a, int64_t lda, int rows, const bf16* w, int64_t panel, int depth, int steps,
                       const LastTiles* last, float* c, int64_t ldc, bool accumulate, TileFetch) {
  constexpr int kRows = NR <= 2 ? 4 : 2;
  int row = 0;
  const auto take = [&]<int MR>() {
    multiply_tile_rows<MR, NR>(a + row * lda, lda, w, panel, depth, steps, last ? last->a[row] : nullptr,
                               last ? last->w[0] : nullptr, c + row * ldc, ldc, accumulate);
    row += MR;
  };
  while (rows - row >= kRows) take.template operator()<kRows>();
  while (row < rows) take.template operator()<1>();
}

#endif

// Some rows over all panels.
struct TileProduct {
  const bf16* a;
  int64_t lda;
  const bf16* w;
  int64_t panel;
  int depth, steps, last_k, npanels;  // k of a tile, how many there are, and what is left
  float* c;
  int64_t ldc;
  bool accumulate;
  TileFetch fetch;

  // At most kPassRows rows: one tile of them by up to `most` panels at a time, or two tiles by up to two.
  template <int most, bool two_tiles> void pass(int row, int rows, LastTiles& last) const {
    const bf16* from = a + row * lda;
    shape_tiles<two_tiles>(rows, depth);
    if (last_k) last.set_rows(from + steps * kTileDepth, lda, rows, last_k);
    for (int p = 0; p < npanels;) {
      const int left = npanels - p < most ? npanels - p : most;
      if (last_k) last.set_panels(w + p * panel + int64_t(steps) * kTileElements, panel, left, last_k);
      p += panels<two_tiles>(p, left, from, rows, last, c + row * ldc, fetch);
    }
  }

  // `rows`, a multiple of kPassRows: all of them over two panels after the other. Each fetches its share of what is
  // read next.
  void passes(int rows, LastTiles& last) const {
    const int count = rows / kPassRows, lines = (fetch.lines + count - 1) / count;
    shape_tiles<true>(kPassRows, depth);
    for (int p = 0; p < npanels;) {
      const int left = npanels - p < 2 ? npanels - p : 2;
      if (last_k) last.set_panels(w + p * panel + int64_t(steps) * kTileElements, panel, left, last_k);
      TileFetch share{fetch.at, lines, fetch.panel};
      for (int row = 0; row < rows; row += kPassRows) {
        const bf16* from = a + row * lda;
        if (last_k) last.set_rows(from + steps * kTileDepth, lda, kPassRows, last_k);
        panels<true>(p, left, from, kPassRows, last, c + row * ldc, share);
        share.at += int64_t(steps) * lines * 64;
      }
      p += left;
    }
  }

 private:
  template <bool two_tiles>
  int panels(int p, int count, const bf16* from, int rows, const LastTiles& last, float* to, TileFetch own) const {
    own.at += p * own.panel;
    const auto take = [&]<int NR>() {
      multiply_tiles_of<NR, two_tiles>(from, lda, rows, w + p * panel, panel, depth, steps, last_k ? &last : nullptr,
                                       to + p * kLanes, ldc, accumulate, own);
      return NR;
    };
    if constexpr (!two_tiles) {
      if (count == 4) return take.template operator()<4>();
      if (count == 3) return take.template operator()<3>();
    }
    return count == 2 ? take.template operator()<2>() : take.template operator()<1>();
  }
};

// c [m][16 * npanels] (+)= a [m][k] . W^T over neighbouring panels of `panel` elements. Of what lies at `next`,
// `next_step` bytes are fetched for every 64 bytes of the panels; null: what lies behind them is.
inline void multiply_tiles(const bf16* a, int64_t lda, int m, const bf16* w, int64_t panel, int k, int npanels,
                           float* c, int64_t ldc, bool accumulate, const char* next, int64_t next_step) {
  LastTiles last;
  // Few rows go from panel to panel, which memory reads faster than several at a time.
  const bool streams = m <= kTileHeight && k >= kStreamedK && !next;
  const int whole = m / kPassRows * kPassRows, rest = m - whole;
  // As of an adapter's rank. Where no key of a block is seen, k is 0 or a negative multiple of 32, and nothing is
  // added.
  const bool narrow = k > 0 && k < kTileDepth;
  const int depth = narrow ? round_to(k, 2) : kTileDepth;
  const char* const upcoming = next ? next : (const char*)(w + (streams ? kTilesAhead * kTileElements : 2 * panel));
  const TileFetch fetch{upcoming, (next ? int(next_step / 4) : kTileHeight) * depth / kTileDepth,
                        panel * int64_t(sizeof(bf16))};
  TileProduct product{
      a,       lda, w,   panel,      depth, narrow ? 1 : k / kTileDepth, narrow ? 0 : round_to(k % kTileDepth, 2),
      npanels, c,   ldc, accumulate, fetch};
  if (whole > 0) product.passes(whole, last), product.fetch.lines = 0;
  if (rest > kTileHeight)
    product.pass<2, true>(whole, rest, last);
  else if (rest > 0 && streams)
    product.pass<1, false>(whole, rest, last);
  else if (rest > 0)
    product.pass<4, false>(whole, rest, last);
}

}  // namespace
}  // namespace anneal::cpu
