// 16 float lanes: two AVX registers; FMA.
#pragma once
#include <immintrin.h>

#include "element.h"

namespace anneal::cpu {
namespace {

struct F32x16 {
  __m256 lo, hi;
};
struct I32x16 {
  __m256i lo, hi;
};
struct Mask16 {
  __m256 lo, hi;
};

ANNEAL_INLINE Mask16 first(int n) {
  const __m256i lane = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
  return {_mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(n), lane)),
          _mm256_castsi256_ps(_mm256_cmpgt_epi32(_mm256_set1_epi32(n - 8), lane))};
}

ANNEAL_INLINE F32x16 zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
ANNEAL_INLINE F32x16 all(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
ANNEAL_INLINE I32x16 all_int(int x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
ANNEAL_INLINE F32x16 load(const float* p, Full = {}) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
ANNEAL_INLINE F32x16 load(const float* p, Part n) {
  Mask16 m = first(n.n);
  return {_mm256_maskload_ps(p, _mm256_castps_si256(m.lo)), _mm256_maskload_ps(p + 8, _mm256_castps_si256(m.hi))};
}
ANNEAL_INLINE void store(float* p, F32x16 x, Full = {}) {
  _mm256_storeu_ps(p, x.lo);
  _mm256_storeu_ps(p + 8, x.hi);
}
ANNEAL_INLINE void store(float* p, F32x16 x, Part n) {
  Mask16 m = first(n.n);
  _mm256_maskstore_ps(p, _mm256_castps_si256(m.lo), x.lo);
  _mm256_maskstore_ps(p + 8, _mm256_castps_si256(m.hi), x.hi);
}
ANNEAL_INLINE I32x16 load_int(const void* p) {
  return {_mm256_loadu_si256((const __m256i*)p), _mm256_loadu_si256((const __m256i*)p + 1)};
}
ANNEAL_INLINE I32x16 load_int(const void* p, Part n) {
  const Mask16 m = first(n.n);
  return {_mm256_maskload_epi32((const int*)p, _mm256_castps_si256(m.lo)),
          _mm256_maskload_epi32((const int*)p + 8, _mm256_castps_si256(m.hi))};
}
ANNEAL_INLINE void store_int(void* p, I32x16 x) {
  _mm256_storeu_si256((__m256i*)p, x.lo);
  _mm256_storeu_si256((__m256i*)p + 1, x.hi);
}
// 16 words, zero-extended to 32 bits.
ANNEAL_INLINE I32x16 load_words(const bf16* p, Full = {}) {
  return {_mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i*)p)),
          _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i*)p + 1))};
}
ANNEAL_INLINE I32x16 load_words(const bf16* p, Part n) {
  alignas(32) bf16 words[kLanes] = {};
  for (int i = 0; i < n.n; i++) words[i] = p[i];
  return load_words(words);
}
ANNEAL_INLINE void store_words(bf16* p, I32x16 x, Full = {}) {
  __m256i packed = _mm256_packus_epi32(x.lo, x.hi);  // 0-3, 8-11 | 4-7, 12-15
  _mm256_storeu_si256((__m256i*)p, _mm256_permute4x64_epi64(packed, 0xd8));
}
ANNEAL_INLINE void store_words(bf16* p, I32x16 x, Part n) {
  alignas(32) bf16 words[kLanes];
  store_words(words, x);
  for (int i = 0; i < n.n; i++) p[i] = words[i];
}

