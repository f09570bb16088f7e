#include "activation_probe.h"

#include <cmath>
#include <vector>

namespace anneal::cpu {

void ActivationProbe::compare(const Kernels& k, const Linear& w, const Input& x, const Tile& t) {
  if (!w.takes_codes()) return;
  const int cols = std::min(t.panels * kLanes, w.n - t.panel * kLanes);
  std::vector<float> codes(size_t(t.rows) * t.panels * kLanes), floats(codes.size());
  multiply(k, w, x, t, codes.data(), int64_t(t.panels) * kLanes, false);
  k.of(w.format).dequantized_product(
      x.at(t.row), x.ld, t.rows, w.panels + t.panel * panel_bytes(k, w), w.k, t.panels, floats.data(),
      int64_t(t.panels) * kLanes, false);
  Squares& sums = squares_[&w];
  for (int row = 0; row < t.rows; row++)
    for (int col = 0; col < cols; col++) {
      const size_t at = size_t(row) * t.panels * kLanes + col;
      const double difference = double(codes[at]) - floats[at];
      sums.difference += difference * difference, sums.product += double(floats[at]) * floats[at];
    }
}

double ActivationProbe::error(const Linear& w) const {
  const auto found = squares_.find(&w);
  if (found == squares_.end() || found->second.product == 0) return 0;
  return std::sqrt(found->second.difference / found->second.product);
}

}  // namespace anneal::cpu
