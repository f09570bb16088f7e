// The integer sums that products of codes are made of: where they begin, how they add up, and what becomes of them.
#pragma once
#include <bit>

#include "codes.h"
#include "kernels.h"
#include "quantized_panel.h"

namespace anneal::cpu {
namespace {

typedef int32_t Four __attribute__((may_alias));
// Four codes of a row, in every lane.
ANNEAL_INLINE I32x16 four_codes(const ActivationGroup& a, int quad) { return all_int(((const Four*)a.codes)[quad]); }

#ifdef ANNEAL_WORD_SUMS
// Products of codes below 8 bits add up as two words in every lane: those of even pairs of k, and of odd ones. Words
// may wrap around: at the end they are below 2^15, since codes are less by so much in them. For the products of what
// they are less by, a row's sums of codes are two such words, too.
template <TensorFormat F> constexpr bool kWordSums = quantized_format(F).bits < 8;
constexpr int less_in_words(const QuantizedFormat& f) { return f.zero == kOwnZeros ? 0 : f.bits == 5 ? 16 : f.zero; }
static_assert([] {
  for (const QuantizedFormat& f : model::kQuantizedFormats) {
    const int most = f.looked_up ? 28 : (1 << f.bits) - 1, less = less_in_words(f);
    const int largest = most - less > less ? most - less : less;
    if (f.bits < 8 && kGroup / 2 / group_scales(f) * 127 * largest >= 1 << 15) return false;
  }
  return true;
}());
// Of all codes in a group.
ANNEAL_INLINE I32x16 sum_words(const ActivationGroup& a) { return add_words(all_int(a.sums[0]), all_int(a.sums[1])); }
ANNEAL_INLINE F32x16 codes_sum(const ActivationGroup& a) { return to_float(pairs_times(sum_words(a), 1)); }
// Puts the sums of codes, which are shifted as CodeScale has it, and answers that of all.
ANNEAL_INLINE int put_sums(ActivationGroup& a, F32x16 first, F32x16 last) {
  a.sums[0] = sum_pairs(as_int(first)), a.sums[1] = sum_pairs(as_int(last));
  return sum_bytes(as_int(first)) + sum_bytes(as_int(last));
}
static_assert(kByteOffset == 0);  // nothing takes them for numbers
#else
// A row's sums of codes, of all and of the last half, times -1: where sums of products begin is one of them shifted,
// since zero points are powers of two.
template <TensorFormat F> constexpr bool kWordSums = false;
constexpr int less_in_words(const QuantizedFormat&) { return 0; }
// Of all codes, or of one half.
template <bool halves> ANNEAL_INLINE I32x16 negative_sum(const ActivationGroup& a, int part) {
  return halves && part == 0 ? all_int(a.sums[0]) - all_int(a.sums[1]) : all_int(a.sums[halves]);
}
ANNEAL_INLINE F32x16 codes_sum(const ActivationGroup& a) { return negate(to_float(all_int(a.sums[0]))); }
ANNEAL_INLINE int put_sums(ActivationGroup& a, F32x16 first, F32x16 last) {
  const int of_last = sum_bytes(as_int(last)), of_all = sum_bytes(as_int(first)) + of_last;
  a.sums[0] = -of_all, a.sums[1] = -of_last;
  return of_all;
}
#endif

// Where the sum of a row's products begins, of all codes of a group or of one half: zero points less.
template <TensorFormat F> ANNEAL_INLINE I32x16 first_sum(const ActivationGroup& a, int part) {
  constexpr QuantizedFormat f = quantized_format(F);
  constexpr bool halves = group_scales(f) == 2;
#ifdef ANNEAL_WORD_SUMS
  constexpr int less = less_in_words(f);
  if constexpr (kWordSums<F> && less) return words_times(halves ? all_int(a.sums[part]) : sum_words(a), -less);
#else
  constexpr unsigned zero_point = f.bits == 8 ? kByteOffset : f.zero == kOwnZeros ? 0 : f.zero;
  if constexpr (zero_point) {
    static_assert(std::has_single_bit(zero_point));
    return shift_left<std::countr_zero(zero_point)>(negative_sum<halves>(a, part));
  }
#endif
  return all_int(0);
}
// The sums of MR rows and NR panels: chains that do not wait for each other, and how they are added changes nothing.
template <TensorFormat F, int MR, int NR> struct CodeSums {
  static constexpr int chains = code_chains(MR * NR);
  // One row of half groups has registers to spare, and waits for memory less where g++ may choose the order.
  static constexpr bool in_pairs = MR * NR == 1 && group_scales(quantized_format(F)) == 2;
  static_assert(!kWordSums<F> || chains == 1);  // total adds numbers
  I32x16 of[NR][chains][MR];

  ANNEAL_INLINE void begin(const ActivationGroup* a, int64_t lda, int part) {
#pragma GCC unroll 16
    for (int i = 0; i < MR; i++) {
      const I32x16 start = first_sum<F>(a[i * lda], part);
#pragma GCC unroll 8
      for (int j = 0; j < NR; j++)
#pragma GCC unroll 4
        for (int q = 0; q < chains; q++) of[j][q][i] = q ? all_int(0) : start;
    }
  }
#ifndef ANNEAL_CODE_QUADS
  // The products of a quad, after `before` others.
  ANNEAL_INLINE void add(int before, const ActivationGroup* a, int64_t lda, int quad, const I32x16 (&codes)[NR]) {
#pragma GCC unroll 16
    for (int i = 0; i < MR; i++) {
      const I32x16 x = four_codes(a[i * lda], quad);
#pragma GCC unroll 8
      for (int j = 0; j < NR; j++) {
        I32x16& sum = of[j][before % chains][i];
#ifdef ANNEAL_WORD_SUMS
        if constexpr (kWordSums<F>) {
          sum = add_words(sum, code_words(codes[j], x));
          if constexpr (!in_pairs) sum = one_by_one(sum);
          continue;
        }
#endif
        if constexpr (quantized_format(F).bits == 8)
          sum = dot_bytes(sum, codes[j], x);
        else
          sum = dot_codes(sum, codes[j], x);
      }
    }
  }
#endif
  ANNEAL_INLINE I32x16 total(int i, int j) const {
    I32x16 sum = of[j][0][i];
#pragma GCC unroll 4
    for (int q = 1; q < chains; q++) sum = sum + of[j][q][i];
    return sum;
  }
};
// What becomes of such a sum: c + it, scaled.
template <TensorFormat F>
ANNEAL_INLINE F32x16 add_sum(F32x16 c, I32x16 sum, const ActivationGroup& a, F32x16 scale, F32x16 zeros) {
  constexpr QuantizedFormat f = quantized_format(F);
#ifdef ANNEAL_WORD_SUMS
  if constexpr (kWordSums<F>) {
    sum = pairs_times(sum, 1);
    if constexpr (f.zero == 0 && less_in_words(f)) sum = sum + pairs_times(sum_words(a), less_in_words(f));
  }
#endif
  F32x16 exact = to_float(sum);
  // Sums of bytes are those of codes less 128.
  if constexpr (f.zero == kOwnZeros) exact = fma(codes_sum(a), all(f.bits == 8 ? 128.0f : 0.0f) - zeros, exact);
  return fma(exact, all(a.scale) * scale, c);
}

}  // namespace
}  // namespace anneal::cpu