ANNEAL_INLINE F32x16 operator+(F32x16 a, F32x16 b) { return {_mm256_add_ps(a.lo, b.lo), _mm256_add_ps(a.hi, b.hi)}; }
ANNEAL_INLINE F32x16 operator-(F32x16 a, F32x16 b) { return {_mm256_sub_ps(a.lo, b.lo), _mm256_sub_ps(a.hi, b.hi)}; }
ANNEAL_INLINE F32x16 operator*(F32x16 a, F32x16 b) { return {_mm256_mul_ps(a.lo, b.lo), _mm256_mul_ps(a.hi, b.hi)}; }
ANNEAL_INLINE F32x16 operator/(F32x16 a, F32x16 b) { return {_mm256_div_ps(a.lo, b.lo), _mm256_div_ps(a.hi, b.hi)}; }
ANNEAL_INLINE F32x16 fma(F32x16 a, F32x16 b, F32x16 c) {
  return {_mm256_fmadd_ps(a.lo, b.lo, c.lo), _mm256_fmadd_ps(a.hi, b.hi, c.hi)};
}
ANNEAL_INLINE F32x16 sqrt(F32x16 a) { return {_mm256_sqrt_ps(a.lo), _mm256_sqrt_ps(a.hi)}; }
// The second operand when either is NaN.
ANNEAL_INLINE F32x16 max(F32x16 a, F32x16 b) { return {_mm256_max_ps(a.lo, b.lo), _mm256_max_ps(a.hi, b.hi)}; }
ANNEAL_INLINE F32x16 min(F32x16 a, F32x16 b) { return {_mm256_min_ps(a.lo, b.lo), _mm256_min_ps(a.hi, b.hi)}; }
ANNEAL_INLINE Mask16 less(F32x16 a, F32x16 b) {
  return {_mm256_cmp_ps(a.lo, b.lo, _CMP_LT_OQ), _mm256_cmp_ps(a.hi, b.hi, _CMP_LT_OQ)};
}
ANNEAL_INLINE Mask16 at_least(F32x16 a, F32x16 b) {
  return {_mm256_cmp_ps(a.lo, b.lo, _CMP_GE_OQ), _mm256_cmp_ps(a.hi, b.hi, _CMP_GE_OQ)};
}
// Bit i is lane i.
ANNEAL_INLINE uint32_t bits_of(Mask16 m) {
  return uint32_t(_mm256_movemask_ps(m.lo)) | uint32_t(_mm256_movemask_ps(m.hi)) << 8;
}
ANNEAL_INLINE Mask16 mask_of_bits(uint32_t bits) {
  const __m256i all = _mm256_set1_epi32(int(bits));
  const __m256i low = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128), high = _mm256_slli_epi32(low, 8);
  return {_mm256_castsi256_ps(_mm256_cmpeq_epi32(_mm256_and_si256(all, low), low)),
          _mm256_castsi256_ps(_mm256_cmpeq_epi32(_mm256_and_si256(all, high), high))};
}
ANNEAL_INLINE F32x16 select(Mask16 m, F32x16 yes, F32x16 no) {
  return {_mm256_blendv_ps(no.lo, yes.lo, m.lo), _mm256_blendv_ps(no.hi, yes.hi, m.hi)};
}

ANNEAL_INLINE I32x16 as_int(F32x16 a) { return {_mm256_castps_si256(a.lo), _mm256_castps_si256(a.hi)}; }
ANNEAL_INLINE F32x16 as_float(I32x16 a) { return {_mm256_castsi256_ps(a.lo), _mm256_castsi256_ps(a.hi)}; }
ANNEAL_INLINE I32x16 operator-(I32x16 a, I32x16 b) {
  return {_mm256_sub_epi32(a.lo, b.lo), _mm256_sub_epi32(a.hi, b.hi)};
}
ANNEAL_INLINE I32x16 larger(I32x16 a, I32x16 b) { return {_mm256_max_epi32(a.lo, b.lo), _mm256_max_epi32(a.hi, b.hi)}; }
ANNEAL_INLINE I32x16 operator+(I32x16 a, I32x16 b) {
  return {_mm256_add_epi32(a.lo, b.lo), _mm256_add_epi32(a.hi, b.hi)};
}
ANNEAL_INLINE I32x16 operator|(I32x16 a, I32x16 b) {
  return {_mm256_or_si256(a.lo, b.lo), _mm256_or_si256(a.hi, b.hi)};
}
ANNEAL_INLINE I32x16 operator&(I32x16 a, I32x16 b) {
  return {_mm256_and_si256(a.lo, b.lo), _mm256_and_si256(a.hi, b.hi)};
}
ANNEAL_INLINE I32x16 operator^(I32x16 a, I32x16 b) {
  return {_mm256_xor_si256(a.lo, b.lo), _mm256_xor_si256(a.hi, b.hi)};
}
template <int n> ANNEAL_INLINE I32x16 shift_left(I32x16 a) {
  return {_mm256_slli_epi32(a.lo, n), _mm256_slli_epi32(a.hi, n)};
}
// Of bytes below 16 those of a table.
ANNEAL_INLINE I32x16 look_up(const uint8_t* table, I32x16 x) {
  const __m256i of = _mm256_broadcastsi128_si256(_mm_loadu_si128((const __m128i*)table));
  return {_mm256_shuffle_epi8(of, x.lo), _mm256_shuffle_epi8(of, x.hi)};
}
template <int n> ANNEAL_INLINE I32x16 shift_right(I32x16 a) {
  return {_mm256_srli_epi32(a.lo, n), _mm256_srli_epi32(a.hi, n)};
}

