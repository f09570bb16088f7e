// Which quantised weights are multiplied with activations as they are, because codes of 8 bits would lose too much of
// these. Decided once, by a text and the model alone.
#pragma once
#include <span>
#include <unordered_map>

#include "batch.h"
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

constexpr double kMaxActivationError = 0.05;

// Runs the text in the first pages, which nothing else uses yet, and makes weight-only what errs by more. Returns the
// names of these.
std::vector<std::string> gate_activations(Model&, Pages&, std::span<const int32_t> text);

}  // namespace anneal::cpu
