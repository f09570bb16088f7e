#include "layout.h"

#include <cstring>

namespace anneal::vulkan {

void pack_rows(ElementType t, const float* from, int64_t ld, int rows, int k, char* to) {
  const int granule = t.granule(), granules = t.granules(k);
  for (int r = 0; r < rows; r++) {
    char* at = to + (int64_t(r / kPanel) * granules * kPanel + r % kPanel) * 16;
    const float* row = from + r * ld;
    for (int i = 0; i < k; i++) {
      char* element = at + int64_t(i / granule) * kPanel * 16 + i % granule * t.bytes();
      if (t.bf16) {
        const uint16_t bits = narrowed(row[i]);
        std::memcpy(element, &bits, 2);
      } else {
        const float value = flushed(row[i]);
        std::memcpy(element, &value, 4);
      }
    }
  }
}

}  // namespace anneal::vulkan