ANNEAL_INLINE F32x16 to_float(I32x16 a) { return {_mm256_cvtepi32_ps(a.lo), _mm256_cvtepi32_ps(a.hi)}; }
// 16 bytes, zero-extended or sign-extended to 32 bits; and the low bytes of the lanes.
ANNEAL_INLINE I32x16 load_bytes(const void* p) {
  const __m128i bytes = _mm_loadu_si128((const __m128i*)p);
  return {_mm256_cvtepu8_epi32(bytes), _mm256_cvtepu8_epi32(_mm_srli_si128(bytes, 8))};
}
ANNEAL_INLINE F32x16 load_halves(const uint16_t* p) {
  const __m128i* const at = (const __m128i*)p;
  return {_mm256_cvtph_ps(_mm_loadu_si128(at)), _mm256_cvtph_ps(_mm_loadu_si128(at + 1))};
}
ANNEAL_INLINE I32x16 load_signed_bytes(const int8_t* p) {
  const __m128i bytes = _mm_loadu_si128((const __m128i*)p);
  return {_mm256_cvtepi8_epi32(bytes), _mm256_cvtepi8_epi32(_mm_srli_si128(bytes, 8))};
}
ANNEAL_INLINE __m128i low_bytes(__m256i x) {
  const __m256i first = _mm256_setr_epi8(0, 4, 8, 12, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, 0, 4, 8, 12, -1,
                                         -1, -1, -1, -1, -1, -1, -1, -1, -1, -1, -1);
  const __m256i bytes = _mm256_shuffle_epi8(x, first);
  return _mm_unpacklo_epi32(_mm256_castsi256_si128(bytes), _mm256_extracti128_si256(bytes, 1));
}
ANNEAL_INLINE __m128i low_bytes(I32x16 x) { return _mm_unpacklo_epi64(low_bytes(x.lo), low_bytes(x.hi)); }
ANNEAL_INLINE void store_bytes(void* p, I32x16 x) { _mm_storeu_si128((__m128i*)p, low_bytes(x)); }
// The sum of these as signed numbers: of bytes less -128, of those in a mask.
ANNEAL_INLINE int sum_bytes(__m128i bytes, int mask = -1) {
  const __m128i above = _mm_and_si128(_mm_xor_si128(bytes, _mm_set1_epi8(char(0x80))), _mm_set1_epi32(mask)),
                sums = _mm_sad_epu8(above, _mm_setzero_si128());
  return _mm_cvtsi128_si32(sums) + _mm_extract_epi32(sums, 2) - 128 * (__builtin_popcount(unsigned(mask)) / 2);
}
ANNEAL_INLINE int sum_bytes(I32x16 x) { return sum_bytes(low_bytes(x)); }
// The same, of even pairs and of odd ones, as two words.
ANNEAL_INLINE int32_t sum_pairs(I32x16 x) {
  const int even = sum_bytes(low_bytes(x), 0xffff);
  return int32_t((unsigned(even) & 0xffff) | unsigned(sum_bytes(x) - even) << 16);
}

