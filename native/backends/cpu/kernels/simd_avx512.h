// 16 float lanes: one AVX-512 register.
#pragma once
#include <immintrin.h>

#include "element.h"

namespace anneal::cpu {
namespace {

struct F32x16 {
  __m512 v;
};
struct I32x16 {
  __m512i v;
};
struct Mask16 {
  __mmask16 v;
};

ANNEAL_INLINE __mmask16 mask_of(Part p) { return __mmask16((1u << p.n) - 1); }
ANNEAL_INLINE Mask16 first(int n) { return {__mmask16(n >= 16 ? 0xffffu : n <= 0 ? 0u : (1u << n) - 1)}; }

ANNEAL_INLINE F32x16 zero() { return {_mm512_setzero_ps()}; }
ANNEAL_INLINE F32x16 all(float x) { return {_mm512_set1_ps(x)}; }
ANNEAL_INLINE I32x16 all_int(int x) { return {_mm512_set1_epi32(x)}; }
ANNEAL_INLINE F32x16 load(const float* p, Full = {}) { return {_mm512_loadu_ps(p)}; }
ANNEAL_INLINE F32x16 load(const float* p, Part n) { return {_mm512_maskz_loadu_ps(mask_of(n), p)}; }
ANNEAL_INLINE void store(float* p, F32x16 x, Full = {}) { _mm512_storeu_ps(p, x.v); }
ANNEAL_INLINE void store(float* p, F32x16 x, Part n) { _mm512_mask_storeu_ps(p, mask_of(n), x.v); }
ANNEAL_INLINE I32x16 load_int(const void* p) { return {_mm512_loadu_si512(p)}; }
ANNEAL_INLINE I32x16 load_int(const void* p, Part n) { return {_mm512_maskz_loadu_epi32(mask_of(n), p)}; }
ANNEAL_INLINE void store_int(void* p, I32x16 x) { _mm512_storeu_si512(p, x.v); }
// 16 words, zero-extended to 32 bits.
ANNEAL_INLINE I32x16 load_words(const bf16* p, Full = {}) {
  return {_mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i*)p))};
}
ANNEAL_INLINE I32x16 load_words(const bf16* p, Part n) {
  return {_mm512_cvtepu16_epi32(_mm256_maskz_loadu_epi16(mask_of(n), p))};
}
ANNEAL_INLINE void store_words(bf16* p, I32x16 x, Full = {}) {
  _mm256_storeu_si256((__m256i*)p, _mm512_cvtepi32_epi16(x.v));
}
ANNEAL_INLINE void store_words(bf16* p, I32x16 x, Part n) {
  _mm256_mask_storeu_epi16(p, mask_of(n), _mm512_cvtepi32_epi16(x.v));
}

ANNEAL_INLINE F32x16 operator+(F32x16 a, F32x16 b) { return {_mm512_add_ps(a.v, b.v)}; }
ANNEAL_INLINE F32x16 operator-(F32x16 a, F32x16 b) { return {_mm512_sub_ps(a.v, b.v)}; }
ANNEAL_INLINE F32x16 operator*(F32x16 a, F32x16 b) { return {_mm512_mul_ps(a.v, b.v)}; }
ANNEAL_INLINE F32x16 operator/(F32x16 a, F32x16 b) { return {_mm512_div_ps(a.v, b.v)}; }
ANNEAL_INLINE F32x16 fma(F32x16 a, F32x16 b, F32x16 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
ANNEAL_INLINE F32x16 sqrt(F32x16 a) { return {_mm512_sqrt_ps(a.v)}; }
// The second operand when either is NaN.
ANNEAL_INLINE F32x16 max(F32x16 a, F32x16 b) { return {_mm512_max_ps(a.v, b.v)}; }
ANNEAL_INLINE F32x16 min(F32x16 a, F32x16 b) { return {_mm512_min_ps(a.v, b.v)}; }
ANNEAL_INLINE Mask16 less(F32x16 a, F32x16 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ)}; }
ANNEAL_INLINE Mask16 at_least(F32x16 a, F32x16 b) { return {_mm512_cmp_ps_mask(a.v, b.v, _CMP_GE_OQ)}; }
ANNEAL_INLINE F32x16 select(Mask16 m, F32x16 yes, F32x16 no) { return {_mm512_mask_blend_ps(m.v, no.v, yes.v)}; }
// Bit i is lane i.
// Of bytes below 16 those of a table.
ANNEAL_INLINE I32x16 look_up(const uint8_t* table, I32x16 x) {
  return {_mm512_shuffle_epi8(_mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i*)table)), x.v)};
}
ANNEAL_INLINE uint32_t bits_of(Mask16 m) { return m.v; }
ANNEAL_INLINE Mask16 mask_of_bits(uint32_t bits) { return {__mmask16(bits)}; }

