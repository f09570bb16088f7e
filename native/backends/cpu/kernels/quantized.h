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
#include <utility>

#include "codes.h"
#include "gemm.h"
#include "quantized_panel.h"
#include "wide_products.h"

namespace anneal::cpu {
namespace {

// The first format that is multiplied alike once it is unpacked: one instance for all of them.
constexpr TensorFormat multiplied_as(TensorFormat format) {
  const QuantizedFormat& f = quantized_format(format);
  for (const QuantizedFormat& other : model::kQuantizedFormats)
    if ((other.bits == 8) == (f.bits == 8) && group_scales(other) == group_scales(f) && other.zero == f.zero &&
        other.minima == f.minima)
      return other.format;
  return format;
}

// c[MR][NR * 16] += rows of `a` by the unpacked groups.
template <TensorFormat F, int MR, int NR>
void multiply_codes(const ActivationGroup* a, int64_t lda, const UnpackedPanel* w, int groups, float* c, int64_t ldc) {
  constexpr QuantizedFormat f = quantized_format(F);
  constexpr int parts = group_scales(f), quads = kQuads / parts;
  constexpr bool byte_codes = f.bits == 8, own_zeros = f.zero == kOwnZeros;
  constexpr int zero_point = byte_codes ? kByteOffset : own_zeros ? 0 : f.zero;
  // Chains of integer sums that do not wait for each other; how they are added changes nothing.
  constexpr int chains = code_chains(MR * NR);
  Tile<MR, NR> tile;
  tile.begin(c, ldc, true);
  for (int g = 0; g < groups; g++) {
#pragma GCC unroll 2
    for (int part = 0; part < parts; part++) {
      I32x16 sums[MR][NR][chains];
#pragma GCC unroll 16
      for (int i = 0; i < MR; i++) {
        const int32_t* s = a[i * lda + g].sums;
        const I32x16 start = zero_point ? all_int(-zero_point * (parts == 2 ? s[part] : s[0] + s[1])) : all_int(0);
#pragma GCC unroll 8
        for (int j = 0; j < NR; j++)
#pragma GCC unroll 4
          for (int q = 0; q < chains; q++) sums[i][j][q] = q ? all_int(0) : start;
      }
#pragma GCC unroll 8
      for (int q = 0; q < quads; q++) {
        const int quad = part * quads + q;
        I32x16 codes[NR];
#pragma GCC unroll 8
        for (int j = 0; j < NR; j++) codes[j] = load_int(w[j].codes + (g * kQuads + quad) * kQuadBytes);
#pragma GCC unroll 16
        for (int i = 0; i < MR; i++) {
          int four;
          __builtin_memcpy(&four, a[i * lda + g].codes + 4 * quad, 4);
          const I32x16 x = all_int(four);
#pragma GCC unroll 8
          for (int j = 0; j < NR; j++) {
            I32x16& sum = sums[i][j][q % chains];
            if constexpr (byte_codes)
              sum = dot_bytes(sum, codes[j], x);
            else
              sum = dot_codes(sum, codes[j], x);
          }
        }
      }
#pragma GCC unroll 8
      for (int j = 0; j < NR; j++) {
        const F32x16 scale = load(w[j].scales + (g * parts + part) * kLanes);
#pragma GCC unroll 16
        for (int i = 0; i < MR; i++) {
          I32x16 sum = sums[i][j][0];
#pragma GCC unroll 4
          for (int q = 1; q < chains; q++) sum = sum + sums[i][j][q];
          F32x16 exact = to_float(sum);
          if constexpr (own_zeros) {
            // Sums of bytes are those of codes less 128.
            const F32x16 rest = all(byte_codes ? 128.0f : 0.0f) - load(w[j].zeros + g * kLanes);
            exact = fma(all(float(a[i * lda + g].sums[0] + a[i * lda + g].sums[1])), rest, exact);
          }
          tile.c[i][j] = fma(exact, all(a[i * lda + g].scale) * scale, tile.c[i][j]);
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

template <TensorFormat F, int MR, int NR>
ANNEAL_INLINE void multiply_code_rows(int rows, const ActivationGroup* a, int64_t lda, const UnpackedPanel* w,
                                      int groups, float* c, int64_t ldc) {
  if (rows == MR) return multiply_codes<F, MR, NR>(a, lda, w, groups, c, ldc);
  if constexpr (MR > 1) multiply_code_rows<F, MR - 1, NR>(rows, a, lda, w, groups, c, ldc);
}

constexpr int kFewCodeRows = 16, kFewCodeGroups = 2;  // of 32 k

template <TensorFormat F, int NR>
void multiply_quantized_panels(const ActivationGroup* a, int64_t lda, int m, const uint8_t* panels, int k, float* c,
                               int64_t ldc) {
  const int64_t bytes = quantized_panel_bytes(F, k);
  const int groups = k / kGroup;
  // Few rows wait for memory, which must not wait for them: what is fetched ahead is asked for a little at a time.
  const int step = m <= kFewCodeRows ? kFewCodeGroups : kUnpackGroups;
  UnpackedPanel unpacked[NR];
  for (int g = 0; g < groups; g += step) {
    const int count = groups - g < step ? groups - g : step;
    for (int j = 0; j < NR; j++) unpack_panel<F>(panels + j * bytes, k, g, count, unpacked[j], NR * bytes);
    for (int row = 0; row < m; row += kCodeRows) {
      const int rows = m - row < kCodeRows ? m - row : kCodeRows;
      multiply_code_rows<multiplied_as(F), kCodeRows, NR>(rows, a + row * lda + g, lda, unpacked, count, c + row * ldc,
                                                          ldc);
    }
  }
}

template <TensorFormat F>
void quantized_product(const void* rows, int64_t row_bytes, int m, const void* panels_, int k, int npanels, float* c,
                       int64_t ldc, bool accumulate) {
  const ActivationGroup* const a = (const ActivationGroup*)rows;
  const int64_t lda = row_bytes / int64_t(sizeof(ActivationGroup));
  const uint8_t* panels = (const uint8_t*)panels_;
  const int64_t bytes = quantized_panel_bytes(F, k);
  if (!accumulate)
    for (int i = 0; i < m; i++) zero_fill(c + i * ldc, 0, int64_t(npanels) * kLanes);
  // Few rows wait for memory: one panel after the other is one stream. More rows share what is unpacked.
  while (npanels > 0) {
    if (m > 2 && npanels >= kCodePanels) {
      multiply_quantized_panels<F, kCodePanels>(a, lda, m, panels, k, c, ldc);
      npanels -= kCodePanels, panels += kCodePanels * bytes, c += kCodePanels * kLanes;
    } else {
      multiply_quantized_panels<F, 1>(a, lda, m, panels, k, c, ldc);
      npanels--, panels += bytes, c += kLanes;
    }
  }
}

// Activations [rows][k] to groups, rows of which are ld bytes apart.
template <class T> void quantize_rows(const void* src, int64_t lds, int rows, int k, void* groups, int64_t ld) {
  for (int r = 0; r < rows; r++) {
    const T* from = (const T*)src + r * lds;
    ActivationGroup* to = (ActivationGroup*)((char*)groups + r * ld);
    for (int g = 0; g < k / kGroup; g++, from += kGroup, to++) {
      const F32x16 x[2] = {load(from), load(from + kLanes)};
      CodeRange range;
      for (const F32x16& half : x) range.add(half);
      const CodeScale scale(range);
      for (int h = 0; h < 2; h++) {
        const F32x16 shifted = scale.shifted(x[h]);
        to->sums[h] = int32_t(sum_lanes(shifted - all(CodeScale::kToNearest)));
        store_bytes(to->codes + h * kLanes, as_int(shifted));
      }
      to->scale = scale.scale;
      to->sum = to->scale * float(to->sums[0] + to->sums[1]);
    }
  }
}

// Panels of T, of a stretch of k, from the unpacked groups of a panel: each value is rounded to float32 after the
// product with its scale and after the minimum is added, then to T.
template <TensorFormat F, class Body> ANNEAL_INLINE void each_quad(const UnpackedPanel& from, int groups, Body&& body) {
  constexpr QuantizedFormat f = quantized_format(F);
  constexpr int parts = group_scales(f);
  for (int g = 0; g < groups; g++) {
    F32x16 zero_point = all(float(f.zero));
    if constexpr (f.zero == kOwnZeros) zero_point = load(from.zeros + g * kLanes);
    for (int q = 0; q < kQuads; q++) {
      const F32x16 scale = load(from.scales + (g * parts + (parts == 2 ? q / 4 : 0)) * kLanes);
      I32x16 codes = load_int(from.codes + (g * kQuads + q) * kQuadBytes);
      F32x16 values[4];
#pragma GCC unroll 4
      for (int i = 0; i < 4; i++, codes = shift_right<8>(codes)) {
        values[i] = (to_float(codes & all_int(0xff)) - zero_point) * scale;
        if constexpr (f.minima) values[i] = values[i] + load(from.minima + g * kLanes);
      }
      body(g * kGroup + q * 4, values);
    }
  }
}
ANNEAL_INLINE void store_quad(const F32x16* values, float* to) {
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) store(to + i * kLanes, values[i]);
}
ANNEAL_INLINE void store_quad(const F32x16* values, bf16* to) {
#pragma GCC unroll 2
  for (int i = 0; i < 4; i += 2) store_int(to + i * kLanes, round_pairs(values[i], values[i + 1]));
}

// Of groups first .. first + groups - 1 of 32 k.
template <TensorFormat F, class T>
ANNEAL_INLINE void dequantize_panel(const uint8_t* panel, int k, int first, int groups, T* out) {
  if constexpr (model::is_wide(F)) {
    each_wide_quad(panel, k, first, groups,
                   [&](int at, const F32x16* values) { store_quad(values, out + int64_t(at) * kLanes); });
  } else {
    UnpackedPanel unpacked;
    for (int g = 0; g < groups; g += kUnpackGroups) {
      const int count = groups - g < kUnpackGroups ? groups - g : kUnpackGroups;
      unpack_panel<F>(panel, k, first + g, count, unpacked);
      T* to = out + int64_t(g) * kGroup * kLanes;
      each_quad<F>(unpacked, count,
                   [&](int at, const F32x16* values) { store_quad(values, to + int64_t(at) * kLanes); });
    }
  }
}

// The product with dequantised weights, activations as they are: the chain of gemm over weights of T.
template <TensorFormat F, class T>
void dequantized_product(const void* a_, int64_t lda, int m, const void* panels, int k, int npanels, float* c,
                         int64_t ldc, bool accumulate) {
  const T* a = (const T*)a_;
  const uint8_t* panel = (const uint8_t*)panels;
  constexpr int depth = kUnpackGroups * kGroup;
  alignas(64) T values[depth * kLanes];
  for (; npanels > 0; npanels--, panel += quantized_panel_bytes(F, k), c += kLanes)
    for (int k0 = 0; k0 < k; k0 += depth) {
      const int count = k - k0 < depth ? k - k0 : depth;
      dequantize_panel<F, T>(panel, k, k0 / kGroup, count / kGroup, values);
      multiply_block<T>(a + k0, lda, m, values, panel_size<T>(count), count, 1, c, ldc, accumulate || k0 > 0);
    }
}

// Of 16 outputs n and the 16 k from `half` of group g on: rows of W^T [16 n][16 k], pairs of n interleaved in bfloat16.
// `n_left` outputs are written. Each value is rounded as each_quad does it.
template <TensorFormat F, class T>
ANNEAL_INLINE void transpose_codes(const UnpackedPanel& from, int g, int half, int n_left, T* to) {
  constexpr QuantizedFormat f = quantized_format(F);
  constexpr int parts = group_scales(f);
  alignas(64) uint8_t rows[kLanes * kLanes];
  transpose_quads(from.codes + (g * kQuads + half * kQuads / 2) * kQuadBytes, rows);
  const float* scales = from.scales + (g * parts + (parts == 2 ? half : 0)) * kLanes;
  const auto row = [&](int n) {
    const float zero_point = f.zero == kOwnZeros ? from.zeros[g * kLanes + n] : float(f.zero);
    F32x16 value = (to_float(load_bytes(rows + quad_row(n))) - all(zero_point)) * all(scales[n]);
    if constexpr (f.minima) value = value + all(from.minima[g * kLanes + n]);
    return value;
  };
#pragma GCC unroll 16
  for (int n = 0; n < kLanes; n += kStep<T>) {
    if (n >= n_left) return;
    if constexpr (kStep<T> == 2)
      store_int(to + n * kLanes, round_pairs(row(n), row(n + 1)));
    else
      store(to + n * kLanes, row(n));
  }
}

// As transpose_panels, of weights dequantised on the way.
template <TensorFormat F, class T>
void transpose_quantized(const void* panels, int k, int col0, int cols, int n0, int rows, void* out) {
  const int64_t bytes = quantized_panel_bytes(F, k), ahead = kTransposeAhead * bytes;
  UnpackedPanel unpacked;
  for (int c0 = col0, stop; c0 < col0 + cols; c0 = stop) {
    const int first = c0 / kGroup, end = (col0 + cols + kGroup - 1) / kGroup,
              groups = end - first < kUnpackGroups ? end - first : kUnpackGroups;
    stop = (first + groups) * kGroup < col0 + cols ? (first + groups) * kGroup : col0 + cols;
    for (int r = 0; r < rows; r += kLanes) {
      unpack_panel<F>((const uint8_t*)panels + (n0 + r) / kLanes * bytes, k, first, groups, unpacked, ahead);
      for (int c = c0; c < stop; c += kLanes)
        transpose_codes<F>(unpacked, c / kGroup - first, c / kLanes % 2, rows - r,
                           (T*)out + (c - col0) / kLanes * panel_size<T>(rows) + int64_t(r) * kLanes);
    }
  }
}

template <TensorFormat F> void embed_quantized(const void* panels, int k, int id, float* out) {
  constexpr QuantizedFormat f = quantized_format(F);
  constexpr int parts = group_scales(f);
  const uint8_t* panel = (const uint8_t*)panels + id / kLanes * quantized_panel_bytes(F, k);
  const int lane = id % kLanes, groups = k / kGroup;
  UnpackedPanel unpacked;
  for (int g0 = 0; g0 < groups; g0 += kUnpackGroups) {
    const int count = groups - g0 < kUnpackGroups ? groups - g0 : kUnpackGroups;
    unpack_panel<F>(panel, k, g0, count, unpacked);
    for (int i = 0; i < count * kGroup; i++) {
      const int zero = f.zero == kOwnZeros ? int(unpacked.zeros[i / kGroup * kLanes + lane]) : f.zero,
                code = unpacked.codes[i / 4 * kQuadBytes + lane * 4 + i % 4] - zero;
      float value = float(code) * unpacked.scales[i / (kGroup / parts) * kLanes + lane];
      if constexpr (f.minima) value = value + unpacked.minima[i / kGroup * kLanes + lane];
      out[g0 * kGroup + i] = value;
    }
  }
}

template <TensorFormat F, class T> constexpr QuantizedKernels quantized_kernels() {
  if constexpr (model::is_wide(F))
    return {quantize_wide_rows<T>, wide_product, dequantized_product<F, T>, transpose_wide, embed_wide};
  else
    return {quantize_rows<T>, quantized_product<F>, dequantized_product<F, T>, transpose_quantized<F, T>,
            embed_quantized<F>};
}

template <class T, size_t... I> constexpr void add_quantized(QuantizedKernels* k, std::index_sequence<I...>) {
  ((k[I] = quantized_kernels<model::kQuantizedFormats[I].format, T>()), ...);
}
template <class T> constexpr void add_quantized(QuantizedKernels* k) {
  add_quantized<T>(k, std::make_index_sequence<kQuantizedCount>());
}

struct AllQuantized {
  QuantizedKernels of[kQuantizedCount];
};
template <class T> constexpr AllQuantized all_quantized() {
  AllQuantized all{};
  add_quantized<T>(all.of);
  return all;
}

}  // namespace
}  // namespace anneal::cpu