// sum + the four products of unsigned bytes (codes) with signed bytes (x, at least -127) in every lane. dot_codes:
// codes below 128. dot_bytes: leaves it to the caller to subtract kByteOffset times the sum of x for codes that mean
// code - 128.
#ifdef __AVXVNNI__
constexpr int kByteOffset = 128;
ANNEAL_INLINE I32x16 dot_codes(I32x16 sum, I32x16 codes, I32x16 x) {
  return {_mm256_dpbusd_avx_epi32(sum.lo, codes.lo, x.lo), _mm256_dpbusd_avx_epi32(sum.hi, codes.hi, x.hi)};
}
ANNEAL_INLINE I32x16 dot_bytes(I32x16 sum, I32x16 codes, I32x16 x) { return dot_codes(sum, codes, x); }
constexpr int code_chains(int tiles) { return tiles >= 2 ? 1 : 2; }
#else
constexpr int kByteOffset = 0;
// A sum that the next is added to: g++ would add them in pairs, and keep more than there are registers.
ANNEAL_INLINE __m256i one_by_one(__m256i sum) {
  asm("" : "+x"(sum));
  return sum;
}
ANNEAL_INLINE __m256i dot8(__m256i sum, __m256i codes, __m256i x) {
  return one_by_one(_mm256_add_epi32(sum, _mm256_madd_epi16(_mm256_maddubs_epi16(codes, x), _mm256_set1_epi16(1))));
}
ANNEAL_INLINE I32x16 dot_codes(I32x16 sum, I32x16 codes, I32x16 x) {
  return {dot8(sum.lo, codes.lo, x.lo), dot8(sum.hi, codes.hi, x.hi)};
}
// What dot_codes adds up, as two words in every lane; these may be added, and wrap around.
#define ANNEAL_WORD_SUMS 1
ANNEAL_INLINE I32x16 code_words(I32x16 codes, I32x16 x) {
  return {_mm256_maddubs_epi16(codes.lo, x.lo), _mm256_maddubs_epi16(codes.hi, x.hi)};
}
ANNEAL_INLINE I32x16 one_by_one(I32x16 sum) { return {one_by_one(sum.lo), one_by_one(sum.hi)}; }
ANNEAL_INLINE I32x16 add_words(I32x16 a, I32x16 b) {
  return {_mm256_add_epi16(a.lo, b.lo), _mm256_add_epi16(a.hi, b.hi)};
}
ANNEAL_INLINE I32x16 words_times(I32x16 a, int n) {
  __m256i factor = _mm256_set1_epi16(short(n));
  asm("" : "+x"(factor));  // else g++ would shift and subtract
  return {_mm256_mullo_epi16(a.lo, factor), _mm256_mullo_epi16(a.hi, factor)};
}
// The sum of a lane's words, each times n.
ANNEAL_INLINE I32x16 pairs_times(I32x16 words, int n) {
  const __m256i factor = _mm256_set1_epi16(short(n));
  return {_mm256_madd_epi16(words.lo, factor), _mm256_madd_epi16(words.hi, factor)};
}
// Of signed bytes, whose absolute values are given, too.
ANNEAL_INLINE __m256i signed_dot8(__m256i sum, __m256i absolute, __m256i bytes, __m256i x) {
  return dot8(sum, absolute, _mm256_sign_epi8(x, bytes));
}
ANNEAL_INLINE I32x16 signed_bytes(I32x16 codes) { return codes ^ all_int(int(0x80808080u)); }
ANNEAL_INLINE I32x16 dot_bytes(I32x16 sum, I32x16 codes, I32x16 x) {
  const I32x16 bytes = signed_bytes(codes);
  return {signed_dot8(sum.lo, _mm256_abs_epi8(bytes.lo), bytes.lo, x.lo),
          signed_dot8(sum.hi, _mm256_abs_epi8(bytes.hi), bytes.hi, x.hi)};
}
constexpr int code_chains(int) { return 1; }

// Absolute values of 64 bytes, and behind them the bytes, both less 128: what dot_bytes makes of codes, once for many
// rows. See split_products.h.
#define ANNEAL_SPLIT_BYTES 1
ANNEAL_INLINE void split_bytes(I32x16 codes, uint8_t* to) {
  const I32x16 bytes = signed_bytes(codes);
  store_int(to, {_mm256_abs_epi8(bytes.lo), _mm256_abs_epi8(bytes.hi)});
  store_int(to + 64, bytes);
}
ANNEAL_INLINE I32x16 dot_split(I32x16 sum, const uint8_t* split, I32x16 x) {
  const I32x16 absolute = load_int(split), bytes = load_int(split + 64);
  return {signed_dot8(sum.lo, absolute.lo, bytes.lo, x.lo), signed_dot8(sum.hi, absolute.hi, bytes.hi, x.hi)};
}
#endif

