// Products of few rows with codes that are unpacked in registers, which saves writing and reading them: more rows share
// what is unpacked (code_products.h, which says what is computed).
#pragma once
#include "code_sums.h"
#include "product_tile.h"

namespace anneal::cpu {
namespace {

// c [MR][16] (+)= rows by a panel, whose codes stay in registers: each tile of rows unpacks them anew.
template <TensorFormat F, int MR>
void multiply_packed(const ActivationGroup* a, int64_t lda, const uint8_t* panel, int k, float* c, int64_t ldc,
                     bool accumulate) {
  constexpr QuantizedFormat f = quantized_format(F);
  constexpr int quads = kQuads / group_scales(f), size = group_bytes(f), block_bytes = block_scale_bytes(f);
  constexpr int block_groups = f.numbers / kGroup, together = block_groups % 2 == 0 ? 2 : 1;
  Tile<MR, 1> tile;
  tile.begin(c, ldc, accumulate);
  for (int left = k; left > 0; left -= span_of(f)) {
    const int here = left < span_of(f) ? left : span_of(f);
    const uint8_t *scales = panel, *codes = panel + scale_bytes(f, here);
    for (int blocks = here / f.numbers; blocks > 0; blocks--, scales += block_bytes) {
      for (int i = 0; i < block_bytes; i += 64) prefetch(scales + i + kStreamAhead);
      const BlockScales block = block_scales_of<F>(scales);
      for (int step = 0; step < block_groups / together; step++) {
#pragma GCC unroll 2
        for (int i = 0; i < together; i++, codes += size, a++) {
          GroupScales w;
          CodeSums<F, MR, 1> sums;
          each_packed_quad<f.bits, f.looked_up>(codes, [&](auto order, auto quad, I32x16 bytes) {
            constexpr int part = order / quads, before = order % quads;
            if (before == 0) sums.begin(a, lda, part);
            if constexpr (order < size / 64) {
              prefetch(codes + order * 64 + kStreamAhead);
              if constexpr (MR > 2) prefetch_near(codes + order * 64 + kStreamNear);
            }
#ifdef ANNEAL_CODE_QUADS
#pragma GCC unroll 4
            for (int r = 0; r < MR; r++) {
              I32x16& sum = sums.of[0][before % sums.chains][r];
              sum = dot_quad<quad % 4>(sum, bytes, load_quads(a[r * lda].codes + quad / 4 * 16));
            }
#else
            sums.add(before, a, lda, quad, {bytes});
#endif
            if (before < quads - 1) return;
            if (part == 0) w = group_scales_of<F>(block, scales, step * together + i);
#pragma GCC unroll 4
            for (int r = 0; r < MR; r++)
              tile.c[r][0] = add_sum<F>(tile.c[r][0], sums.total(r, 0), a[r * lda], w.scales[part], w.zero);
          });
          if constexpr (f.minima)
#pragma GCC unroll 4
            for (int r = 0; r < MR; r++) tile.c[r][0] = fma(all(a[r * lda].sum), w.minimum, tile.c[r][0]);
        }
      }
    }
    panel = codes;
  }
  tile.end(c, ldc);
}
// Up to so many rows; and of a tile of them. Bytes, which need no unpacking, are multiplied by one tile.
template <TensorFormat F> constexpr int kPackedUpTo = quantized_format(F).bits == 8 ? kPackedByteRows : kPackedRows;
template <TensorFormat F> constexpr int kPackedTile = quantized_format(F).bits == 8 ? kPackedByteRows : kPackedTileRows;
// c [m][16] (+)= all rows by such a panel, in tiles of as many rows each.
template <TensorFormat F>
void multiply_packed_panel(const ActivationGroup* a, int64_t lda, int m, const uint8_t* panel, int k, float* c,
                           int64_t ldc, bool accumulate) {
  for (int row = 0, tiles = (m + kPackedTile<F> - 1) / kPackedTile<F>, rows; tiles > 0; tiles--, row += rows) {
    rows = (m - row + tiles - 1) / tiles;
    with_rows<kPackedTile<F>>(
        rows, [&]<int MR>() { multiply_packed<F, MR>(a + row * lda, lda, panel, k, c + row * ldc, ldc, accumulate); });
  }
}

}  // namespace
}  // namespace anneal::cpu
