// exp, log and tanh in float32, the same bits on every machine: polynomials of our own, no libm.
#pragma once
#include "simd.h"

namespace anneal::cpu {
namespace {

constexpr float kLn2High = 0x1.62e4p-1f;           // 15 bits: n * kLn2High is exact
constexpr float kLn2Low = 1.4286068203094172e-6f;  // ln 2 - kLn2High
constexpr float kLog2e = 1.4426950408889634f;
constexpr float kExpLowest = -87.336544f;  // below: the result would be denormal, and is 0
constexpr float kExpHighest = 88.37626f;   // above: the result stays at exp(kExpHighest) = 2.4e38

// e^x. At most 1 ulp off (measured); 0 below kExpLowest, also for -infinity; NaN stays NaN.
ANNEAL_INLINE F32x16 exp(F32x16 x) {
  F32x16 limited = min(all(kExpHighest), x);
  // Adding 1.5 * 2^23 rounds to an integer, which then stands in the low bits.
  const F32x16 shift = all(12582912.0f);
  F32x16 shifted = fma(limited, all(kLog2e), shift);
  F32x16 n = shifted - shift;
  F32x16 r = fma(n, all(-kLn2Low), fma(n, all(-kLn2High), limited));  // |r| <= ln 2 / 2
  // e^r = 1 + r + r^2 q(r); q of degree 4 with least relative error (4.4e-9).
  F32x16 q = fma(all(1.381446724e-03f), r, all(8.368780836e-03f));
  q = fma(q, r, all(4.166839272e-02f));
  q = fma(q, r, all(1.666651964e-01f));
  q = fma(q, r, all(4.999999404e-01f));
  F32x16 p = fma(q, r * r, r) + all(1.0f);
  // Times 2^n, by the exponent bits: p in [0.70, 1.42] and n in [-126, 127].
  F32x16 y = as_float(as_int(p) + shift_left<23>(as_int(shifted)));
  return select(less(x, all(kExpLowest)), zero(), y);
}

ANNEAL_INLINE float exp(float x) { return lane0(exp(all(x))); }

// ln x of a positive, normal x: at most 1 ulp off (measured). NaN for NaN and infinity.
ANNEAL_INLINE F32x16 log(F32x16 x) {
  // x = 2^n m with m in [sqrt(1/2), sqrt(2)): 0x3f3504f3 is sqrt(1/2).
  I32x16 offset = as_int(x) + all_int(0x3f800000 - 0x3f3504f3);
  F32x16 m = as_float((offset & all_int(0x007fffff)) + all_int(0x3f3504f3));
  // The biased exponent as a float: 2^23 + e, less 2^23 + 127.
  F32x16 n = as_float(shift_right<23>(offset) | all_int(0x4b000000)) - all(8388608.0f + 127.0f);
  // ln m = 2 atanh(s), s = f / (2 + f), |s| <= 0.1716; written as f - (f^2/2 - s (f^2/2 + tail)) to keep f exact.
  F32x16 f = m - all(1.0f);
  F32x16 s = f / (all(2.0f) + f);
  F32x16 z = s * s;
  F32x16 tail = fma(all(2.0f / 9), z, all(2.0f / 7));
  tail = fma(tail, z, all(2.0f / 5));
  tail = fma(tail, z, all(2.0f / 3)) * z;
  F32x16 half_square = all(0.5f) * f * f;
  F32x16 low = fma(s, half_square + tail, fma(n, all(kLn2Low), x - x));
  return fma(n, all(kLn2High), f - (half_square - low));
}

// tanh x, within 2 ulp of its largest value: an odd polynomial (Cephes' tanhf) below 0.625, 1 - 2 / (e^2x + 1) above.
ANNEAL_INLINE F32x16 tanh(F32x16 x) {
  const F32x16 size = max(x, negate(x)), z = x * x;
  F32x16 q = fma(all(-5.70498872745e-3f), z, all(2.06390887954e-2f));
  q = fma(q, z, all(-5.37397155531e-2f));
  q = fma(q, z, all(1.33314422036e-1f));
  q = fma(q, z, all(-3.33332819422e-1f));
  const F32x16 near = fma(q * z, x, x);
  const F32x16 far = all(1.0f) - all(2.0f) / (exp(size + size) + all(1.0f));
  return select(less(size, all(0.625f)), near, select(less(x, zero()), negate(far), far));
}

ANNEAL_INLINE float log(float x) { return lane0(log(all(x))); }
ANNEAL_INLINE float sqrt(float x) { return __builtin_sqrtf(x); }

}  // namespace
}  // namespace anneal::cpu
