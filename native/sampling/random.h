// Counter-based random numbers: a draw is a function of (seed, stream, counter, draw) alone, so it does not depend on
// what else runs or on how often a step was repeated. Philox 4x32 with 10 rounds (Salmon et al., "Parallel random
// numbers: as easy as 1, 2, 3", SC 2011).
#pragma once
#include <array>
#include <cstdint>

namespace anneal::sampling {

inline std::array<uint32_t, 4> philox(uint64_t key, std::array<uint32_t, 4> counter) {
  uint32_t k0 = uint32_t(key), k1 = uint32_t(key >> 32);
  for (int round = 0; round < 10; round++) {
    const uint64_t p0 = uint64_t(0xD2511F53u) * counter[0], p1 = uint64_t(0xCD9E8D57u) * counter[2];
    counter = {uint32_t(p1 >> 32) ^ counter[1] ^ k0, uint32_t(p1), uint32_t(p0 >> 32) ^ counter[3] ^ k1, uint32_t(p0)};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return counter;
}

// Uniform below 2^53.
inline uint64_t uniform53(uint64_t seed, uint32_t stream, uint32_t position, uint32_t draw) {
  const auto r = philox(seed, {stream, position, draw, 0});
  return (uint64_t(r[0]) << 32 | r[1]) >> 11;
}

}  // namespace anneal::sampling