ANNEAL_INLINE I32x16 as_int(F32x16 a) { return {_mm512_castps_si512(a.v)}; }
ANNEAL_INLINE F32x16 as_float(I32x16 a) { return {_mm512_castsi512_ps(a.v)}; }
ANNEAL_INLINE I32x16 operator+(I32x16 a, I32x16 b) { return {_mm512_add_epi32(a.v, b.v)}; }
ANNEAL_INLINE I32x16 operator-(I32x16 a, I32x16 b) { return {_mm512_sub_epi32(a.v, b.v)}; }
ANNEAL_INLINE I32x16 larger(I32x16 a, I32x16 b) { return {_mm512_max_epi32(a.v, b.v)}; }
ANNEAL_INLINE I32x16 operator|(I32x16 a, I32x16 b) { return {_mm512_or_si512(a.v, b.v)}; }
ANNEAL_INLINE I32x16 operator&(I32x16 a, I32x16 b) { return {_mm512_and_si512(a.v, b.v)}; }
ANNEAL_INLINE I32x16 operator^(I32x16 a, I32x16 b) { return {_mm512_xor_si512(a.v, b.v)}; }
template <int n> ANNEAL_INLINE I32x16 shift_left(I32x16 a) { return {_mm512_slli_epi32(a.v, n)}; }
template <int n> ANNEAL_INLINE I32x16 shift_right(I32x16 a) { return {_mm512_srli_epi32(a.v, n)}; }

ANNEAL_INLINE F32x16 to_float(I32x16 a) { return {_mm512_cvtepi32_ps(a.v)}; }
// 16 bytes, zero-extended or sign-extended to 32 bits; and the low bytes of the lanes.
ANNEAL_INLINE I32x16 load_bytes(const void* p) { return {_mm512_cvtepu8_epi32(_mm_loadu_si128((const __m128i*)p))}; }
ANNEAL_INLINE I32x16 load_signed_bytes(const int8_t* p) {
  return {_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i*)p))};
}
ANNEAL_INLINE void store_bytes(void* p, I32x16 x) { _mm_storeu_si128((__m128i*)p, _mm512_cvtepi32_epi8(x.v)); }
// The sum of these as signed numbers: of bytes less -128, of those in a mask.
ANNEAL_INLINE int sum_bytes(__m128i bytes, int mask = -1) {
  const __m128i above = _mm_and_si128(_mm_xor_si128(bytes, _mm_set1_epi8(char(0x80))), _mm_set1_epi32(mask)),
                sums = _mm_sad_epu8(above, _mm_setzero_si128());
  return _mm_cvtsi128_si32(sums) + _mm_extract_epi32(sums, 2) - 128 * (__builtin_popcount(unsigned(mask)) / 2);
}
ANNEAL_INLINE int sum_bytes(I32x16 x) { return sum_bytes(_mm512_cvtepi32_epi8(x.v)); }
// The same, of even pairs and of odd ones, as two words.
ANNEAL_INLINE int32_t sum_pairs(I32x16 x) {
  const int even = sum_bytes(_mm512_cvtepi32_epi8(x.v), 0xffff);
  return int32_t((unsigned(even) & 0xffff) | unsigned(sum_bytes(x) - even) << 16);
}
// 16 float16.
ANNEAL_INLINE F32x16 load_halves(const uint16_t* p) { return {_mm512_cvtph_ps(_mm256_loadu_si256((const __m256i*)p))}; }

