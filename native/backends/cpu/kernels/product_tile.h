// What every product of the exact family is made of: tiles of sums in registers, and what they fetch meanwhile.
#pragma once
#include "panels.h"

namespace anneal::cpu {
namespace {

// k from which on few rows go from panel to panel: of models of 100 million weights.
constexpr int kStreamedK = 576;
// Bytes ahead of themselves that rows which read one panel after the other, as one stream, fetch into the second-level
// cache; and, where they take longer for each line, from there into the first.
constexpr int kStreamAhead = 6144, kStreamNear = 2048;

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

// What is fetched of quantised panels: of each of some, `panel` bytes apart, the stretch from `at` to `end`, a few
// lines at a time between multiplications. Memory that is asked for many lines at once makes what multiplies wait.
struct PanelFetch {
  const uint8_t *at, *end;
  int64_t panel;

  static PanelFetch whole(const uint8_t* panels, int64_t panel) { return {panels, panels + panel, panel}; }
  // Parts first .. first + count - 1 of so many.
  PanelFetch part(int first, int count, int of) const {
    const auto line = [&](int before) { return at + (end - at) * before / of / 64 * 64; };
    return {line(first), line(first + count), panel};
  }
  // That of the j-th panel alone.
  PanelFetch only(int j) const { return {at + j * panel, end + j * panel, panel}; }
  // Lines to be fetched at each of so many times.
  int lines(int times) const { return int((end - at + 64 * times - 1) / (64 * times)); }
  template <int NR> ANNEAL_INLINE void next(int lines) {
    for (; lines > 0 && at < end; lines--, at += 64)
#pragma GCC unroll 8
      for (int j = 0; j < NR; j++) prefetch(at + j * panel);
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

// Of m rows in tiles of `most` over one panel, those that go two by two over kPanelsOfTwo panels: up to so many beyond
// full tiles, which are too few sums at once for any to be ready when its turn comes again.
constexpr int kPanelsOfTwo = 3;
constexpr int rows_by_two(int m, int most, int up_to) {
  const int beyond = m % most;
  return m > most && beyond <= up_to ? (beyond + 1) / 2 * 2 : 0;
}

// body.operator()<rows>() of a tile that has MR rows at most.
template <int MR, class Body> ANNEAL_INLINE void with_rows(int rows, Body&& body) {
  if (rows >= MR) return body.template operator()<MR>();
  if constexpr (MR > 1) with_rows<MR - 1>(rows, body);
}

}  // namespace
}  // namespace anneal::cpu
