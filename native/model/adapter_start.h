// What the A of a new adapter begins with, on every device: B begins with zeros.
#pragma once
#include <cmath>
#include <cstdint>

#include "tensors.h"

namespace anneal::model {

inline uint64_t mixed(uint64_t x) {  // the finaliser of SplitMix64
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

// Row-major A [rank][inputs] of a layer's module, rows `ld` apart: Kaiming-uniform with a = sqrt(5), which is uniform
// in
// +-1 / sqrt(inputs); a function of the seed and the place alone. Rows [row, row + count).
inline void start_adapter(uint64_t seed, int layer, int module, int inputs, int row, int count, float* to, int64_t ld) {
  const float bound = 1 / std::sqrt(float(inputs));
  const uint64_t stream = module <= kDown ? uint64_t(layer) * (kDown + 1) + module : (uint64_t(module) << 32) + layer;
  for (int r = row; r < row + count; r++)
    for (int i = 0; i < inputs; i++) {
      const uint64_t index = uint64_t(r) * inputs + i;
      const uint64_t bits = mixed(mixed(mixed(seed + 0x9e3779b97f4a7c15ull) ^ stream) + index * 0x9e3779b97f4a7c15ull);
      to[r * ld + i] = bound * (float(int64_t(bits >> 40) - (1 << 23)) * (1.0f / (1 << 23)));
    }
}

}  // namespace anneal::model
