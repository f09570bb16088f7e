// Numbers that share a scale as codes, of 8 bits where nothing else is said: nearest to x / scale, ties to even, with
// scale = absolute maximum / the largest code.
#pragma once
#include "simd.h"

namespace anneal::cpu {
namespace {

// Gathers what decides a scale.
struct CodeRange {
  I32x16 most = all_int(0);  // bits of absolute values, which are ordered as these are

  ANNEAL_INLINE void add(F32x16 x) { most = larger(most, as_int(x) & all_int(0x7fffffff)); }
};

struct CodeScale {
  float scale;  // NaN where a number was not finite: then so is what comes of its code, which is 0
  bool none;    // no number has a code other than 0
  F32x16 inverse;

  ANNEAL_INLINE explicit CodeScale(const CodeRange& range, float largest = 127) {
    const int bits = max_lanes(range.most);
    const float most = __builtin_bit_cast(float, bits);
    const bool wrong = bits >= 0x7f800000;
    // Below this the reciprocal would overflow.
    none = wrong || most < 1e-35f;
    scale = wrong ? __builtin_nanf("") : none ? 0.0f : most / largest;
    inverse = all(none ? 0.0f : largest / most);
  }
  // Code + kToNearest: in the low bits the code, as an integer of two's complement.
  ANNEAL_INLINE F32x16 shifted(F32x16 x) const { return none ? all(kToNearest) : x * inverse + all(kToNearest); }
  static constexpr float kToNearest = 12582912.0f;
};

}  // namespace
}  // namespace anneal::cpu
