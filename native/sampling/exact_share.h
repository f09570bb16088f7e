// Shares of a sum of probabilities, exactly: so that a draw does not depend on the order in which a device adds.
#pragma once
#include <cstdint>

namespace anneal::sampling {

// The sampler counts unnormalised probabilities, 1 at most, in units of 2^-31: sums of them are integers, below 2^53
// for any vocabulary, which doubles hold.
inline constexpr double kProbabilityUnit = 0x1p-31;

// total * fraction / 2^53, rounded down; total below 2^53, fraction at most 2^53.
inline uint64_t exact_share(uint64_t total, uint64_t fraction) {
  constexpr uint64_t low = 0xffffffffu;
  const uint64_t first = (total & low) * (fraction & low), second = (total >> 32) * (fraction & low),
                 third = (total & low) * (fraction >> 32);
  const uint64_t middle = (first >> 32) + (second & low) + (third & low);
  const uint64_t high = (total >> 32) * (fraction >> 32) + (second >> 32) + (third >> 32) + (middle >> 32);
  return high << 11 | (middle & low) >> 21;
}

// 1 - top_p as such a fraction.
inline uint64_t fraction_below(float top_p) { return uint64_t((1.0 - double(top_p)) * 0x1p53); }

}  // namespace anneal::sampling
