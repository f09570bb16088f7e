// Products with quantised weights. Activations are rounded to 8-bit codes, by the absolute maximum of every 32 k of a
// row. Then, for each group of k that shares a scale of weights (32, or 16 in q6_k), ascending:
//
//   c = fma(float(sum of products of codes), x_scale * w_scale, c)
//   c = fma(float(sum of activation codes) * x_scale, w_minimum, c)      where the format has minima
//
// The sums are exact integers below 2^24, so every instruction set, row count and split gives the same bits. Where
// every group has its zero point (int4, int8: one for 32, 64 or 128 k), what it adds is subtracted as float32, which
// holds both sums and their difference exactly.
#pragma once
#include "codes.h"
#include "gemm.h"
#include "packed_products.h"
#include "quantized_panel.h"
#ifdef __ARM_FEATURE_MATMUL_INT8
#include "code_pairs.h"
#endif
#ifdef ANNEAL_SPLIT_BYTES
#include "split_products.h"
#endif

namespace anneal::cpu {
namespace {

// The first format that is multiplied alike once it is unpacked: one instance for all of them.
constexpr TensorFormat multiplied_as(TensorFormat format) {
  const QuantizedFormat& f = quantized_format(format);
  for (const QuantizedFormat& other : model::kQuantizedFormats)
    if ((other.bits == 8) == (f.bits == 8) && group_scales(other) == group_scales(f) && other.zero == f.zero &&
        other.minima == f.minima && less_in_words(other) == less_in_words(f))
      return other.format;
  return format;
}

#ifdef ANNEAL_CODE_QUADS
template <class Body, int... q> ANNEAL_INLINE void each_of(std::integer_sequence<int, q...>, Body&& body) {
  (body.template operator()<q>(), ...);
}
#endif

// c[MR][NR * 16] (+)= rows of `a` by the groups of panels, whose bytes may have been made signed.
template <TensorFormat F, int MR, int NR, bool made_signed = false>
void multiply_codes(const ActivationGroup* a, int64_t lda, const CodePanel* w, int groups, float* c, int64_t ldc,
                    bool accumulate, PanelFetch fetch) {
  constexpr QuantizedFormat f = quantized_format(F);
  constexpr int parts = group_scales(f), quads = kQuads / parts;
  constexpr bool own_zeros = f.zero == kOwnZeros;
  Tile<MR, NR> tile;
  tile.begin(c, ldc, accumulate);
  const int lines = fetch.lines(groups);
  for (int g = 0; g < groups; g++) {
    fetch.next<NR>(lines);
#pragma GCC unroll 2
    for (int part = 0; part < parts; part++) {
      CodeSums<F, MR, NR> sums;
      sums.begin(a + g, lda, part);
#ifdef ANNEAL_CODE_QUADS
      CodeQuads x[MR];
      each_of(std::make_integer_sequence<int, quads>(), [&]<int q>() {
        const int quad = part * quads + q;
#pragma GCC unroll 16
        for (int i = 0; q % 4 == 0 && i < MR; i++) x[i] = load_quads(a[i * lda + g].codes + 4 * quad);
#pragma GCC unroll 8
        for (int j = 0; j < NR; j++) {
          I32x16 codes = load_int(w[j].codes + (g * kQuads + quad) * kQuadBytes);
          if constexpr (f.bits == 8 && !made_signed) codes = signed_bytes(codes);
#pragma GCC unroll 16
          for (int i = 0; i < MR; i++) sums.of[j][0][i] = dot_quad<q % 4>(sums.of[j][0][i], codes, x[i]);
        }
      });
#else
#pragma GCC unroll 8
      for (int q = 0; q < quads; q++) {
        const int quad = part * quads + q;
        I32x16 codes[NR];
#pragma GCC unroll 8
        for (int j = 0; j < NR; j++) codes[j] = load_int(w[j].codes + (g * kQuads + quad) * kQuadBytes);
        sums.add(q, a + g, lda, quad, codes);
      }
#endif
#pragma GCC unroll 8
      for (int j = 0; j < NR; j++) {
        const F32x16 scale = load(w[j].scales + (g * parts + part) * kLanes);
#pragma GCC unroll 16
        for (int i = 0; i < MR; i++) {
          const F32x16 zeros = own_zeros ? load(w[j].zeros + g * kLanes) : zero();
          tile.c[i][j] = add_sum<F>(tile.c[i][j], sums.total(i, j), a[i * lda + g], scale, zeros);
        }
      }
    }
    if constexpr (f.minima) {
#pragma GCC unroll 8
      for (int j = 0; j < NR; j++) {
        const F32x16 minimum = load(w[j].minima + g * kLanes);
#pragma GCC unroll 16
        for (int i = 0; i < MR; i++) tile.c[i][j] = fma(all(a[i * lda + g].sum), minimum, tile.c[i][j]);
      }
    }
  }
  tile.end(c, ldc);
}

// Rows of a tile over NR panels. Of bytes, whose panels may be two or one beside the threes, as many as there are
// registers for.
template <TensorFormat F, int NR>
constexpr int kCodeTileRows = quantized_format(F).bits == 8 ? kByteRows[NR] : kCodeRows;

// The same of all rows, each tile of which fetches its share.
template <TensorFormat F, int NR, bool made_signed = false>
ANNEAL_INLINE void multiply_code_tiles(const ActivationGroup* a, int64_t lda, int m, const CodePanel* w, int groups,
                                       float* c, int64_t ldc, bool accumulate, const PanelFetch& fetch) {
  constexpr int most = kCodeTileRows<F, NR>;
  const int tiles = (m + most - 1) / most;
  for (int t = 0, row = 0; t < tiles; t++, row += most)
    with_rows<most>(m - row, [&]<int MR>() {
      multiply_codes<F, MR, NR, made_signed>(a + row * lda, lda, w, groups, c + row * ldc, ldc, accumulate,
                                             fetch.part(t, 1, tiles));
    });
}

#ifdef ANNEAL_CODE_QUADS
// From so many rows on bytes are made signed, or all codes laid out in pairs, once for all of them.
#ifdef ANNEAL_CODE_PAIRS
constexpr int kPreparedRows = kPairedRows + 1;
template <TensorFormat F> constexpr bool kPrepared = true;
#else
constexpr int kPreparedRows = 2 * kCodeRows;
template <TensorFormat F> constexpr bool kPrepared = quantized_format(F).bits == 8;
#endif

// c [m][16] (+)= all rows by groups of one panel, prepared for them in a buffer.
template <TensorFormat F>
void multiply_prepared(const ActivationGroup* a, int64_t lda, int m, CodePanel w, int groups, float* c, int64_t ldc,
                       bool accumulate, PanelFetch fetch) {
  alignas(64) uint8_t prepared[kUnpackGroups * kQuads * kQuadBytes];
  const int bytes = groups * kQuads * kQuadBytes;
#ifdef ANNEAL_CODE_PAIRS
  for (int at = 0; at < bytes; at += 2 * kQuadBytes)
    pair_quads<quantized_format(F).bits == 8>(w.codes + at, prepared + at);
  w.codes = prepared;
  const int lines = fetch.lines((m + kPairedRows - 1) / kPairedRows);
  for (int row = 0; row < m; row += kPairedRows) {
    fetch.next<1>(lines);
    multiply_code_pairs<F>(m - row < kPairedRows ? m - row : kPairedRows, a + row * lda, lda, w, groups, c + row * ldc,
                           ldc, accumulate);
  }
#else
  for (int at = 0; at < bytes; at += kQuadBytes) store_int(prepared + at, signed_bytes(load_int(w.codes + at)));
  w.codes = prepared;
  multiply_code_tiles<F, 1, true>(a, lda, m, &w, groups, c, ldc, accumulate, fetch);
#endif
}
#endif

// c (+)= rows by NR panels, groups of which panel(j, first group, count) makes ready, some at a time. Meanwhile `next`
// is fetched, of as many panels.
template <TensorFormat F, int NR, class Panel>
ANNEAL_INLINE void multiply_code_panels(const ActivationGroup* a, int64_t lda, int m, int groups, float* c, int64_t ldc,
                                        bool accumulate, PanelFetch next, Panel&& panel) {
  CodePanel ready[NR];
  for (int g = 0; g < groups; g += kUnpackGroups) {
    const int count = groups - g < kUnpackGroups ? groups - g : kUnpackGroups;
    const PanelFetch fetch = next.part(g, count, groups);
    for (int j = 0; j < NR; j++) ready[j] = panel(j, g, count);
#if defined ANNEAL_CODE_QUADS || defined ANNEAL_SPLIT_BYTES
    if constexpr (kPrepared<multiplied_as(F)>)
      if (m >= kPreparedRows) {
        for (int j = 0; j < NR; j++)
          multiply_prepared<multiplied_as(F)>(a + g, lda, m, ready[j], count, c + j * kLanes, ldc, accumulate,
                                              fetch.only(j));
        accumulate = true;
        continue;
      }
#endif
    multiply_code_tiles<multiplied_as(F), NR>(a + g, lda, m, ready, count, c, ldc, accumulate, fetch);
    accumulate = true;
  }
}

template <TensorFormat F, int NR>
void multiply_quantized_panels(const ActivationGroup* a, int64_t lda, int m, const uint8_t* panels, int k, float* c,
                               int64_t ldc, bool accumulate) {
  const int64_t bytes = quantized_panel_bytes(F, k);
  const PanelFetch next = PanelFetch::whole(panels + (NR == 1 ? kStreamAhead : NR * bytes), bytes);
  UnpackedPanel unpacked[NR];
  multiply_code_panels<F, NR>(a, lda, m, k / kGroup, c, ldc, accumulate, next, [&](int j, int first, int count) {
    unpack_panel<F>(panels + j * bytes, k, first, count, unpacked[j]);
    return unpacked[j].groups();
  });
}

template <TensorFormat F>
void quantized_product(const void* rows, int64_t row_bytes, int m, const void* panels_, int k, int npanels, float* c,
                       int64_t ldc, bool accumulate) {
  const ActivationGroup* const a = (const ActivationGroup*)rows;
  const int64_t lda = row_bytes / int64_t(sizeof(ActivationGroup));
  const uint8_t* panels = (const uint8_t*)panels_;
  const int64_t bytes = quantized_panel_bytes(F, k);
  // Few rows wait for memory: one panel after the other is one stream. More rows share what is unpacked.
  constexpr int packed_up_to = kPackedUpTo<F>;
  if constexpr (packed_up_to > 0)
    for (; m <= packed_up_to && npanels > 0; npanels--, panels += bytes, c += kLanes)
      multiply_packed_panel<F>(a, lda, m, panels, k, c, ldc, accumulate);
  while (npanels > 0) {
    if (m > 2 && npanels >= kCodePanels) {
      multiply_quantized_panels<F, kCodePanels>(a, lda, m, panels, k, c, ldc, accumulate);
      npanels -= kCodePanels, panels += kCodePanels * bytes, c += kCodePanels * kLanes;
    } else {
      multiply_quantized_panels<F, 1>(a, lda, m, panels, k, c, ldc, accumulate);
      npanels--, panels += bytes, c += kLanes;
    }
  }
}

// Activations [rows][k] to groups, rows of which are ld bytes apart. What a last group lacks counts as zeros.
template <class T> void quantize_rows(const void* src, int64_t lds, int rows, int k, void* groups, int64_t ld) {
  for (int r = 0; r < rows; r++) {
    const T* from = (const T*)src + r * lds;
    ActivationGroup* to = (ActivationGroup*)((char*)groups + r * ld);
    for (int left = k; left > 0; left -= kGroup, from += kGroup, to++) {
      F32x16 x[2];
      CodeRange range;
      for (int h = 0; h < 2; h++) {
        const int count = left - h * kLanes;
        x[h] = count >= kLanes ? load(from + h * kLanes) : count > 0 ? load(from + h * kLanes, Part{count}) : zero();
        range.add(x[h]);
      }
      const CodeScale scale(range);
      for (int h = 0; h < 2; h++) {
        x[h] = scale.shifted(x[h]);
        store_bytes(to->codes + h * kLanes, as_int(x[h]));
      }
      to->scale = scale.scale;
      to->sum = to->scale * float(put_sums(*to, x[0], x[1]));
    }
  }
}

}  // namespace
}  // namespace anneal::cpu
