// Products of many rows with codes of 8 bits, where an instruction multiplies unsigned bytes by signed ones and none
// does better: of a stretch of codes the absolute values and the signs are parted once for all rows.
#pragma once
#include "code_sums.h"
#include "product_tile.h"

namespace anneal::cpu {
namespace {

constexpr int kSplitBytes = 2 * kQuadBytes;  // of a quad
constexpr int kSplitTileRows = 3;

// c [MR][16] (+)= rows by groups of a panel whose codes are parted.
template <TensorFormat F, int MR>
void multiply_split(const ActivationGroup* a, int64_t lda, const CodePanel& w, int groups, float* c, int64_t ldc,
                    bool accumulate) {
  constexpr bool own_zeros = quantized_format(F).zero == kOwnZeros;
  Tile<MR, 1> tile;
  tile.begin(c, ldc, accumulate);
  for (int g = 0; g < groups; g++, a++) {
    CodeSums<F, MR, 1> sums;
    sums.begin(a, lda, 0);
#pragma GCC unroll 8
    for (int quad = 0; quad < kQuads; quad++) {
      const uint8_t* const split = w.codes + (g * kQuads + quad) * kSplitBytes;
#pragma GCC unroll 4
      for (int i = 0; i < MR; i++) sums.of[0][0][i] = dot_split(sums.of[0][0][i], split, four_codes(a[i * lda], quad));
    }
    const F32x16 scale = load(w.scales + g * kLanes), zeros = own_zeros ? load(w.zeros + g * kLanes) : zero();
#pragma GCC unroll 4
    for (int i = 0; i < MR; i++) tile.c[i][0] = add_sum<F>(tile.c[i][0], sums.total(i, 0), a[i * lda], scale, zeros);
  }
  tile.end(c, ldc);
}
// From so many rows on; and all of them by groups of one panel, parted in a buffer.
constexpr int kPreparedRows = 36;
template <TensorFormat F> constexpr bool kPrepared = quantized_format(F).bits == 8;
template <TensorFormat F>
void multiply_prepared(const ActivationGroup* a, int64_t lda, int m, CodePanel w, int groups, float* c, int64_t ldc,
                       bool accumulate, PanelFetch fetch) {
  alignas(64) uint8_t split[kUnpackGroups * kQuads * kSplitBytes];
  for (int i = 0; i < groups * kQuads; i++) split_bytes(load_int(w.codes + i * kQuadBytes), split + i * kSplitBytes);
  w.codes = split;
  const int lines = fetch.lines((m + kSplitTileRows - 1) / kSplitTileRows);
  for (int row = 0; row < m; row += kSplitTileRows) {
    fetch.next<1>(lines);
    with_rows<kSplitTileRows>(m - row, [&]<int MR>() {
      multiply_split<F, MR>(a + row * lda, lda, w, groups, c + row * ldc, ldc, accumulate);
    });
  }
}

}  // namespace
}  // namespace anneal::cpu
