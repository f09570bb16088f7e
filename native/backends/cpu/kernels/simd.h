// The vector layer that its includer asks for: by compiler flags, or by ANNEAL_NEON where NEON is the baseline.
#pragma once
#if defined(__AVX512F__)
#include "simd_avx512.h"
#elif defined(__AVX2__)
#include "simd_avx2.h"
#elif defined(ANNEAL_NEON)
#include "simd_neon.h"
#else
#include "simd_portable.h"
#endif

namespace anneal::cpu {
namespace {

// 16 lanes of T as float32 and back.
template <class Lanes = Full> ANNEAL_INLINE F32x16 load(const bf16* p, Lanes lanes = {}) {
  return as_float(shift_left<16>(load_words(p, lanes)));
}
template <class Lanes = Full> ANNEAL_INLINE void store(bf16* p, F32x16 x, Lanes lanes = {}) {
  store_words(p, round_words(x), lanes);
}

ANNEAL_INLINE F32x16 negate(F32x16 x) { return as_float(as_int(x) ^ all_int(int(0x80000000u))); }

#ifndef __AVX2__
// 16 float16. A small one has no exponent of float32 to be moved to: flushing it to zero would lose it.
ANNEAL_INLINE F32x16 load_halves(const uint16_t* p) {
  const I32x16 bits = load_words((const bf16*)p), rest = bits & all_int(0x7fff), sign = bits & all_int(0x8000);
  const F32x16 number = to_float(rest), small = number * all(0x1p-24f);
  const F32x16 normal = as_float(shift_left<13>(rest) + all_int(112 << 23));
  return as_float(as_int(select(less(number, all(1024)), small, normal)) | shift_left<16>(sign));
}
#endif

#ifndef __AVX2__
// The first n lanes, and zeros.
ANNEAL_INLINE I32x16 load_int(const void* p, Part n) {
  alignas(64) uint32_t lanes[kLanes] = {};
  __builtin_memcpy(lanes, p, size_t(n.n) * sizeof(uint32_t));
  return load_int(lanes);
}
#endif

#ifndef __AVX512BF16__
// bfloat16 of `low` in the low words, of `high` in the upper ones.
ANNEAL_INLINE I32x16 round_pairs(F32x16 low, F32x16 high) {
  return round_words(low) | shift_left<16>(round_words(high));
}
#endif

// Where transpose_quads puts the row of a lane.
constexpr int quad_row(int lane) { return lane % 4 * 64 + lane / 4 * 16; }
#ifndef __AVX512F__
// Four vectors of [16 lanes][4 bytes] to 16 rows of 16 bytes: of each lane those of all four.
ANNEAL_INLINE void transpose_quads(const uint8_t* from, uint8_t* rows) {
  for (int lane = 0; lane < kLanes; lane++)
    for (int v = 0; v < 4; v++) __builtin_memcpy(rows + quad_row(lane) + v * 4, from + (v * kLanes + lane) * 4, 4);
}
#endif

// x as T holds it, and into memory where there is any.
template <class Lanes> ANNEAL_INLINE F32x16 round_into(float* p, F32x16 x, Lanes lanes) {
  if (p) store(p, x, lanes);
  return x;
}
template <class Lanes> ANNEAL_INLINE F32x16 round_into(bf16* p, F32x16 x, Lanes lanes) {
  const I32x16 words = round_words(x);
  if (p) store_words(p, words, lanes);
  return as_float(shift_left<16>(words));
}

// Lanes that a partial step leaves out become `other` before a maximum.
ANNEAL_INLINE F32x16 keep(F32x16 x, Full, float) { return x; }
ANNEAL_INLINE F32x16 keep(F32x16 x, Part n, float other) { return select(first(n.n), x, all(other)); }

template <class T> ANNEAL_INLINE void zero_fill(T* p, int64_t from, int64_t to) {
  for (int64_t i = from; i < to; i++) p[i] = T{};
}

}  // namespace
}  // namespace anneal::cpu
