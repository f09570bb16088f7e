// 16 float lanes: four NEON registers; FMA. Products stay chains of float32 FMAs: BFDOT and BFMMLA round otherwise.
#pragma once
#include <arm_neon.h>

#include "element.h"

namespace anneal::cpu {
namespace {

struct F32x16 {
  float32x4_t v[4];
};
struct I32x16 {
  uint32x4_t v[4];
};
struct Mask16 {
  uint32x4_t v[4];
};

// A vector of quarters: of(0), of(1), of(2), of(3).
template <class Vector, class Quarter> ANNEAL_INLINE Vector quarters(Quarter&& of) {
  return {{of(0), of(1), of(2), of(3)}};
}

ANNEAL_INLINE uint32x4_t lane_numbers(int quarter) {
  const uint32_t lane[4] = {0, 1, 2, 3};
  return vaddq_u32(vld1q_u32(lane), vdupq_n_u32(uint32_t(4 * quarter)));
}
ANNEAL_INLINE Mask16 first(int n) {
  const int32x4_t end = vdupq_n_s32(n);
  return quarters<Mask16>([&](int i) { return vcltq_s32(vreinterpretq_s32_u32(lane_numbers(i)), end); });
}

ANNEAL_INLINE F32x16 all(float x) {
  return quarters<F32x16>([&](int) { return vdupq_n_f32(x); });
}
ANNEAL_INLINE F32x16 zero() { return all(0); }
ANNEAL_INLINE I32x16 all_int(int x) {
  return quarters<I32x16>([&](int) { return vdupq_n_u32(uint32_t(x)); });
}
ANNEAL_INLINE F32x16 load(const float* p, Full = {}) {
  return quarters<F32x16>([&](int i) { return vld1q_f32(p + 4 * i); });
}
ANNEAL_INLINE F32x16 load(const float* p, Part n) {
  float lanes[kLanes] = {};
  for (int i = 0; i < n.n; i++) lanes[i] = p[i];
  return load(lanes);
}
ANNEAL_INLINE void store(float* p, F32x16 x, Full = {}) {
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) vst1q_f32(p + 4 * i, x.v[i]);
}
ANNEAL_INLINE void store(float* p, F32x16 x, Part n) {
  float lanes[kLanes];
  store(lanes, x);
  for (int i = 0; i < n.n; i++) p[i] = lanes[i];
}
ANNEAL_INLINE I32x16 load_int(const void* p) {
  return quarters<I32x16>([&](int i) { return vreinterpretq_u32_u8(vld1q_u8((const uint8_t*)p + 16 * i)); });
}
ANNEAL_INLINE void store_int(void* p, I32x16 x) {
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) vst1q_u8((uint8_t*)p + 16 * i, vreinterpretq_u8_u32(x.v[i]));
}
// 16 words, zero-extended to 32 bits.
ANNEAL_INLINE I32x16 load_words(const bf16* p, Full = {}) {
  return quarters<I32x16>([&](int i) { return vmovl_u16(vld1_u16(&p->bits + 4 * i)); });
}
ANNEAL_INLINE I32x16 load_words(const bf16* p, Part n) {
  bf16 words[kLanes] = {};
  for (int i = 0; i < n.n; i++) words[i] = p[i];
  return load_words(words);
}
ANNEAL_INLINE void store_words(bf16* p, I32x16 x, Full = {}) {
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) vst1_u16(&p->bits + 4 * i, vmovn_u32(x.v[i]));
}
ANNEAL_INLINE void store_words(bf16* p, I32x16 x, Part n) {
  bf16 words[kLanes];
  store_words(words, x);
  for (int i = 0; i < n.n; i++) p[i] = words[i];
}