// sum + the four products of unsigned bytes (codes) with signed bytes (x, at least -127) in every lane. dot_codes:
// codes below 128. dot_bytes: leaves it to the caller to subtract kByteOffset times the sum of x for codes that mean
// code - 128.
#ifdef __AVX512VNNI__
constexpr int kByteOffset = 128;
ANNEAL_INLINE I32x16 dot_codes(I32x16 sum, I32x16 codes, I32x16 x) {
  return {_mm512_dpbusd_epi32(sum.v, codes.v, x.v)};
}
ANNEAL_INLINE I32x16 dot_bytes(I32x16 sum, I32x16 codes, I32x16 x) { return dot_codes(sum, codes, x); }
constexpr int code_chains(int tiles) { return tiles >= 8 ? 1 : tiles >= 3 ? 2 : 4; }
#else
constexpr int kByteOffset = 0;
// A sum that the next is added to: g++ would add them in pairs, and keep more than there are registers.
ANNEAL_INLINE __m512i one_by_one(__m512i sum) {
  asm("" : "+v"(sum));
  return sum;
}
// What dot_codes adds up, as two words in every lane; these may be added, and wrap around.
#define ANNEAL_WORD_SUMS 1
ANNEAL_INLINE I32x16 code_words(I32x16 codes, I32x16 x) { return {_mm512_maddubs_epi16(codes.v, x.v)}; }
ANNEAL_INLINE I32x16 one_by_one(I32x16 sum) { return {one_by_one(sum.v)}; }
ANNEAL_INLINE I32x16 add_words(I32x16 a, I32x16 b) { return {_mm512_add_epi16(a.v, b.v)}; }
ANNEAL_INLINE I32x16 words_times(I32x16 a, int n) { return {_mm512_mullo_epi16(a.v, _mm512_set1_epi16(short(n)))}; }
// The sum of a lane's words, each times n.
ANNEAL_INLINE I32x16 pairs_times(I32x16 words, int n) {
  return {_mm512_madd_epi16(words.v, _mm512_set1_epi16(short(n)))};
}
ANNEAL_INLINE I32x16 dot_codes(I32x16 sum, I32x16 codes, I32x16 x) {
  const __m512i pairs = _mm512_maddubs_epi16(codes.v, x.v);
  return {one_by_one(_mm512_add_epi32(sum.v, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1))))};
}
ANNEAL_INLINE I32x16 dot_bytes(I32x16 sum, I32x16 codes, I32x16 x) {
  const __m512i signed_codes = _mm512_xor_si512(codes.v, _mm512_set1_epi8(char(0x80)));
  const __mmask64 negative = _mm512_movepi8_mask(signed_codes);
  const __m512i turned = _mm512_mask_sub_epi8(x.v, negative, _mm512_setzero_si512(), x.v);
  return dot_codes(sum, {_mm512_abs_epi8(signed_codes)}, {turned});
}
constexpr int code_chains(int) { return 1; }
#endif

// sum += the products of both signed words in every lane. As assembly: g++ keeps sums of the intrinsic in memory.
ANNEAL_INLINE void add_products(I32x16& sum, I32x16 words, I32x16 x) {
#ifdef __AVX512VNNI__
  asm("vpdpwssd %2, %1, %0" : "+v"(sum.v) : "v"(words.v), "v"(x.v));
#else
  __m512i products;
  asm("vpmaddwd %2, %1, %0" : "=v"(products) : "v"(words.v), "v"(x.v));
  asm("vpaddd %1, %0, %0" : "+v"(sum.v) : "v"(products));
#endif
}
// Words times 2^-14 of others, from 0 to 2^14, halves rounded up; below 2^14.
ANNEAL_INLINE I32x16 scale_words(I32x16 words, I32x16 factors) {
  return {_mm512_mulhrs_epi16(_mm512_add_epi16(words.v, words.v), factors.v)};
}