// Three sums += each its x times the 16 floats at `w`. As assembly: twelve registers of sums leave one beside those of
// x, and g++ would spill some of them, or move them from one to another.
#define ANNEAL_SUMS_IN_PLACE 1
ANNEAL_INLINE void add_three(F32x16* const (&sums)[3], const F32x16 (&x)[3], const float* w) {
  __m256 part, lo0 = sums[0]->lo, lo1 = sums[1]->lo, lo2 = sums[2]->lo;
  __m256 hi0 = sums[0]->hi, hi1 = sums[1]->hi, hi2 = sums[2]->hi;
  asm("vmovups %[w_lo], %[part]\n\t"
      "vfmadd231ps %[part], %[x0], %[lo0]\n\t"
      "vfmadd231ps %[part], %[x1], %[lo1]\n\t"
      "vfmadd231ps %[part], %[x2], %[lo2]\n\t"
      "vmovups %[w_hi], %[part]\n\t"
      "vfmadd231ps %[part], %[x0], %[hi0]\n\t"
      "vfmadd231ps %[part], %[x1], %[hi1]\n\t"
      "vfmadd231ps %[part], %[x2], %[hi2]"
      : [lo0] "+x"(lo0), [lo1] "+x"(lo1), [lo2] "+x"(lo2), [hi0] "+x"(hi0), [hi1] "+x"(hi1), [hi2] "+x"(hi2),
        [part] "=&x"(part)
      : [x0] "x"(x[0].lo), [x1] "x"(x[1].lo), [x2] "x"(x[2].lo), [w_lo] "m"(*(const __m256_u*)w),
        [w_hi] "m"(*(const __m256_u*)(w + 8)));
  *sums[0] = {lo0, hi0}, *sums[1] = {lo1, hi1}, *sums[2] = {lo2, hi2};
}

// sum += x in every lane times the 16 of `part`. As assembly: six such sums and a part leave one register for x, and
// g++ would load the next x before the one before is done with.
ANNEAL_INLINE void add_row(F32x16& sum, const F32x16& part, const float& x) {
  __m256 wide, lo = sum.lo, hi = sum.hi;
  asm("vbroadcastss %[x], %[wide]\n\t"
      "vfmadd231ps %[part_lo], %[wide], %[lo]\n\t"
      "vfmadd231ps %[part_hi], %[wide], %[hi]"
      : [lo] "+x"(lo), [hi] "+x"(hi), [wide] "=&x"(wide)
      : [part_lo] "x"(part.lo), [part_hi] "x"(part.hi), [x] "m"(x));
  sum = {lo, hi};
}