ANNEAL_INLINE F32x16 operator+(F32x16 a, F32x16 b) {
  return quarters<F32x16>([&](int i) { return vaddq_f32(a.v[i], b.v[i]); });
}
ANNEAL_INLINE F32x16 operator-(F32x16 a, F32x16 b) {
  return quarters<F32x16>([&](int i) { return vsubq_f32(a.v[i], b.v[i]); });
}
ANNEAL_INLINE F32x16 operator*(F32x16 a, F32x16 b) {
  return quarters<F32x16>([&](int i) { return vmulq_f32(a.v[i], b.v[i]); });
}
ANNEAL_INLINE F32x16 operator/(F32x16 a, F32x16 b) {
  return quarters<F32x16>([&](int i) { return vdivq_f32(a.v[i], b.v[i]); });
}
ANNEAL_INLINE F32x16 fma(F32x16 a, F32x16 b, F32x16 c) {
  return quarters<F32x16>([&](int i) { return vfmaq_f32(c.v[i], a.v[i], b.v[i]); });
}
ANNEAL_INLINE F32x16 sqrt(F32x16 a) {
  return quarters<F32x16>([&](int i) { return vsqrtq_f32(a.v[i]); });
}
// The second operand when either is NaN, which FMAX and FMIN do not give.
ANNEAL_INLINE float32x4_t larger(float32x4_t a, float32x4_t b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
ANNEAL_INLINE F32x16 max(F32x16 a, F32x16 b) {
  return quarters<F32x16>([&](int i) { return larger(a.v[i], b.v[i]); });
}
ANNEAL_INLINE F32x16 min(F32x16 a, F32x16 b) {
  return quarters<F32x16>([&](int i) { return vbslq_f32(vcltq_f32(a.v[i], b.v[i]), a.v[i], b.v[i]); });
}
ANNEAL_INLINE Mask16 less(F32x16 a, F32x16 b) {
  return quarters<Mask16>([&](int i) { return vcltq_f32(a.v[i], b.v[i]); });
}
ANNEAL_INLINE Mask16 at_least(F32x16 a, F32x16 b) {
  return quarters<Mask16>([&](int i) { return vcgeq_f32(a.v[i], b.v[i]); });
}
// The bits that a quarter's lanes have in a mask of 16.
ANNEAL_INLINE uint32x4_t lane_bits(int quarter) {
  return vshlq_u32(vdupq_n_u32(1), vreinterpretq_s32_u32(lane_numbers(quarter)));
}
// Bit i is lane i.
ANNEAL_INLINE uint32_t bits_of(Mask16 m) {
  const I32x16 bits = quarters<I32x16>([&](int i) { return vandq_u32(m.v[i], lane_bits(i)); });
  return vaddvq_u32(vorrq_u32(vorrq_u32(bits.v[0], bits.v[1]), vorrq_u32(bits.v[2], bits.v[3])));
}
ANNEAL_INLINE Mask16 mask_of_bits(uint32_t bits) {
  return quarters<Mask16>([&](int i) { return vtstq_u32(vdupq_n_u32(bits), lane_bits(i)); });
}
ANNEAL_INLINE F32x16 select(Mask16 m, F32x16 yes, F32x16 no) {
  return quarters<F32x16>([&](int i) { return vbslq_f32(m.v[i], yes.v[i], no.v[i]); });
}

ANNEAL_INLINE I32x16 as_int(F32x16 a) {
  return quarters<I32x16>([&](int i) { return vreinterpretq_u32_f32(a.v[i]); });
}
ANNEAL_INLINE F32x16 as_float(I32x16 a) {
  return quarters<F32x16>([&](int i) { return vreinterpretq_f32_u32(a.v[i]); });
}
ANNEAL_INLINE I32x16 operator-(I32x16 a, I32x16 b) {
  return quarters<I32x16>([&](int i) { return vsubq_u32(a.v[i], b.v[i]); });
}
// Of numbers from 0 on.
ANNEAL_INLINE I32x16 larger(I32x16 a, I32x16 b) {
  return quarters<I32x16>([&](int i) { return vmaxq_u32(a.v[i], b.v[i]); });
}
ANNEAL_INLINE I32x16 operator+(I32x16 a, I32x16 b) {
  return quarters<I32x16>([&](int i) { return vaddq_u32(a.v[i], b.v[i]); });
}
ANNEAL_INLINE I32x16 operator|(I32x16 a, I32x16 b) {
  return quarters<I32x16>([&](int i) { return vorrq_u32(a.v[i], b.v[i]); });
}
ANNEAL_INLINE I32x16 operator&(I32x16 a, I32x16 b) {
  return quarters<I32x16>([&](int i) { return vandq_u32(a.v[i], b.v[i]); });
}
// Of bytes below 16 those of a table.
ANNEAL_INLINE I32x16 look_up(const uint8_t* table, I32x16 x) {
  const uint8x16_t of = vld1q_u8(table);
  return quarters<I32x16>([&](int i) { return vreinterpretq_u32_u8(vqtbl1q_u8(of, vreinterpretq_u8_u32(x.v[i]))); });
}
ANNEAL_INLINE I32x16 operator^(I32x16 a, I32x16 b) {
  return quarters<I32x16>([&](int i) { return veorq_u32(a.v[i], b.v[i]); });
}
template <int n> ANNEAL_INLINE I32x16 shift_left(I32x16 a) {
  return quarters<I32x16>([&](int i) { return vshlq_n_u32(a.v[i], n); });
}
template <int n> ANNEAL_INLINE I32x16 shift_right(I32x16 a) {
  return quarters<I32x16>([&](int i) { return vshrq_n_u32(a.v[i], n); });
}

ANNEAL_INLINE F32x16 to_float(I32x16 a) {
  return quarters<F32x16>([&](int i) { return vcvtq_f32_s32(vreinterpretq_s32_u32(a.v[i])); });
}
// 16 bytes, zero-extended or sign-extended to 32 bits; and the low bytes of the lanes.
ANNEAL_INLINE I32x16 load_bytes(const void* p) {
  const uint8x16_t bytes = vld1q_u8((const uint8_t*)p);
  const uint16x8_t low = vmovl_u8(vget_low_u8(bytes)), high = vmovl_u8(vget_high_u8(bytes));
  return {{vmovl_u16(vget_low_u16(low)), vmovl_u16(vget_high_u16(low)), vmovl_u16(vget_low_u16(high)),
           vmovl_u16(vget_high_u16(high))}};
}
ANNEAL_INLINE I32x16 load_signed_bytes(const int8_t* p) {
  const int8x16_t bytes = vld1q_s8(p);
  const int16x8_t low = vmovl_s8(vget_low_s8(bytes)), high = vmovl_s8(vget_high_s8(bytes));
  return {{vreinterpretq_u32_s32(vmovl_s16(vget_low_s16(low))), vreinterpretq_u32_s32(vmovl_s16(vget_high_s16(low))),
           vreinterpretq_u32_s32(vmovl_s16(vget_low_s16(high))),
           vreinterpretq_u32_s32(vmovl_s16(vget_high_s16(high)))}};
}
ANNEAL_INLINE uint8x16_t low_bytes(I32x16 x) {
  const uint16x8_t low = vcombine_u16(vmovn_u32(x.v[0]), vmovn_u32(x.v[1])),
                   high = vcombine_u16(vmovn_u32(x.v[2]), vmovn_u32(x.v[3]));
  return vcombine_u8(vmovn_u16(low), vmovn_u16(high));
}
ANNEAL_INLINE void store_bytes(void* p, I32x16 x) { vst1q_u8((uint8_t*)p, low_bytes(x)); }
// The sum of these as signed numbers.
ANNEAL_INLINE int sum_bytes(I32x16 x) { return vaddlvq_s8(vreinterpretq_s8_u8(low_bytes(x))); }

// sum + the four products of unsigned bytes (codes) with signed bytes (x, at least -127) in every lane. dot_codes:
// codes below 128. dot_bytes: leaves it to the caller to subtract kByteOffset times the sum of x for codes that mean
// code - 128.
constexpr int kByteOffset = 0;
ANNEAL_INLINE I32x16 signed_bytes(I32x16 codes) { return codes ^ all_int(int(0x80808080u)); }
#ifdef __ARM_FEATURE_DOTPROD
// Four quads of x, one of which multiplies all lanes: to repeat it in a register would take a turn of the units that
// multiply. Bytes are made signed once for many rows.
#define ANNEAL_CODE_QUADS
using CodeQuads = int8x16_t;
ANNEAL_INLINE CodeQuads load_quads(const int8_t* x) { return vld1q_s8(x); }
template <int quad> ANNEAL_INLINE I32x16 dot_quad(I32x16 sum, I32x16 codes, CodeQuads x) {
  return quarters<I32x16>([&](int i) {
    return vreinterpretq_u32_s32(
        vdotq_laneq_s32(vreinterpretq_s32_u32(sum.v[i]), vreinterpretq_s8_u32(codes.v[i]), x, quad));
  });
}
#else
ANNEAL_INLINE uint32x4_t dot4(uint32x4_t sum, int8x16_t codes, int8x16_t x) {
  const int32x4_t low = vpaddlq_s16(vmull_s8(vget_low_s8(codes), vget_low_s8(x))),
                  high = vpaddlq_s16(vmull_s8(vget_high_s8(codes), vget_high_s8(x)));
  return vaddq_u32(sum, vreinterpretq_u32_s32(vpaddq_s32(low, high)));
}
ANNEAL_INLINE I32x16 dot_codes(I32x16 sum, I32x16 codes, I32x16 x) {
  return quarters<I32x16>(
      [&](int i) { return dot4(sum.v[i], vreinterpretq_s8_u32(codes.v[i]), vreinterpretq_s8_u32(x.v[i])); });
}
ANNEAL_INLINE I32x16 dot_bytes(I32x16 sum, I32x16 codes, I32x16 x) { return dot_codes(sum, signed_bytes(codes), x); }
#endif
constexpr int code_chains(int) { return 1; }

// sum += the products of both signed words in every lane.
ANNEAL_INLINE void add_products(I32x16& sum, I32x16 words, I32x16 x) {
  sum = quarters<I32x16>([&](int i) {
    const int16x8_t w = vreinterpretq_s16_u32(words.v[i]), a = vreinterpretq_s16_u32(x.v[i]);
    const int32x4_t low = vmull_s16(vget_low_s16(w), vget_low_s16(a)), high = vmull_high_s16(w, a);
    return vaddq_u32(sum.v[i], vreinterpretq_u32_s32(vpaddq_s32(low, high)));
  });
}
// Words times 2^-14 of others, from 0 to 2^14, halves rounded up; below 2^14.
ANNEAL_INLINE I32x16 scale_words(I32x16 words, I32x16 factors) {
  return quarters<I32x16>([&](int i) {
    const int16x8_t w = vreinterpretq_s16_u32(words.v[i]);
    return vreinterpretq_u32_s16(vqrdmulhq_s16(vaddq_s16(w, w), vreinterpretq_s16_u32(factors.v[i])));
  });
}

// bfloat16 of each lane in its low 16 bits (see narrow()).
ANNEAL_INLINE I32x16 round_words(F32x16 x) {
  return quarters<I32x16>([&](int i) {
    const uint32x4_t u = vreinterpretq_u32_f32(x.v[i]), upper = vshrq_n_u32(u, 16);
    const uint32x4_t odd = vandq_u32(upper, vdupq_n_u32(1));
    const uint32x4_t r = vshrq_n_u32(vaddq_u32(u, vaddq_u32(odd, vdupq_n_u32(0x7fff))), 16);
    const uint32x4_t normal = vtstq_u32(u, vdupq_n_u32(0x7f800000)), number = vceqq_f32(x.v[i], x.v[i]);
    const uint32x4_t kept = vbslq_u32(normal, r, vandq_u32(upper, vdupq_n_u32(0x8000)));
    return vbslq_u32(number, kept, vorrq_u32(upper, vdupq_n_u32(0x40)));
  });
}

// Lanes i and i + 8, then i + 4, i + 2, i + 1: the one tree of every row reduction.
ANNEAL_INLINE float sum_lanes(F32x16 x) {
  const float32x4_t s = vaddq_f32(vaddq_f32(x.v[0], x.v[2]), vaddq_f32(x.v[1], x.v[3]));
  return vpadds_f32(vadd_f32(vget_low_f32(s), vget_high_f32(s)));
}
ANNEAL_INLINE float max_lanes(F32x16 x) {
  float32x4_t s = larger(larger(x.v[0], x.v[2]), larger(x.v[1], x.v[3]));
  s = larger(s, vextq_f32(s, s, 2));
  return vgetq_lane_f32(larger(s, vextq_f32(s, s, 1)), 0);
}
ANNEAL_INLINE int max_lanes(I32x16 x) {
  return int(vmaxvq_u32(vmaxq_u32(vmaxq_u32(x.v[0], x.v[1]), vmaxq_u32(x.v[2], x.v[3]))));
}
// 16 lanes of double, in twos.
struct D16 {
  float64x2_t v[8];
};
ANNEAL_INLINE D16 widen(F32x16 x) {
  const auto low = [&](int i) { return vcvt_f64_f32(vget_low_f32(x.v[i])); };
  const auto high = [&](int i) { return vcvt_high_f64_f32(x.v[i]); };
  return {{low(0), high(0), low(1), high(1), low(2), high(2), low(3), high(3)}};
}
ANNEAL_INLINE D16 operator+(D16 a, D16 b) {
#pragma GCC unroll 8
  for (int i = 0; i < 8; i++) a.v[i] = vaddq_f64(a.v[i], b.v[i]);
  return a;
}
ANNEAL_INLINE double sum_lanes(D16 x) {
  const float64x2_t even = vaddq_f64(vaddq_f64(x.v[0], x.v[4]), vaddq_f64(x.v[2], x.v[6]));
  const float64x2_t odd = vaddq_f64(vaddq_f64(x.v[1], x.v[5]), vaddq_f64(x.v[3], x.v[7]));
  return vpaddd_f64(vaddq_f64(even, odd));
}
ANNEAL_INLINE float lane0(F32x16 x) { return vgetq_lane_f32(x.v[0], 0); }

// Into the second-level cache: what is fetched ahead would not all fit the first.
ANNEAL_INLINE void prefetch(const void* p) { __builtin_prefetch(p, 0, 2); }
ANNEAL_INLINE void prefetch_near(const void* p) { __builtin_prefetch(p, 0, 3); }

// Of 64-bit groups: the even ones of both, the odd ones of both.
ANNEAL_INLINE uint32x4_t even_groups(uint32x4_t a, uint32x4_t b) {
  return vreinterpretq_u32_u64(vtrn1q_u64(vreinterpretq_u64_u32(a), vreinterpretq_u64_u32(b)));
}
ANNEAL_INLINE uint32x4_t odd_groups(uint32x4_t a, uint32x4_t b) {
  return vreinterpretq_u32_u64(vtrn2q_u64(vreinterpretq_u64_u32(a), vreinterpretq_u64_u32(b)));
}

// The 16 x 16 matrix of 32-bit elements r[row] lane column becomes r[column] lane row.
ANNEAL_INLINE void transpose16(I32x16* r) {
  I32x16 t[16];
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++)
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
      const I32x16* rows = r + 4 * i;
      const uint32x4_t a = vtrn1q_u32(rows[0].v[j], rows[1].v[j]), b = vtrn2q_u32(rows[0].v[j], rows[1].v[j]);
      const uint32x4_t c = vtrn1q_u32(rows[2].v[j], rows[3].v[j]), d = vtrn2q_u32(rows[2].v[j], rows[3].v[j]);
      t[4 * j].v[i] = even_groups(a, c);
      t[4 * j + 1].v[i] = even_groups(b, d);
      t[4 * j + 2].v[i] = odd_groups(a, c);
      t[4 * j + 3].v[i] = odd_groups(b, d);
    }
