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

}  // namespace anneal::cpu
