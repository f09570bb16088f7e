// Quantised weights transposed, for the gradients of what they are multiplied with: W^T as codes of 8 bits with a scale
// for every 32 outputs n of each k, whatever the format, so that backward multiplies codes as forward does. A value is
// rounded to the nearest code; its scale is the absolute maximum / 127.
//
// A panel: for every 32 n [8 quads][16 k][4 n] bytes, unsigned (code + 128), then for every 32 n [16 k] scales.
#pragma once
#include "code_products.h"

namespace anneal::cpu {
namespace {

ANNEAL_INLINE CodePanel back_panel(const uint8_t* panel, int n, int group) {
  const float* const scales = (const float*)(panel + back_groups(n) * kBackCodeBytes);
  return {panel + group * kBackCodeBytes, scales + int64_t(group) * kLanes, nullptr, nullptr};
}

template <int NR>
void multiply_back_panels(const ActivationGroup* a, int64_t lda, int m, const uint8_t* panels, int n, float* c,
                          int64_t ldc, bool accumulate) {
  const int64_t bytes = back_panel_bytes(n);
  multiply_code_panels<TensorFormat::q8_0, NR>(
      a, lda, m, back_groups(n), c, ldc, accumulate, {},
      [&](int j, int group, int) { return back_panel(panels + j * bytes, n, group); });
}

// c (+)= codes of gradients by panels of W^T over n outputs.
inline void back_product(const void* rows, int64_t row_bytes, int m, const void* panels_, int n, int npanels, float* c,
                         int64_t ldc, bool accumulate) {
  const ActivationGroup* const a = (const ActivationGroup*)rows;
  const int64_t lda = row_bytes / int64_t(sizeof(ActivationGroup)), bytes = back_panel_bytes(n);
  const uint8_t* panels = (const uint8_t*)panels_;
  const auto take = [&]<int NR>() {
    multiply_back_panels<NR>(a, lda, m, panels, n, c, ldc, accumulate);
    npanels -= NR, panels += NR * bytes, c += NR * kLanes;
  };
  // Columns come in pairs of panels: where these go in threes, two are left, or four.
  constexpr int pair = kCodePanels == 3 ? 2 : kCodePanels;
  while (npanels > 0)
    if (npanels == pair || npanels == 2 * pair)
      take.template operator()<pair>();
    else if (npanels >= kCodePanels)
      take.template operator()<kCodePanels>();
    else
      take.template operator()<1>();
}

// f(n, values of W^T [16 k]) for 16 outputs n and the 16 k from `half` of group g on.
template <TensorFormat F, class Use>
ANNEAL_INLINE void each_transposed(const UnpackedPanel& from, int g, int half, Use&& use) {
  constexpr QuantizedFormat f = quantized_format(F);
  constexpr int parts = group_scales(f);
  alignas(64) uint8_t rows[kLanes * kLanes];
  transpose_quads(from.codes + (g * kQuads + half * kQuads / 2) * kQuadBytes, rows);
  const float* const scales = from.scales + (g * parts + (parts == 2 ? half : 0)) * kLanes;
#pragma GCC unroll 16
  for (int n = 0; n < kLanes; n++) {
    const float zero_point = f.zero == kOwnZeros ? from.zeros[g * kLanes + n] : float(f.zero);
    F32x16 value = (to_float(load_bytes(rows + quad_row(n))) - all(zero_point)) * all(scales[n]);
    if constexpr (f.minima) value = value + all(from.minima[g * kLanes + n]);
    use(n, value);
  }
}

// NaN in the lanes of outputs whose scales are no numbers, else 0.
template <TensorFormat F> ANNEAL_INLINE F32x16 not_finite(const UnpackedPanel& from, int g, int half) {
  constexpr QuantizedFormat f = quantized_format(F);
  constexpr int parts = group_scales(f);
  const F32x16 scale = load(from.scales + (g * parts + (parts == 2 ? half : 0)) * kLanes);
  F32x16 wrong = scale - scale;
  if constexpr (f.minima) wrong = wrong + (load(from.minima + g * kLanes) - load(from.minima + g * kLanes));
  return wrong;
}

// Codes [8 quads][16 k][4 n] and scales [16 k] of values [32 n][16 k]. `wrong`: NaN where one of their scales is none.
ANNEAL_INLINE void put_back_group(const float* values, float wrong, uint8_t* codes, float* scales) {
  F32x16 most = zero();
#pragma GCC unroll 8
  for (int n = 0; n < kGroup; n++) most = max(most, as_float(as_int(load(values + n * kLanes)) & all_int(0x7fffffff)));
  // Below this the reciprocal would overflow.
  const Mask16 none = less(most, all(1e-35f));
  store(scales, select(none, zero(), most / all(127)) + all(wrong));
  const F32x16 inverse = select(none, zero(), all(127) / most);
  // What a number has above its code, in all four of a quad.
  constexpr uint32_t kAbove = 0x4b400000u;
  const I32x16 above = all_int(int(0u - kAbove * 0x01010101u));
#pragma GCC unroll 2
  for (int quad = 0; quad < kQuads; quad++) {
    I32x16 code[4];
#pragma GCC unroll 4
    for (int i = 0; i < 4; i++)
      code[i] = as_int(fma(load(values + (quad * 4 + i) * kLanes), inverse, all(CodeScale::kToNearest + 128)));
    store_int(codes + quad * kQuadBytes,
              code[0] + shift_left<8>(code[1]) + (shift_left<16>(code[2]) + shift_left<24>(code[3])) + above);
  }
}

// Panels of W^T: outputs col0 .. col0 + cols and reduction n0 .. n0 + rows, as transpose_panels has them.
template <TensorFormat F>
void transpose_codes(const void* panels, int k, int col0, int cols, int n0, int rows, void* out) {
  const int64_t bytes = quantized_panel_bytes(F, k), back = back_panel_bytes(rows);
  UnpackedPanel unpacked[2];
  alignas(64) float values[kGroup * kLanes];
  for (int c0 = col0, stop; c0 < col0 + cols; c0 = stop) {
    const int first = c0 / kGroup, groups = unpacked_together(first, (col0 + cols + kGroup - 1) / kGroup);
    stop = (first + groups) * kGroup < col0 + cols ? (first + groups) * kGroup : col0 + cols;
    for (int g = 0; g < back_groups(rows); g++) {
      const int halves = rows - g * kGroup > kLanes ? 2 : 1;
      const uint8_t* const two = (const uint8_t*)panels + (n0 + g * kGroup) / kLanes * bytes;
      for (int h = 0; h < halves; h++) unpack_panel<F>(two + h * bytes, k, first, groups, unpacked[h]);
      // Those of the next two, evenly.
      PanelFetch fetch = PanelFetch::whole(two + 2 * bytes, bytes).part(first, groups, k / kGroup);
      const int lines = fetch.lines((stop - c0 + kLanes - 1) / kLanes);
      for (int c = c0; c < stop; c += kLanes) {
        fetch.next<2>(lines);
        const int from = c / kGroup - first, half = c / kLanes % 2;
        F32x16 wrong = zero();
        for (int h = 0; h < 2; h++) {
          float* const to = values + h * kLanes * kLanes;
          if (h == halves) {
            zero_fill(to, 0, kLanes * kLanes);
            continue;
          }
          each_transposed<F>(unpacked[h], from, half, [&](int n, F32x16 value) { store(to + n * kLanes, value); });
          wrong = wrong + not_finite<F>(unpacked[h], from, half);
        }
        uint8_t* const panel = (uint8_t*)out + (c - col0) / kLanes * back;
        put_back_group(values, sum_lanes(wrong), panel + g * kBackCodeBytes,
                       (float*)(panel + back_groups(rows) * kBackCodeBytes) + int64_t(g) * kLanes);
      }
    }
  }
}

}  // namespace
}  // namespace anneal::cpu