#pragma GCC unroll 16
  for (int i = 0; i < 16; i++) r[i] = t[i];
}

// A 16 x 16 block of words held as pairs: in, v[j] lane n = words (n, 2j), (n, 2j + 1); out, v[i] lane k = words (2i,
// k), (2i + 1, k).
ANNEAL_INLINE void transpose_pairs(I32x16* v) {
  // Within each 64-bit group: (n0 k0)(n0 k1)(n1 k0)(n1 k1) -> (n0 k0)(n1 k0)(n0 k1)(n1 k1); then 8 x 8 transposition of
  // the groups.
  const uint8_t order[16] = {0, 1, 4, 5, 2, 3, 6, 7, 8, 9, 12, 13, 10, 11, 14, 15};
  const uint8x16_t swap = vld1q_u8(order);
  const auto swapped = [&](uint32x4_t x) { return vreinterpretq_u32_u8(vqtbl1q_u8(vreinterpretq_u8_u32(x), swap)); };
  I32x16 t[8];
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++)
#pragma GCC unroll 4
    for (int j = 0; j < 4; j++) {
      const uint32x4_t a = swapped(v[2 * i].v[j]), b = swapped(v[2 * i + 1].v[j]);
      t[2 * j].v[i] = even_groups(a, b);
      t[2 * j + 1].v[i] = odd_groups(a, b);
    }
