// The integer sums that products of codes are made of: where they begin, how they add up, and what becomes of them.
#pragma once
#include "kernels.h"
#include "quantized_panel.h"

namespace anneal::cpu {
namespace {

// Quads of a group whose products with activations add up in words, where an instruction set has these.
constexpr int word_quads(const QuantizedFormat& f) {
#ifdef ANNEAL_WORD_SUMS
  if (f.bits < 8) return f.bits == 6 ? 2 : 4;
#endif
  return 1;
}
static_assert(4 * 2 * 31 * 127 < 1 << 15 && 2 * 2 * 63 * 127 < 1 << 15);

// Where the sum of a row's products begins, of all codes of a group or of one half: zero points less.
template <TensorFormat F> ANNEAL_INLINE I32x16 first_sum(const ActivationGroup& a, int part) {
  constexpr QuantizedFormat f = quantized_format(F);
  constexpr int zero_point = f.bits == 8 ? kByteOffset : f.zero == kOwnZeros ? 0 : f.zero;
  return zero_point ? all_int(-zero_point * (group_scales(f) == 2 ? a.sums[part] : a.sums[0] + a.sums[1])) : all_int(0);
}
#ifndef ANNEAL_CODE_QUADS
// It and the products of a quad, after `before` others. Words are sums of several quads until they are added to it.
template <TensorFormat F> ANNEAL_INLINE void add_quad(I32x16& sum, I32x16& words, int before, I32x16 codes, I32x16 x) {
  constexpr QuantizedFormat f = quantized_format(F);
#ifdef ANNEAL_WORD_SUMS
  if constexpr (constexpr int together = word_quads(f); together > 1) {
    const I32x16 two = code_words(codes, x);
    words = before % together ? add_words(words, two) : two;
    if (before % together == together - 1) sum = add_pairs(sum, words);
    return;
  }
#endif
  if constexpr (f.bits == 8)
    sum = dot_bytes(sum, codes, x);
  else
    sum = dot_codes(sum, codes, x);
}
#endif
// And what becomes of it: c + it, scaled.
template <TensorFormat F>
ANNEAL_INLINE F32x16 add_sum(F32x16 c, I32x16 sum, const ActivationGroup& a, F32x16 scale, F32x16 zeros) {
  constexpr QuantizedFormat f = quantized_format(F);
  F32x16 exact = to_float(sum);
  // Sums of bytes are those of codes less 128.
  if constexpr (f.zero == kOwnZeros)
    exact = fma(all(float(a.sums[0] + a.sums[1])), all(f.bits == 8 ? 128.0f : 0.0f) - zeros, exact);
  return fma(exact, all(a.scale) * scale, c);
}

}  // namespace
}  // namespace anneal::cpu