// sums[i] += x[i] in every lane times the odd ones of 16 pairs of bfloat16, or the even ones. As assembly: sums of two
// rows by three panels leave four registers, and g++ would begin with the next pairs before these are done with.
template <bool odd>
ANNEAL_INLINE void add_pair_halves(F32x16& sum0, F32x16& sum1, const void* pairs, const I32x16& upper, const float& x0,
                                   const float& x1) {
  __m256 lo0 = sum0.lo, hi0 = sum0.hi, lo1 = sum1.lo, hi1 = sum1.hi, part_lo, part_hi, x;
  const __m256i_u *at_lo = (const __m256i_u*)pairs, *at_hi = at_lo + 1;
#define ANNEAL_ADD_TWO_ROWS                  \
  "vbroadcastss %[x0], %[x]\n\t"             \
  "vfmadd231ps %[part_lo], %[x], %[lo0]\n\t" \
  "vfmadd231ps %[part_hi], %[x], %[hi0]\n\t" \
  "vbroadcastss %[x1], %[x]\n\t"             \
  "vfmadd231ps %[part_lo], %[x], %[lo1]\n\t" \
  "vfmadd231ps %[part_hi], %[x], %[hi1]"
  if constexpr (odd)
    asm("vpand %[at_lo], %[upper], %[part_lo]\n\t"
        "vpand %[at_hi], %[upper], %[part_hi]\n\t" ANNEAL_ADD_TWO_ROWS
        : [lo0] "+x"(lo0), [hi0] "+x"(hi0), [lo1] "+x"(lo1), [hi1] "+x"(hi1), [part_lo] "=&x"(part_lo),
          [part_hi] "=&x"(part_hi), [x] "=&x"(x)
        : [at_lo] "m"(*at_lo), [at_hi] "m"(*at_hi), [x0] "m"(x0), [x1] "m"(x1), [upper] "x"(upper.lo));
  else
    asm("vmovdqu %[at_lo], %[part_lo]\n\t"
        "vmovdqu %[at_hi], %[part_hi]\n\t"
        "vpslld $16, %[part_lo], %[part_lo]\n\t"
        "vpslld $16, %[part_hi], %[part_hi]\n\t" ANNEAL_ADD_TWO_ROWS
        : [lo0] "+x"(lo0), [hi0] "+x"(hi0), [lo1] "+x"(lo1), [hi1] "+x"(hi1), [part_lo] "=&x"(part_lo),
          [part_hi] "=&x"(part_hi), [x] "=&x"(x)
        : [at_lo] "m"(*at_lo), [at_hi] "m"(*at_hi), [x0] "m"(x0), [x1] "m"(x1));
#undef ANNEAL_ADD_TWO_ROWS
  sum0 = {lo0, hi0}, sum1 = {lo1, hi1};
}

// sum += the products of both signed words in every lane. As assembly: g++ keeps sums of the intrinsic in memory.
ANNEAL_INLINE void add_products8(__m256i& sum, __m256i words, __m256i x) {
#ifdef __AVXVNNI__
  asm("%{vex%} vpdpwssd %2, %1, %0" : "+x"(sum) : "x"(words), "x"(x));
#else
  __m256i products;
  asm("vpmaddwd %2, %1, %0" : "=x"(products) : "x"(words), "x"(x));
  asm("vpaddd %1, %0, %0" : "+x"(sum) : "x"(products));
#endif
}
ANNEAL_INLINE void add_products(I32x16& sum, I32x16 words, I32x16 x) {
  add_products8(sum.lo, words.lo, x.lo), add_products8(sum.hi, words.hi, x.hi);
}
// Words times 2^-14 of others, from 0 to 2^14, halves rounded up; below 2^14.
ANNEAL_INLINE __m256i scale_words8(__m256i words, __m256i factors) {
  return _mm256_mulhrs_epi16(_mm256_add_epi16(words, words), factors);
}
ANNEAL_INLINE I32x16 scale_words(I32x16 words, I32x16 factors) {
  return {scale_words8(words.lo, factors.lo), scale_words8(words.hi, factors.hi)};
}

ANNEAL_INLINE __m256i round_words8(__m256 x) {
  __m256i u = _mm256_castps_si256(x);
  __m256i upper = _mm256_srli_epi32(u, 16);
  __m256i odd = _mm256_and_si256(upper, _mm256_set1_epi32(1));
  __m256i r = _mm256_srli_epi32(_mm256_add_epi32(u, _mm256_add_epi32(odd, _mm256_set1_epi32(0x7fff))), 16);
  __m256i tiny = _mm256_cmpeq_epi32(_mm256_and_si256(u, _mm256_set1_epi32(0x7f800000)), _mm256_setzero_si256());
  __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(x, x, _CMP_UNORD_Q));
  r = _mm256_blendv_epi8(r, _mm256_and_si256(upper, _mm256_set1_epi32(0x8000)), tiny);
  return _mm256_blendv_epi8(r, _mm256_or_si256(upper, _mm256_set1_epi32(0x40)), nan);
}
// bfloat16 of each lane in its low 16 bits (see narrow()).
ANNEAL_INLINE I32x16 round_words(F32x16 x) { return {round_words8(x.lo), round_words8(x.hi)}; }