#pragma GCC unroll 8
  for (int i = 0; i < 8; i++) v[i] = t[i];
}

// Register tiles of the product: rows for 1, 2, 3, 4 panels side by side, and panels where rows are few. As for AVX2:
// twice the registers, of half the size.
constexpr int kTileRows[5] = {0, 6, 3, 2, 1};
constexpr int kWidenedTileRows[5] = {0, 5, 2, 2, 1};
constexpr int kManyRows = 16;                // from which on rows and panels of bfloat16 are widened once for all
constexpr int kWideK = 128, kWideRows = 64;  // of such a block
constexpr int kPairsAhead = 1;               // of panels to come, that a tile fetches at once
constexpr int kWidenedProductPanels = 12;    // rows are widened anew for so many
constexpr int kFewRows = 2;
constexpr int kFewRowsPanels = 3;
constexpr int kStreamedRows = 0;  // up to which rows go from panel to panel
constexpr int kWidenedFrom = 1;   // the same, from which on of bfloat16 that is widened
constexpr int kBestPanels = 1;
constexpr int kWidePanels = 1;         // of blocks that are widened
constexpr bool kWidensBeside = false;  // rows, beside products with the first panels
#ifdef __ARM_FEATURE_DOTPROD
constexpr int kCodeRows = 3, kCodePanels = 1;  // of products with quantised weights
#else
constexpr int kCodeRows = 2, kCodePanels = 1;
#endif
constexpr int kByteRows[2] = {0, kCodeRows};   // of those of 8 bits
constexpr int kWordRows = 4, kWordPanels = 1;  // the same, of 16 bits
constexpr int kTallWordRows = 0;               // of those: of one tile over two panels
constexpr int kWordsByTwo = 0;                 // beyond full tiles, up to which they go two by two
constexpr int kPackedRows = 2;                 // up to which codes below 8 bits stay in registers
constexpr int kPackedTileRows = 2;             // of these
constexpr int kPackedByteRows = 0;             // up to which codes of 8 bits do

}  // namespace
}  // namespace anneal::cpu
