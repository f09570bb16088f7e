// The kernels of every quantised format; and weights as numbers again, where activations are multiplied as they are.
#pragma once
#include <utility>

#include "code_products.h"
#include "transposed_codes.h"
#include "wide_products.h"

namespace anneal::cpu {
namespace {

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
    for (int g = 0, count; g < groups; g += count) {
      count = unpacked_together(first + g, first + groups);
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
ANNEAL_INLINE void transpose_values(const UnpackedPanel& from, int g, int half, int n_left, T* to) {
  F32x16 even;
  each_transposed<F>(from, g, half, [&](int n, F32x16 value) {
    if (n / kStep<T> * kStep<T> >= n_left) return;
    if constexpr (kStep<T> == 1)
      store(to + n * kLanes, value);
    else if (n % 2 == 0)
      even = value;
    else
      store_int(to + (n - 1) * kLanes, round_pairs(even, value));
  });
}

// As transpose_panels, of weights dequantised on the way.
template <TensorFormat F, class T>
void transpose_quantized(const void* panels, int k, int col0, int cols, int n0, int rows, void* out) {
  const int64_t bytes = quantized_panel_bytes(F, k);
  UnpackedPanel unpacked;
  for (int c0 = col0, stop; c0 < col0 + cols; c0 = stop) {
    const int first = c0 / kGroup, groups = unpacked_together(first, (col0 + cols + kGroup - 1) / kGroup);
    stop = (first + groups) * kGroup < col0 + cols ? (first + groups) * kGroup : col0 + cols;
    for (int r = 0; r < rows; r += kLanes) {
      const uint8_t* const panel = (const uint8_t*)panels + (n0 + r) / kLanes * bytes;
      unpack_panel<F>(panel, k, first, groups, unpacked);
      PanelFetch fetch = PanelFetch::whole(panel + 2 * bytes, bytes).part(first, groups, k / kGroup);
      const int lines = fetch.lines((stop - c0 + kLanes - 1) / kLanes);
      for (int c = c0; c < stop; c += kLanes) {
        fetch.next<1>(lines);
        transpose_values<F>(unpacked, c / kGroup - first, c / kLanes % 2, rows - r,
                            (T*)out + (c - col0) / kLanes * panel_size<T>(rows) + int64_t(r) * kLanes);
      }
    }
  }
}

template <TensorFormat F> void embed_quantized(const void* panels, int k, int id, float* out) {
  constexpr QuantizedFormat f = quantized_format(F);
  constexpr int parts = group_scales(f);
  const uint8_t* panel = (const uint8_t*)panels + id / kLanes * quantized_panel_bytes(F, k);
  const int lane = id % kLanes, groups = k / kGroup;
  UnpackedPanel unpacked;
  for (int g0 = 0, count; g0 < groups; g0 += count) {
    count = unpacked_together(g0, groups);
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
  QuantizedKernels k{};
  k.dequantized_product = dequantized_product<F, T>;
  if constexpr (model::is_wide(F)) {
    k.quantize_rows = quantize_wide_rows<T>;
    k.product = wide_product;
    k.transpose_codes = transpose_wide;
    k.back_product = wide_back_product;
    k.embed = embed_wide;
  } else {
    k.quantize_rows = quantize_rows<T>;
    k.product = quantized_product<F>;
    k.transpose_panels = transpose_quantized<F, T>;
    k.transpose_codes = transpose_codes<F>;
    k.back_product = back_product;
    k.embed = embed_quantized<F>;
  }
  return k;
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
