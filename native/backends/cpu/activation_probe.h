// What products lose by codes of 8 bits, seen as they are made.
#pragma once
#include <unordered_map>

#include "products.h"

namespace anneal::cpu {

// Compares products with codes to those without, of every weight on its own inputs.
class ActivationProbe {
 public:
  void compare(const Kernels&, const Linear&, const Input&, const Tile&);
  // Norm of the differences over that of the products.
  double error(const Linear&) const;

 private:
  struct Squares {
    double difference = 0, product = 0;
  };
  std::unordered_map<const Linear*, Squares> squares_;
};

// Tile c [t.rows][t.panels * 16] (+)= x W^T + bias, as the probe is shown it.
inline void linear_product(const Model& m, const Linear& w, const Input& x, const Tile& t, float* c, int64_t ldc,
                           bool accumulate) {
  if (m.probe) m.probe->compare(m.kernels, w, x, t);
  multiply(m.kernels, w, x, t, c, ldc, accumulate);
  if (w.bias.empty()) return;
  const int col = t.panel * kLanes, cols = std::min(t.panels * kLanes, w.n - col);
  m.kernels.bias_add(c, ldc, t.rows, cols, w.bias.data() + col);
}

}  // namespace anneal::cpu
