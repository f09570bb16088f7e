// Products with weights of 16 bits (INT16_64), which instructions multiply two at a time. Activations are rounded to
// codes of 13 bits, by the absolute maximum of every 64 k of a row. Then, for every 64 k, ascending:
//
//   c = fma(float(sum of products of codes), x_scale * w_scale, c)
//
// The sums are exact integers below 2^31, which are rounded once, so every instruction set, row count and split gives
// the same bits. Of bfloat16 weights nothing is lost but of those below 1/32 of the largest of their 64; of activations
// less than bfloat16 loses.
//
// A panel: for every pair of k [16 outputs][2 k] words, then for every 64 k the exponents of scales [16 outputs] bytes.
#pragma once
#include "codes.h"
#include "quantized_panel.h"

namespace anneal::cpu {
namespace {

constexpr TensorFormat kWide = TensorFormat::int16_64;
constexpr int kWidePairs = kWideGroup / 2, kPairBytes = 4 * kLanes;  // of a group; of 16 outputs
constexpr int64_t kWideGroupBytes = int64_t(kWidePairs) * kPairBytes;
static_assert(int64_t(kWideGroup) * kMostWideCode * quantization::kMostWord < INT32_MAX);

// Groups of k for which panels stay in the second-level cache while rows are multiplied; and rows that go through one
// panel after the other, as it lies, since they wait for memory.
constexpr int kWideBlockGroups = 16, kFewWideRows = 2;

ANNEAL_INLINE F32x16 wide_scales(const uint8_t* exponents) { return as_float(shift_left<23>(load_bytes(exponents))); }

// What is fetched while panels are multiplied: for each of them, `step` bytes further per pair of k. Of rows that go
// two by two every fourth pair fetches a line, which is a quarter in all.
constexpr int kPairsOfTwo = 4;
struct WideFetch {
  const char* at;
  int64_t step;
};

// Whether a tile is rows that go two by two over panels.
template <int MR, int NR> constexpr bool kByTwo = MR == 2 && NR > 1 && kWordsByTwo > 0;

// exact [MR][NR * 16] = the sums of one group of 64 k. A function of its own, so that g++ keeps all sums in registers.
template <int MR, int NR>
__attribute__((noinline)) void sum_words(const char* a, int64_t lda, const uint8_t* w, int64_t panel, int32_t* exact,
                                         WideFetch fetch) {
  // From two bases: see ActivationRows.
  const char *upper = a, *lower = MR > 4 ? a + 4 * lda : a;
  asm("" : "+r"(lower));
  I32x16 sums[MR][NR];
#pragma GCC unroll 16
  for (int i = 0; i < MR; i++)
#pragma GCC unroll 8
    for (int j = 0; j < NR; j++) sums[i][j] = all_int(0);
#pragma GCC unroll 1
  for (int pair = 0; pair < kWidePairs; pair++, w += kPairBytes, upper += 4, lower += 4) {
    const auto row = [&](int i) {
      int two;
      __builtin_memcpy(&two, i < 4 ? upper + i * lda : lower + (i - 4) * lda, 4);
      return all_int(two);
    };
    if constexpr (kByTwo<MR, NR>) {
      if (pair % kPairsOfTwo == 0)
#pragma GCC unroll 8
        for (int j = 0; j < NR; j++) prefetch(fetch.at + pair * fetch.step + j * panel);
      const I32x16 x[2] = {row(0), row(1)};
#pragma GCC unroll 8
      for (int j = 0; j < NR; j++) {
        const I32x16 words = load_int(w + j * panel);
        for (int i = 0; i < 2; i++) add_products(sums[i][j], words, x[i]);
      }
    } else {
      I32x16 words[NR];
#pragma GCC unroll 8
      for (int j = 0; j < NR; j++) {
        words[j] = load_int(w + j * panel);
        prefetch(fetch.at + j * panel);
      }
      fetch.at += fetch.step;
#pragma GCC unroll 16
      for (int i = 0; i < MR; i++) {
        const I32x16 x = row(i);
#pragma GCC unroll 8
        for (int j = 0; j < NR; j++) add_products(sums[i][j], words[j], x);
      }
    }
  }
#pragma GCC unroll 16
  for (int i = 0; i < MR; i++)
#pragma GCC unroll 8
    for (int j = 0; j < NR; j++) store_int(exact + (i * NR + j) * kLanes, sums[i][j]);
}

// totals [MR][NR * 16] += those sums times the scales of rows, in their groups at `a`, and of panels.
template <int MR, int NR>
__attribute__((noinline)) void add_words(const char* a, int64_t lda, const uint8_t* exponents, int64_t panel,
                                         const int32_t* exact, float* totals) {
  F32x16 scales[NR];
#pragma GCC unroll 8
  for (int j = 0; j < NR; j++) scales[j] = wide_scales(exponents + j * panel);
  a += sizeof(WideActivationGroup::codes);
#pragma GCC unroll 1
  for (int i = 0; i < MR; i++, a += lda) {
    float scale;
    __builtin_memcpy(&scale, a, 4);
#pragma GCC unroll 8
    for (int j = 0; j < NR; j++, exact += kLanes, totals += kLanes)
      store(totals, fma(to_float(load_int(exact)), all(scale) * scales[j], load(totals)));
  }
}

// c [MR][NR * 16] (+)= rows by so many groups of NR panels, `panel` bytes apart, whose exponents are at `exponents`.
template <int MR, int NR>
void multiply_words(const char* a, int64_t lda, const uint8_t* w, const uint8_t* exponents, int64_t panel, int groups,
                    float* c, int64_t ldc, bool accumulate, WideFetch fetch) {
  // Rows of c may be so far apart that a cache keeps few of them.
  alignas(64) float totals[MR * NR * kLanes];
  alignas(64) int32_t exact[MR * NR * kLanes];
  for (int i = 0; i < MR * NR; i++)
    store(totals + i * kLanes, accumulate ? load(c + i / NR * ldc + i % NR * kLanes) : zero());
  for (int g = 0; g < groups; g++) {
    sum_words<MR, NR>(a, lda, w, panel, exact, fetch);
    add_words<MR, NR>(a, lda, exponents, panel, exact, totals);
    a += sizeof(WideActivationGroup), w += kWideGroupBytes, exponents += kLanes;
    fetch.at += kWidePairs * fetch.step;
  }
  for (int i = 0; i < MR * NR; i++) store(c + i / NR * ldc + i % NR * kLanes, load(totals + i * kLanes));
}

template <int MR, int NR>
ANNEAL_INLINE void multiply_word_rows(int rows, const char* a, int64_t lda, const uint8_t* w, const uint8_t* exponents,
                                      int64_t panel, int groups, float* c, int64_t ldc, bool accumulate,
                                      WideFetch fetch) {
  if (rows == MR) return multiply_words<MR, NR>(a, lda, w, exponents, panel, groups, c, ldc, accumulate, fetch);
  if constexpr (MR > 1)
    multiply_word_rows<MR - 1, NR>(rows, a, lda, w, exponents, panel, groups, c, ldc, accumulate, fetch);
}

// All rows by npanels panels, in tiles of `most` by NR, a block of k after the other.
template <int NR, int most = kWordRows>
void multiply_wide_panels(const char* a, int64_t lda, int m, const uint8_t* w, int64_t panel, int k, int npanels,
                          float* c, int64_t ldc, bool accumulate) {
  const int by_two = NR == 1 && npanels > 1 ? rows_by_two(m, most, kWordsByTwo) : 0, tall = m - by_two;
  const int groups = k / kWideGroup, tiles = (tall + most - 1) / most, block = m <= most ? groups : kWideBlockGroups;
  const uint8_t* const exponents = w + groups * kWideGroupBytes;
  for (int g = 0; g < groups; g += block) {
    const int count = groups - g < block ? groups - g : block;
    const char* const rows = a + g * int64_t(sizeof(WideActivationGroup));
    const uint8_t *const from = w + g * kWideGroupBytes, *const scales = exponents + g * kLanes;
    const bool add = accumulate || g > 0;
    // Each tile fetches its share of the block that follows, which the next panels' first is after the last.
    const char* const next = (const char*)from + (m <= kFewWideRows    ? kStreamAhead
                                                  : g + block < groups ? block * kWideGroupBytes
                                                                       : npanels * panel - g * kWideGroupBytes);
    const int share = kPairBytes * (8 - by_two) / 8;
    const int64_t step = share / (tiles < share ? tiles : share);
    for (int p = 0; p < npanels; p += NR) {
      WideFetch fetch{next + p * panel, step};
      for (int row = 0; row < tall; row += most, fetch.at += step * kWidePairs * count)
        multiply_word_rows<most, NR>(tall - row < most ? tall - row : most, rows + row * lda, lda, from + p * panel,
                                     scales + p * panel, panel, count, c + row * ldc + p * kLanes, ldc, add, fetch);
    }
    WideFetch fetch{next + kWideGroupBytes * count * (8 - by_two) / 8, kPairBytes / kPairsOfTwo};
    if constexpr (NR == 1 && kWordsByTwo > 0)
      for (int row = tall; row < m; row += 2, fetch.at += fetch.step * kWidePairs * count) {
        const auto two_by = [&]<int panels>() {
          multiply_words<2, panels>(rows + row * lda, lda, from, scales, panel, count, c + row * ldc, ldc, add, fetch);
        };
        if (npanels == kPanelsOfTwo)
          two_by.template operator()<kPanelsOfTwo>();
        else
          two_by.template operator()<2>();
      }
  }
}

inline void wide_product(const void* a, int64_t lda, int m, const void* panels, int k, int npanels, float* c,
                         int64_t ldc, bool accumulate) {
  const int64_t panel = quantized_panel_bytes(kWide, k);
  const uint8_t* w = (const uint8_t*)panels;
  const auto take = [&]<int NR, int most = kWordRows>(int count) {
    multiply_wide_panels<NR, most>((const char*)a, lda, m, w, panel, k, count, c, ldc, accumulate);
    npanels -= count, w += count * panel, c += count * kLanes;
  };
  constexpr bool has_tall = kTallWordRows > 0;
  while (npanels > 0 && m > 0)
    if (m > kWordRows && m <= kTallWordRows && npanels >= 2)
      take.template operator()<has_tall ? 2 : 1, has_tall ? kTallWordRows : kWordRows>(2);
    else if (kWordPanels > 1 && m > kFewWideRows && npanels >= kWordPanels)
      take.template operator()<kWordPanels>(kWordPanels);
    else
      take.template operator()<1>(rows_by_two(m, kWordRows, kWordsByTwo) == 0 ? 1
                                  : npanels < kPanelsOfTwo                    ? npanels
                                                                              : kPanelsOfTwo);
}

ANNEAL_INLINE void store_codes(int16_t* to, I32x16 x) { store_words((bf16*)to, x & all_int(0xffff)); }

template <class T> void quantize_wide_rows(const void* src, int64_t lds, int rows, int k, void* groups, int64_t ld) {
  constexpr int vectors = kWideGroup / kLanes;
  for (int r = 0; r < rows; r++) {
    const T* from = (const T*)src + r * lds;
    WideActivationGroup* to = (WideActivationGroup*)((char*)groups + r * ld);
    for (int left = k; left > 0; left -= kWideGroup, from += kWideGroup, to++) {
      F32x16 x[vectors];
      CodeRange range;
#pragma GCC unroll 4
      for (int v = 0; v < vectors; v++) {
        const int count = left - v * kLanes;
        x[v] = count >= kLanes ? load(from + v * kLanes) : count > 0 ? load(from + v * kLanes, Part{count}) : zero();
        range.add(x[v]);
      }
      const CodeScale scale(range, float(kMostWideCode));
#pragma GCC unroll 4
      for (int v = 0; v < vectors; v++) store_codes(to->codes + v * kLanes, as_int(scale.shifted(x[v])));
      to->scale = scale.scale;
    }
  }
}

// Words of 16 outputs n by 2^(exponent - shared), as scale_words takes that: pairs of the same factor.
inline void wide_factors(const uint8_t* exponents, int shared, uint32_t* factors) {
  for (int lane = 0; lane < kLanes; lane++) {
    const int shift = shared - exponents[lane];
    factors[lane] = shift > 14 ? 0 : 0x10001u << (14 - shift);
  }
}

// Panels of W^T, whose reduction n is filled up with zeros to a whole group.
inline void transpose_wide(const void* panels, int k, int col0, int cols, int n0, int rows, void* out) {
  const int groups = (rows + kWideGroup - 1) / kWideGroup;
  const int64_t panel = quantized_panel_bytes(kWide, k), out_panel = quantized_panel_bytes(kWide, groups * kWideGroup);
  const uint8_t* const first = (const uint8_t*)panels + n0 / kLanes * panel;
  uint8_t* const to = (uint8_t*)out;
  for (int c0 = col0, stop; c0 < col0 + cols; c0 = stop) {
    const int k_group = c0 / kWideGroup, end = (k_group + 1) * kWideGroup;
    stop = end < col0 + cols ? end : col0 + cols;
    const int64_t exponents = int64_t(k / kWideGroup) * kWideGroupBytes + k_group * kLanes;
    for (int g = 0; g < groups; g++) {
      const int count = (rows - g * kWideGroup + kLanes - 1) / kLanes;
      const uint8_t* const w = first + g * (kWideGroup / kLanes) * panel;
      int shared = 0;
      for (int q = 0; q < kWideGroup / kLanes && q < count; q++)
        for (int lane = 0; lane < kLanes; lane++) {
          const int exponent = w[q * panel + exponents + lane];
          shared = exponent > shared ? exponent : shared;
        }
      for (int c = c0; c < stop; c += kLanes)
        __builtin_memset(to + (c - col0) / kLanes * out_panel + groups * kWideGroupBytes + g * kLanes, shared, kLanes);
      for (int q = 0; q < kWideGroup / kLanes; q++) {
        alignas(64) uint32_t lanes[kLanes] = {};
        if (q < count) wide_factors(w + q * panel + exponents, shared, lanes);
        const I32x16 factors = load_int(lanes);
        for (int c = c0; c < stop; c += kLanes) {
          I32x16 v[kLanes / 2];
          const uint8_t* const from = w + q * panel + int64_t(c / 2) * kPairBytes;
#pragma GCC unroll 8
          for (int i = 0; i < kLanes / 2; i++) {
            v[i] = q < count ? scale_words(load_int(from + i * kPairBytes), factors) : all_int(0);
            prefetch(from + i * kPairBytes + kTransposeAhead * panel);
          }
          transpose_pairs(v);
          uint8_t* const at =
              to + (c - col0) / kLanes * out_panel + (int64_t(g) * kWideGroup + q * kLanes) / 2 * kPairBytes;
#pragma GCC unroll 8
          for (int i = 0; i < kLanes / 2; i++) store_int(at + i * kPairBytes, v[i]);
        }
      }
    }
  }
}

// c (+)= codes of gradients by panels of W^T over n outputs.
inline void wide_back_product(const void* a, int64_t lda, int m, const void* panels, int n, int npanels, float* c,
                              int64_t ldc, bool accumulate) {
  wide_product(a, lda, m, panels, (n + kWideGroup - 1) / kWideGroup * kWideGroup, npanels, c, ldc, accumulate);
}

// body(k from the first of these groups of 32 on, values [4 k][16 outputs]).
template <class Body>
ANNEAL_INLINE void each_wide_quad(const uint8_t* panel, int k, int first, int groups, Body&& body) {
  const uint8_t* const exponents = panel + k / kWideGroup * kWideGroupBytes;
  for (int at = 0; at < groups * kGroup; at += 4) {
    const int from = first * kGroup + at;
    const F32x16 scale = wide_scales(exponents + from / kWideGroup * kLanes);
    F32x16 values[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++) {
      const I32x16 pair = load_int(panel + int64_t(from / 2 + i / 2) * kPairBytes),
                   word = i % 2 ? shift_right<16>(pair) : pair & all_int(0xffff);
      // Sign-extended from 16 bits.
      values[i] = to_float((word ^ all_int(0x8000)) + all_int(-0x8000)) * scale;
    }
    body(at, values);
  }
}

inline void embed_wide(const void* panels, int k, int id, float* out) {
  const uint8_t* const panel = (const uint8_t*)panels + id / kLanes * quantized_panel_bytes(kWide, k);
  const int lane = id % kLanes;
  for (int i = 0; i < k; i++) {
    int16_t code;
    __builtin_memcpy(&code, panel + int64_t(i / 2) * kPairBytes + lane * 4 + i % 2 * 2, 2);
    const uint8_t exponent = panel[k / kWideGroup * kWideGroupBytes + i / kWideGroup * kLanes + lane];
    float scale;
    const uint32_t bits = uint32_t(exponent) << 23;
    __builtin_memcpy(&scale, &bits, 4);
    out[i] = float(code) * scale;
  }
}

}  // namespace
}  // namespace anneal::cpu