// Lanes i and i + 8, then i + 4, i + 2, i + 1: the one tree of every row reduction.
ANNEAL_INLINE float sum_lanes(F32x16 x) {
  __m256 a = _mm256_add_ps(x.lo, x.hi);
  __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  b = _mm_add_ps(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
}
ANNEAL_INLINE float max_lanes(F32x16 x) {
  __m256 a = _mm256_max_ps(x.lo, x.hi);
  __m128 b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  b = _mm_max_ps(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(_mm_max_ss(b, _mm_movehdup_ps(b)));
}
ANNEAL_INLINE int max_lanes(I32x16 x) {
  const __m256i a = _mm256_max_epi32(x.lo, x.hi);
  __m128i b = _mm_max_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
  b = _mm_max_epi32(b, _mm_unpackhi_epi64(b, b));
  return _mm_cvtsi128_si32(_mm_max_epi32(b, _mm_shuffle_epi32(b, 1)));
}
// 16 lanes of double, in fours.
struct D16 {
  __m256d v[4];
};
ANNEAL_INLINE D16 widen(F32x16 x) {
  return {{_mm256_cvtps_pd(_mm256_castps256_ps128(x.lo)), _mm256_cvtps_pd(_mm256_extractf128_ps(x.lo, 1)),
           _mm256_cvtps_pd(_mm256_castps256_ps128(x.hi)), _mm256_cvtps_pd(_mm256_extractf128_ps(x.hi, 1))}};
}
ANNEAL_INLINE D16 operator+(D16 a, D16 b) {
  return {{_mm256_add_pd(a.v[0], b.v[0]), _mm256_add_pd(a.v[1], b.v[1]), _mm256_add_pd(a.v[2], b.v[2]),
           _mm256_add_pd(a.v[3], b.v[3])}};
}
ANNEAL_INLINE double sum_lanes(D16 x) {
  __m256d a = _mm256_add_pd(_mm256_add_pd(x.v[0], x.v[2]), _mm256_add_pd(x.v[1], x.v[3]));
  __m128d b = _mm_add_pd(_mm256_castpd256_pd128(a), _mm256_extractf128_pd(a, 1));
  return _mm_cvtsd_f64(_mm_add_sd(b, _mm_unpackhi_pd(b, b)));
}
ANNEAL_INLINE float lane0(F32x16 x) { return _mm256_cvtss_f32(x.lo); }

// Into the second-level cache: what is fetched ahead would not all fit the first.
ANNEAL_INLINE void prefetch(const void* p) { _mm_prefetch((const char*)p, _MM_HINT_T1); }
ANNEAL_INLINE void prefetch_near(const void* p) { _mm_prefetch((const char*)p, _MM_HINT_T0); }

// 8 x 8 transposition of 32-bit elements.
ANNEAL_INLINE void transpose8(__m256i* r) {
  __m256i s[8], t[8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; i += 2) {
    s[i] = _mm256_unpacklo_epi32(r[i], r[i + 1]);
    s[i + 1] = _mm256_unpackhi_epi32(r[i], r[i + 1]);
  }
#pragma GCC unroll 8
  for (int i = 0; i < 8; i += 4) {
    t[i] = _mm256_unpacklo_epi64(s[i], s[i + 2]);
    t[i + 1] = _mm256_unpackhi_epi64(s[i], s[i + 2]);
    t[i + 2] = _mm256_unpacklo_epi64(s[i + 1], s[i + 3]);
    t[i + 3] = _mm256_unpackhi_epi64(s[i + 1], s[i + 3]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) {
    r[i] = _mm256_permute2x128_si256(t[i], t[i + 4], 0x20);
    r[i + 4] = _mm256_permute2x128_si256(t[i], t[i + 4], 0x31);
  }
}

// The 16 x 16 matrix of 32-bit elements r[row] lane column becomes r[column] lane row.
ANNEAL_INLINE void transpose16(I32x16* r) {
  __m256i q[4][8];
#pragma GCC unroll 8
  for (int i = 0; i < 8; i++) {
    q[0][i] = r[i].lo;
    q[1][i] = r[i].hi;
    q[2][i] = r[i + 8].lo;
    q[3][i] = r[i + 8].hi;
  }
  for (int b = 0; b < 4; b++) transpose8(q[b]);
#pragma GCC unroll 8
  for (int i = 0; i < 8; i++) {
    r[i] = {q[0][i], q[2][i]};
    r[i + 8] = {q[1][i], q[3][i]};
  }
}

// 4 x 4 transposition of 64-bit elements.
ANNEAL_INLINE void transpose4x64(__m256i* r) {
  __m256i a = _mm256_unpacklo_epi64(r[0], r[1]), b = _mm256_unpackhi_epi64(r[0], r[1]);
  __m256i c = _mm256_unpacklo_epi64(r[2], r[3]), d = _mm256_unpackhi_epi64(r[2], r[3]);
  r[0] = _mm256_permute2x128_si256(a, c, 0x20);
  r[1] = _mm256_permute2x128_si256(b, d, 0x20);
  r[2] = _mm256_permute2x128_si256(a, c, 0x31);
  r[3] = _mm256_permute2x128_si256(b, d, 0x31);
}

// A 16 x 16 block of words held as pairs: in, v[j] lane n = words (n, 2j), (n, 2j + 1); out, v[i] lane k = words (2i,
// k), (2i + 1, k).
ANNEAL_INLINE void transpose_pairs(I32x16* v) {
  // Within each 64-bit group: (n0 k0)(n0 k1)(n1 k0)(n1 k1) -> (n0 k0)(n1 k0)(n0 k1)(n1 k1); then 8 x 8 transposition of
  // the groups.
  const __m256i swap = _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15));
  __m256i q[4][4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) {
    q[0][i] = _mm256_shuffle_epi8(v[i].lo, swap);
    q[1][i] = _mm256_shuffle_epi8(v[i].hi, swap);
    q[2][i] = _mm256_shuffle_epi8(v[i + 4].lo, swap);
    q[3][i] = _mm256_shuffle_epi8(v[i + 4].hi, swap);
  }
  for (int b = 0; b < 4; b++) transpose4x64(q[b]);
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) {
    v[i] = {q[0][i], q[2][i]};
    v[i + 4] = {q[1][i], q[3][i]};
  }
}

