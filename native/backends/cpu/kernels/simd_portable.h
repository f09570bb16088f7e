// 16 float lanes in the compiler's own vector types: any architecture. Four vectors of 16 bytes, as larger ones, which
// few baselines have in registers, take minutes to compile. Where the baseline has no fused multiply-add it is computed
// exactly through double with rounding to odd.
#pragma once
#include "element.h"

namespace anneal::cpu {
namespace {

typedef float FloatQuarter __attribute__((vector_size(16)));
typedef int32_t IntQuarter __attribute__((vector_size(16)));
typedef uint32_t UintQuarter __attribute__((vector_size(16)));

struct F32x16 {
  FloatQuarter v[4];
};
struct I32x16 {
  UintQuarter v[4];
};
struct Mask16 {
  IntQuarter v[4];
};

// A vector of quarters: of(0), of(1), of(2), of(3).
template <class Vector, class Quarter> ANNEAL_INLINE Vector quarters(Quarter&& of) {
  return {{of(0), of(1), of(2), of(3)}};
}
template <class Quarter> ANNEAL_INLINE Quarter quarter_at(const void* p) {
  Quarter q;
  __builtin_memcpy(&q, p, sizeof q);
  return q;
}

ANNEAL_INLINE IntQuarter lane_numbers(int quarter) { return IntQuarter{0, 1, 2, 3} + 4 * quarter; }
ANNEAL_INLINE Mask16 first(int n) {
  return quarters<Mask16>([&](int i) { return lane_numbers(i) < n; });
}

ANNEAL_INLINE F32x16 all(float x) {
  return quarters<F32x16>([&](int) { return FloatQuarter{x, x, x, x}; });
}
ANNEAL_INLINE F32x16 zero() { return all(0); }
ANNEAL_INLINE I32x16 all_int(int x) {
  const uint32_t u = uint32_t(x);
  return quarters<I32x16>([&](int) { return UintQuarter{u, u, u, u}; });
}
ANNEAL_INLINE F32x16 load(const float* p, Full = {}) {
  return quarters<F32x16>([&](int i) { return quarter_at<FloatQuarter>(p + 4 * i); });
}
ANNEAL_INLINE F32x16 load(const float* p, Part n) {
  float lanes[kLanes] = {};
  for (int i = 0; i < n.n; i++) lanes[i] = p[i];
  return load(lanes);
}
ANNEAL_INLINE void store(float* p, F32x16 x, Full = {}) { __builtin_memcpy(p, &x, sizeof x); }
ANNEAL_INLINE void store(float* p, F32x16 x, Part n) {
  float lanes[kLanes];
  store(lanes, x);
  for (int i = 0; i < n.n; i++) p[i] = lanes[i];
}
ANNEAL_INLINE I32x16 load_int(const void* p) {
  return quarters<I32x16>([&](int i) { return quarter_at<UintQuarter>((const uint8_t*)p + 16 * i); });
}
ANNEAL_INLINE void store_int(void* p, I32x16 x) { __builtin_memcpy(p, &x, sizeof x); }
// 16 words, zero-extended to 32 bits.
ANNEAL_INLINE I32x16 load_words(const bf16* p, Full = {}) {
  return quarters<I32x16>([&](int i) {
    const bf16* w = p + 4 * i;
    return UintQuarter{w[0].bits, w[1].bits, w[2].bits, w[3].bits};
  });
}
ANNEAL_INLINE I32x16 load_words(const bf16* p, Part n) {
  bf16 words[kLanes] = {};
  for (int i = 0; i < n.n; i++) words[i] = p[i];
  return load_words(words);
}
ANNEAL_INLINE void store_words(bf16* p, I32x16 x, Part n) {
  uint32_t lanes[kLanes];
  store_int(lanes, x);
  for (int i = 0; i < n.n; i++) p[i].bits = uint16_t(lanes[i]);
}
ANNEAL_INLINE void store_words(bf16* p, I32x16 x, Full = {}) { store_words(p, x, Part{kLanes}); }

ANNEAL_INLINE F32x16 operator+(F32x16 a, F32x16 b) {
  return quarters<F32x16>([&](int i) { return a.v[i] + b.v[i]; });
}
ANNEAL_INLINE F32x16 operator-(F32x16 a, F32x16 b) {
  return quarters<F32x16>([&](int i) { return a.v[i] - b.v[i]; });
}
ANNEAL_INLINE F32x16 operator*(F32x16 a, F32x16 b) {
  return quarters<F32x16>([&](int i) { return a.v[i] * b.v[i]; });
}
ANNEAL_INLINE F32x16 operator/(F32x16 a, F32x16 b) {
  return quarters<F32x16>([&](int i) { return a.v[i] / b.v[i]; });
}

#if defined(__FMA__) || defined(__aarch64__) || defined(__riscv)
ANNEAL_INLINE FloatQuarter fma_quarter(FloatQuarter a, FloatQuarter b, FloatQuarter c) {
  for (int i = 0; i < 4; i++) c[i] = __builtin_fmaf(a[i], b[i], c[i]);
  return c;
}
#else
typedef double DoubleQuarter __attribute__((vector_size(32)));
typedef double DoublePair __attribute__((vector_size(16)));
typedef int64_t WordPair __attribute__((vector_size(16)));

// a * b + d rounded to odd in double: the product is exact, the sum's last bit remembers anything lost.
ANNEAL_INLINE DoublePair fma_to_odd(DoublePair a, DoublePair b, DoublePair d) {
  const DoublePair p = a * b;
  const DoublePair s = p + d;
  const DoublePair t = s - p;
  const DoublePair lost = (p - (s - t)) + (d - t);  // exact; NaN where s is infinite or NaN, which stay
  const WordPair up = lost > 0, inexact = up | (lost < 0), even = ((WordPair)s & 1) - 1;
  const WordPair inward = up ^ (s > 0);
  // An even result moves to the odd neighbour on the side of what was lost: + 1 outward, - 1 inward, in its bits.
  return (DoublePair)((WordPair)s + ((inward | 1) & inexact & even));
}

// Then the second rounding, to float, is the only one that counts (Boldo and Melquiond, 2008). Called: it is long.
[[gnu::noinline]] FloatQuarter fma_quarter(FloatQuarter a, FloatQuarter b, FloatQuarter c) {
  const DoubleQuarter wide[3] = {__builtin_convertvector(a, DoubleQuarter), __builtin_convertvector(b, DoubleQuarter),
                                 __builtin_convertvector(c, DoubleQuarter)};
  DoublePair x[2], y[2], z[2];
  __builtin_memcpy(x, &wide[0], 32);
  __builtin_memcpy(y, &wide[1], 32);
  __builtin_memcpy(z, &wide[2], 32);
  for (int i = 0; i < 2; i++) z[i] = fma_to_odd(x[i], y[i], z[i]);
  DoubleQuarter sum;
  __builtin_memcpy(&sum, z, 32);
  return __builtin_convertvector(sum, FloatQuarter);
}
#endif
ANNEAL_INLINE F32x16 fma(F32x16 a, F32x16 b, F32x16 c) {
  return quarters<F32x16>([&](int i) { return fma_quarter(a.v[i], b.v[i], c.v[i]); });
}
ANNEAL_INLINE F32x16 sqrt(F32x16 a) {
  return quarters<F32x16>([&](int i) {
    FloatQuarter q = a.v[i];
    for (int lane = 0; lane < 4; lane++) q[lane] = __builtin_sqrtf(q[lane]);
    return q;
  });
}
// The second operand when either is NaN.
ANNEAL_INLINE FloatQuarter larger(FloatQuarter a, FloatQuarter b) { return a > b ? a : b; }
ANNEAL_INLINE F32x16 max(F32x16 a, F32x16 b) {
  return quarters<F32x16>([&](int i) { return larger(a.v[i], b.v[i]); });
}
ANNEAL_INLINE F32x16 min(F32x16 a, F32x16 b) {
  return quarters<F32x16>([&](int i) { return a.v[i] < b.v[i] ? a.v[i] : b.v[i]; });
}
ANNEAL_INLINE Mask16 less(F32x16 a, F32x16 b) {
  return quarters<Mask16>([&](int i) { return a.v[i] < b.v[i]; });
}
ANNEAL_INLINE Mask16 at_least(F32x16 a, F32x16 b) {
  return quarters<Mask16>([&](int i) { return a.v[i] >= b.v[i]; });
}
// Bit i is lane i.
ANNEAL_INLINE uint32_t bits_of(Mask16 m) {
  IntQuarter bits = {};
  for (int i = 0; i < 4; i++) bits |= m.v[i] & (1 << lane_numbers(i));
  return uint32_t(bits[0] | bits[1] | bits[2] | bits[3]);
}
ANNEAL_INLINE Mask16 mask_of_bits(uint32_t bits) {
  return quarters<Mask16>([&](int i) { return ((int32_t(bits) >> lane_numbers(i)) & 1) != 0; });
}
ANNEAL_INLINE F32x16 select(Mask16 m, F32x16 yes, F32x16 no) {
  return quarters<F32x16>([&](int i) { return m.v[i] ? yes.v[i] : no.v[i]; });
}

ANNEAL_INLINE I32x16 as_int(F32x16 a) {
  return quarters<I32x16>([&](int i) { return (UintQuarter)a.v[i]; });
}
ANNEAL_INLINE F32x16 as_float(I32x16 a) {
  return quarters<F32x16>([&](int i) { return (FloatQuarter)a.v[i]; });
}
ANNEAL_INLINE I32x16 operator-(I32x16 a, I32x16 b) {
  return quarters<I32x16>([&](int i) { return a.v[i] - b.v[i]; });
}
// Of numbers from 0 on.
ANNEAL_INLINE I32x16 larger(I32x16 a, I32x16 b) {
  return quarters<I32x16>([&](int i) { return a.v[i] > b.v[i] ? a.v[i] : b.v[i]; });
}
ANNEAL_INLINE I32x16 operator+(I32x16 a, I32x16 b) {
  return quarters<I32x16>([&](int i) { return a.v[i] + b.v[i]; });
}
ANNEAL_INLINE I32x16 operator|(I32x16 a, I32x16 b) {
  return quarters<I32x16>([&](int i) { return a.v[i] | b.v[i]; });
}
ANNEAL_INLINE I32x16 operator&(I32x16 a, I32x16 b) {
  return quarters<I32x16>([&](int i) { return a.v[i] & b.v[i]; });
}
ANNEAL_INLINE I32x16 operator^(I32x16 a, I32x16 b) {
  return quarters<I32x16>([&](int i) { return a.v[i] ^ b.v[i]; });
}
template <int n> ANNEAL_INLINE I32x16 shift_left(I32x16 a) {
  return quarters<I32x16>([&](int i) { return a.v[i] << n; });
}
template <int n> ANNEAL_INLINE I32x16 shift_right(I32x16 a) {
  return quarters<I32x16>([&](int i) { return a.v[i] >> n; });
}

ANNEAL_INLINE F32x16 to_float(I32x16 a) {
  return quarters<F32x16>([&](int i) { return __builtin_convertvector((IntQuarter)a.v[i], FloatQuarter); });
}
// 16 bytes, zero-extended or sign-extended to 32 bits; and the low bytes of the lanes.
template <class Byte> ANNEAL_INLINE I32x16 widened(const Byte* p) {
  return quarters<I32x16>([&](int i) {
    const Byte* b = p + 4 * i;
    return (UintQuarter)IntQuarter{b[0], b[1], b[2], b[3]};
  });
}
// Of bytes below 16 those of a table.
ANNEAL_INLINE I32x16 look_up(const uint8_t* table, I32x16 x) {
  uint8_t bytes[4 * kLanes];
  __builtin_memcpy(bytes, x.v, sizeof(bytes));
  for (uint8_t& byte : bytes) byte = table[byte];
  __builtin_memcpy(x.v, bytes, sizeof(bytes));
  return x;
}
ANNEAL_INLINE I32x16 load_bytes(const void* p) { return widened((const uint8_t*)p); }
ANNEAL_INLINE I32x16 load_signed_bytes(const int8_t* p) { return widened(p); }
ANNEAL_INLINE void store_bytes(void* p, I32x16 x) {
  for (int i = 0; i < kLanes; i++) ((uint8_t*)p)[i] = uint8_t(x.v[i / 4][i % 4]);
}
// The sum of these as signed numbers.
ANNEAL_INLINE int sum_bytes(I32x16 x) {
  int sum = 0;
  for (int i = 0; i < kLanes; i++) sum += int8_t(x.v[i / 4][i % 4]);
  return sum;
}

// sum + the four products of unsigned bytes (codes) with signed bytes (x, at least -127) in every lane. dot_codes:
// codes below 128. dot_bytes: leaves it to the caller to subtract kByteOffset times the sum of x for codes that mean
// code - 128.
constexpr int kByteOffset = 128;
ANNEAL_INLINE I32x16 dot_codes(I32x16 sum, I32x16 codes, I32x16 x) {
  // Byte by byte, moved to the top of its lane and from there down with its sign.
  for (int byte = 0; byte < 4; byte++)
    for (int i = 0; i < 4; i++) {
      const IntQuarter code = (IntQuarter)((codes.v[i] >> (8 * byte)) & 0xff);
      const IntQuarter value = (IntQuarter)(x.v[i] << (24 - 8 * byte)) >> 24;
      sum.v[i] += (UintQuarter)(code * value);
    }
  return sum;
}
ANNEAL_INLINE I32x16 dot_bytes(I32x16 sum, I32x16 codes, I32x16 x) { return dot_codes(sum, codes, x); }
constexpr int code_chains(int) { return 1; }

// The signed word in the upper or the low half of every lane.
template <bool upper> ANNEAL_INLINE IntQuarter word_of(UintQuarter x) {
  return (IntQuarter)(upper ? x : x << 16) >> 16;
}
// sum += the products of both signed words in every lane.
ANNEAL_INLINE void add_products(I32x16& sum, I32x16 words, I32x16 x) {
  sum = quarters<I32x16>([&](int i) {
    return sum.v[i] + (UintQuarter)(word_of<false>(words.v[i]) * word_of<false>(x.v[i])) +
           (UintQuarter)(word_of<true>(words.v[i]) * word_of<true>(x.v[i]));
  });
}
// Words times 2^-14 of others, from 0 to 2^14, halves rounded up; below 2^14.
ANNEAL_INLINE I32x16 scale_words(I32x16 words, I32x16 factors) {
  return quarters<I32x16>([&](int i) {
    const auto scaled = [&](IntQuarter word, IntQuarter factor) {
      return (UintQuarter)((word * factor + (1 << 13)) >> 14) & 0xffff;
    };
    return scaled(word_of<false>(words.v[i]), word_of<false>(factors.v[i])) |
           scaled(word_of<true>(words.v[i]), word_of<true>(factors.v[i])) << 16;
  });
}

// bfloat16 of each lane in its low 16 bits (see narrow()).
ANNEAL_INLINE I32x16 round_words(F32x16 x) {
  return quarters<I32x16>([&](int i) {
    const UintQuarter u = (UintQuarter)x.v[i], upper = u >> 16;
    UintQuarter r = (u + (upper & 1) + 0x7fff) >> 16;
    r = (u & 0x7f800000u) == 0 ? upper & 0x8000u : r;
    return x.v[i] != x.v[i] ? upper | 0x40u : r;
  });
}

// Lanes i and i + 8, then i + 4, i + 2, i + 1: the one tree of every row reduction.
ANNEAL_INLINE float sum_lanes(F32x16 x) {
  const FloatQuarter s = (x.v[0] + x.v[2]) + (x.v[1] + x.v[3]);
  return (s[0] + s[2]) + (s[1] + s[3]);
}
ANNEAL_INLINE float larger(float a, float b) { return a > b ? a : b; }
ANNEAL_INLINE float max_lanes(F32x16 x) {
  const FloatQuarter s = larger(larger(x.v[0], x.v[2]), larger(x.v[1], x.v[3]));
  return larger(larger(s[0], s[2]), larger(s[1], s[3]));
}
ANNEAL_INLINE int max_lanes(I32x16 x) {
  uint32_t most = 0;
  for (int i = 0; i < kLanes; i++) most = x.v[i / 4][i % 4] > most ? x.v[i / 4][i % 4] : most;
  return int(most);
}
// 16 lanes of double.
struct D16 {
  double v[kLanes];
};
ANNEAL_INLINE D16 widen(F32x16 x) {
  D16 r;
  for (int i = 0; i < kLanes; i++) r.v[i] = double(x.v[i / 4][i % 4]);
  return r;
}
ANNEAL_INLINE D16 operator+(D16 a, D16 b) {
  for (int i = 0; i < kLanes; i++) a.v[i] += b.v[i];
  return a;
}
ANNEAL_INLINE double sum_lanes(D16 x) {
  for (int half = kLanes / 2; half > 0; half /= 2)
    for (int i = 0; i < half; i++) x.v[i] += x.v[i + half];
  return x.v[0];
}
ANNEAL_INLINE float lane0(F32x16 x) { return x.v[0][0]; }

// Into the second-level cache: what is fetched ahead would not all fit the first.
ANNEAL_INLINE void prefetch(const void* p) { __builtin_prefetch(p, 0, 2); }
ANNEAL_INLINE void prefetch_near(const void* p) { __builtin_prefetch(p, 0, 3); }

// The 16 x 16 matrix of 32-bit elements r[row] lane column becomes r[column] lane row.
[[gnu::noinline, gnu::unused]] void transpose16(I32x16* r) {
  uint32_t in[16][16], out[16][16];
  __builtin_memcpy(in, r, sizeof in);
  for (int i = 0; i < 16; i++)
    for (int j = 0; j < 16; j++) out[i][j] = in[j][i];
  __builtin_memcpy(r, out, sizeof out);
}

// A 16 x 16 block of words held as pairs: in, v[j] lane n = words (n, 2j), (n, 2j + 1); out, v[i] lane k = words (2i,
// k), (2i + 1, k).
[[gnu::noinline, gnu::unused]] void transpose_pairs(I32x16* v) {
  uint16_t in[8][16][2], out[8][16][2];
  __builtin_memcpy(in, v, sizeof in);
  for (int n = 0; n < 16; n++)
    for (int k = 0; k < 16; k++) out[n / 2][k][n & 1] = in[k / 2][n][k & 1];
  __builtin_memcpy(v, out, sizeof out);
}

// Register tiles of the product: rows for 1, 2, 3, 4 panels side by side, and panels where rows are few.
#if defined(__aarch64__)
constexpr int kTileRows[5] = {0, 5, 2, 1, 1};
constexpr int kWidenedTileRows[5] = {0, 4, 2, 1, 1};
#else
constexpr int kTileRows[5] = {0, 2, 1, 1, 1};
constexpr int kWidenedTileRows[5] = {0, 2, 1, 1, 1};
#endif
constexpr int kManyRows = 16;                // from which on rows and panels of bfloat16 are widened once for all
constexpr int kWideK = 128, kWideRows = 64;  // of such a block
constexpr int kPairsAhead = 1;               // of panels to come, that a tile fetches at once
constexpr int kWidenedProductPanels = 12;    // rows are widened anew for so many
constexpr int kFewRows = 1;
constexpr int kFewRowsPanels = 1;
constexpr int kStreamedRows = 0;  // up to which rows go from panel to panel
constexpr int kWidenedFrom = 1;   // the same, from which on of bfloat16 that is widened
constexpr int kBestPanels = 1;
constexpr int kWidePanels = 1;                 // of blocks that are widened
constexpr bool kWidensBeside = false;          // rows, beside products with the first panels
constexpr int kCodeRows = 1, kCodePanels = 1;  // of products with quantised weights
constexpr int kByteRows[2] = {0, kCodeRows};   // of those of 8 bits
constexpr int kWordRows = 2, kWordPanels = 1;  // the same, of 16 bits
constexpr int kTallWordRows = 0;               // of those: of one tile over two panels
constexpr int kWordsByTwo = 0;                 // beyond full tiles, up to which they go two by two
constexpr int kPackedRows = 1;                 // up to which codes below 8 bits stay in registers
constexpr int kPackedTileRows = 1;             // of these
constexpr int kPackedByteRows = 0;             // up to which codes of 8 bits do

}  // namespace
}  // namespace anneal::cpu