// bfloat16 of each lane in its low 16 bits (see narrow()).
ANNEAL_INLINE I32x16 round_words(F32x16 x) {
#ifdef __AVX512BF16__
  return {_mm512_cvtepu16_epi32((__m256i)_mm512_cvtneps_pbh(x.v))};
#else
  __m512i u = _mm512_castps_si512(x.v);
  __m512i upper = _mm512_srli_epi32(u, 16);
  __m512i odd = _mm512_and_si512(upper, _mm512_set1_epi32(1));
  __m512i r = _mm512_srli_epi32(_mm512_add_epi32(u, _mm512_add_epi32(odd, _mm512_set1_epi32(0x7fff))), 16);
  __mmask16 tiny = _mm512_testn_epi32_mask(u, _mm512_set1_epi32(0x7f800000));
  __mmask16 nan = _mm512_cmp_ps_mask(x.v, x.v, _CMP_UNORD_Q);
  r = _mm512_mask_and_epi32(r, tiny, upper, _mm512_set1_epi32(0x8000));
  return {_mm512_mask_or_epi32(r, nan, upper, _mm512_set1_epi32(0x40))};
#endif
}

// Lanes i and i + 8, then i + 4, i + 2, i + 1: the one tree of every row reduction.
ANNEAL_INLINE float sum_lanes(F32x16 x) {
  __m256 a = _mm256_add_ps(_mm512_castps512_ps256(x.v), _mm512_extractf32x8_ps(x.v, 1));
  __m128 b = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  b = _mm_add_ps(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(_mm_add_ss(b, _mm_movehdup_ps(b)));
}
ANNEAL_INLINE float max_lanes(F32x16 x) {
  __m256 a = _mm256_max_ps(_mm512_castps512_ps256(x.v), _mm512_extractf32x8_ps(x.v, 1));
  __m128 b = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
  b = _mm_max_ps(b, _mm_movehl_ps(b, b));
  return _mm_cvtss_f32(_mm_max_ss(b, _mm_movehdup_ps(b)));
}
ANNEAL_INLINE int max_lanes(I32x16 x) { return _mm512_reduce_max_epi32(x.v); }
// 16 lanes of double.
struct D16 {
  __m512d lo, hi;
};
ANNEAL_INLINE D16 widen(F32x16 x) {
  return {_mm512_cvtps_pd(_mm512_castps512_ps256(x.v)), _mm512_cvtps_pd(_mm512_extractf32x8_ps(x.v, 1))};
}
ANNEAL_INLINE D16 operator+(D16 a, D16 b) { return {_mm512_add_pd(a.lo, b.lo), _mm512_add_pd(a.hi, b.hi)}; }
ANNEAL_INLINE double sum_lanes(D16 x) {
  __m512d a = _mm512_add_pd(x.lo, x.hi);
  __m256d b = _mm256_add_pd(_mm512_castpd512_pd256(a), _mm512_extractf64x4_pd(a, 1));
  __m128d c = _mm_add_pd(_mm256_castpd256_pd128(b), _mm256_extractf128_pd(b, 1));
  return _mm_cvtsd_f64(_mm_add_sd(c, _mm_unpackhi_pd(c, c)));
}
ANNEAL_INLINE float lane0(F32x16 x) { return _mm512_cvtss_f32(x.v); }

// Into the second-level cache: what is fetched ahead would not all fit the first.
ANNEAL_INLINE void prefetch(const void* p) { _mm_prefetch((const char*)p, _MM_HINT_T1); }
ANNEAL_INLINE void prefetch_near(const void* p) { _mm_prefetch((const char*)p, _MM_HINT_T0); }

// The 16 x 16 matrix of 32-bit elements r[row] lane column becomes r[column] lane row.
ANNEAL_INLINE void transpose16(I32x16* r) {
  __m512i s[16], t[16];
#pragma GCC unroll 16
  for (int i = 0; i < 16; i += 2) {
    s[i] = _mm512_unpacklo_epi32(r[i].v, r[i + 1].v);
    s[i + 1] = _mm512_unpackhi_epi32(r[i].v, r[i + 1].v);
  }
#pragma GCC unroll 16
  for (int i = 0; i < 16; i += 4) {
    t[i] = _mm512_unpacklo_epi64(s[i], s[i + 2]);
    t[i + 1] = _mm512_unpackhi_epi64(s[i], s[i + 2]);
    t[i + 2] = _mm512_unpacklo_epi64(s[i + 1], s[i + 3]);
    t[i + 3] = _mm512_unpackhi_epi64(s[i + 1], s[i + 3]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) {
    s[i] = _mm512_shuffle_i32x4(t[i], t[i + 4], 0x88);
    s[i + 4] = _mm512_shuffle_i32x4(t[i], t[i + 4], 0xdd);
    s[i + 8] = _mm512_shuffle_i32x4(t[i + 8], t[i + 12], 0x88);
    s[i + 12] = _mm512_shuffle_i32x4(t[i + 8], t[i + 12], 0xdd);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) {
    r[i].v = _mm512_shuffle_i32x4(s[i], s[i + 8], 0x88);
    r[8 + i].v = _mm512_shuffle_i32x4(s[i], s[i + 8], 0xdd);
    r[4 + i].v = _mm512_shuffle_i32x4(s[i + 4], s[i + 12], 0x88);
    r[12 + i].v = _mm512_shuffle_i32x4(s[i + 4], s[i + 12], 0xdd);
  }
}

// A 16 x 16 block of words held as pairs: in, v[j] lane n = words (n, 2j), (n, 2j + 1); out, v[i] lane k = words (2i,
// k), (2i + 1, k).
ANNEAL_INLINE void transpose_pairs(I32x16* v) {
  // Within each 64-bit group: (n0 k0)(n0 k1)(n1 k0)(n1 k1) -> (n0 k0)(n1 k0)(n0 k1)(n1 k1).
  const __m512i swap = _mm512_broadcast_i32x4(_mm_setr_epi8(0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15));
  __m512i s[8], t[8];
#pragma GCC unroll 8
  for (int j = 0; j < 8; j++) s[j] = _mm512_shuffle_epi8(v[j].v, swap);
    // 8 x 8 transposition of the 64-bit groups.
#pragma GCC unroll 8
  for (int j = 0; j < 8; j += 2) {
    t[j] = _mm512_unpacklo_epi64(s[j], s[j + 1]);
    t[j + 1] = _mm512_unpackhi_epi64(s[j], s[j + 1]);
  }
#pragma GCC unroll 2
  for (int h = 0; h < 2; h++) {
    s[h] = _mm512_shuffle_i32x4(t[h], t[h + 2], 0x88);
    s[h + 2] = _mm512_shuffle_i32x4(t[h], t[h + 2], 0xdd);
    s[h + 4] = _mm512_shuffle_i32x4(t[h + 4], t[h + 6], 0x88);
    s[h + 6] = _mm512_shuffle_i32x4(t[h + 4], t[h + 6], 0xdd);
  }
#pragma GCC unroll 2
  for (int h = 0; h < 2; h++) {
    v[h].v = _mm512_shuffle_i32x4(s[h], s[h + 4], 0x88);
    v[h + 4].v = _mm512_shuffle_i32x4(s[h], s[h + 4], 0xdd);
    v[h + 2].v = _mm512_shuffle_i32x4(s[h + 2], s[h + 6], 0x88);
    v[h + 6].v = _mm512_shuffle_i32x4(s[h + 2], s[h + 6], 0xdd);
  }
}

// Four vectors of [16 lanes][4 bytes] to 16 rows of 16 bytes, of each lane those of all four: see quad_row.
ANNEAL_INLINE void transpose_quads(const uint8_t* from, uint8_t* rows) {
  __m512i v[4], s[4];
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) v[i] = _mm512_loadu_si512(from + i * 64);
#pragma GCC unroll 2
  for (int i = 0; i < 4; i += 2) {
    s[i] = _mm512_unpacklo_epi32(v[i], v[i + 1]);
    s[i + 1] = _mm512_unpackhi_epi32(v[i], v[i + 1]);
  }
#pragma GCC unroll 2
  for (int i = 0; i < 2; i++) {
    _mm512_storeu_si512(rows + 128 * i, _mm512_unpacklo_epi64(s[i], s[i + 2]));
    _mm512_storeu_si512(rows + 128 * i + 64, _mm512_unpackhi_epi64(s[i], s[i + 2]));
  }
}

#ifdef __AVX512BF16__
// bfloat16 of `low` in the low words, of `high` in the upper ones.
ANNEAL_INLINE I32x16 round_pairs(F32x16 low, F32x16 high) {
  alignas(64) static constexpr uint16_t kInterleaved[32] = {0,  16, 1,  17, 2,  18, 3,  19, 4,  20, 5,
                                                            21, 6,  22, 7,  23, 8,  24, 9,  25, 10, 26,
                                                            11, 27, 12, 28, 13, 29, 14, 30, 15, 31};
  return {_mm512_permutexvar_epi16(_mm512_load_si512(kInterleaved), (__m512i)_mm512_cvtne2ps_pbh(high.v, low.v))};
}

#define ANNEAL_PAIR_PRODUCT 1
// c + the products of a pair of bfloat16 in every lane: fma(even, fma(odd, c)), denormals as zero.
ANNEAL_INLINE F32x16 pair_product(F32x16 c, I32x16 w, I32x16 a) {
  return {_mm512_dpbf16_ps(c.v, (__m512bh)w.v, (__m512bh)a.v)};
}
#endif

// Register tiles of the product: rows for 1, 2, 3, 4 panels side by side, and panels where rows are few.
constexpr int kTileRows[5] = {0, 12, 12, 8, 6};
constexpr int kWidenedTileRows[5] = {0, 12, 12, 8, 5};
constexpr int kManyRows = 17;                // from which on rows and panels of bfloat16 are widened once for all
constexpr int kWideK = 96, kWideRows = 192;  // of such a block: three panels of it lie in half a first-level cache
constexpr int kPairsAhead = 8;               // of panels to come, that a tile fetches at once
constexpr int kWidenedProductPanels = 24;    // rows are widened anew for so many
constexpr int kFewRows = 4;
constexpr int kFewRowsPanels = 6;
#ifdef ANNEAL_PAIR_PRODUCT
constexpr int kStreamedRows = 12;  // up to which rows go from panel to panel
#else
constexpr int kStreamedRows = 8;
#endif
constexpr int kWidenedFrom = 2;  // the same, from which on of bfloat16 that is widened
constexpr int kBestPanels = 3;
constexpr int kWidePanels = 3;                 // of blocks that are widened
constexpr bool kWidensBeside = true;           // rows, beside products with the first panels
constexpr int kCodeRows = 4, kCodePanels = 3;  // of products with quantised weights
constexpr int kByteRows[4] = {0, 8, 6, 4};     // of those of 8 bits, over 1, 2, 3 panels
constexpr int kWordRows = 8, kWordPanels = 3;  // the same, of 16 bits
// Of those: of one tile over two panels, where rows are no more.
#ifdef __AVX512VNNI__
constexpr int kTallWordRows = 12;
#else
constexpr int kTallWordRows = 11;  // a twelfth leaves the products no registers
#endif
constexpr int kWordsByTwo = 0;      // beyond full tiles, up to which they go two by two
constexpr int kPackedRows = 4;      // up to which codes below 8 bits stay in registers
constexpr int kPackedTileRows = 4;  // of these
#ifdef __AVX512VNNI__
constexpr int kPackedByteRows = 6;  // up to which codes of 8 bits do, in one tile
#else
constexpr int kPackedByteRows = 0;
#endif

}  // namespace
}  // namespace anneal::cpu