#define ANNEAL_SOME_ROWS 1
// Register tiles of the product: rows for 1, 2, 3, 4 panels side by side, and panels where rows are few.
constexpr int kTileRows[5] = {0, 6, 3, 2, 1};
constexpr int kWidenedTileRows[5] = {0, 5, 2, 2, 1};
constexpr int kSomeRows = 5;                  // from which on rows of bfloat16 are widened once for all panels
constexpr int kSomeTileRows = 6;              // of theirs, over one panel
constexpr int kSomeByTwo = 3;                 // beyond full tiles, up to which they go two by two
constexpr int kSomeK = 1152;                  // of such a block
constexpr int kManyRows = 19;                 // from which on blocks of panels are, too, once for all rows
constexpr int kWideK = 128, kWideRows = 128;  // of such a block
constexpr int kPairsAhead = 1;                // of panels to come, that a tile fetches at once
constexpr int kWidenedProductPanels = 12;     // rows are widened anew for so many
constexpr int kFewRows = 2;
constexpr int kFewRowsPanels = 3;
constexpr int kStreamedRows = kFewRows;  // up to which rows go from panel to panel
constexpr int kWidenedFrom = 1;          // the same, from which on of bfloat16 that is widened
constexpr int kBestPanels = 1;
constexpr int kWidePanels = 2;                 // of blocks that are widened
constexpr bool kWidensBeside = false;          // rows, beside products with the first panels: registers are few
constexpr int kCodeRows = 3, kCodePanels = 1;  // of products with quantised weights
constexpr int kByteRows[2] = {0, kCodeRows};   // of those of 8 bits
constexpr int kWordRows = 6, kWordPanels = 1;  // the same, of 16 bits
constexpr int kTallWordRows = 0;               // of those: of one tile over two panels
constexpr int kWordsByTwo = 2;                 // beyond full tiles, up to which they go two by two
#ifdef __AVXVNNI__
constexpr int kPackedRows = 3;  // up to which codes below 8 bits stay in registers
#else
constexpr int kPackedRows = 6;
#endif
constexpr int kPackedTileRows = 3;  // of these
constexpr int kPackedByteRows = 0;  // up to which codes of 8 bits do

}  // namespace
}  // namespace anneal::cpu
