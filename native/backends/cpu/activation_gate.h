// Which quantised weights are multiplied with activations as they are, because codes of 8 bits would lose too much of
// these. Decided once, by a text and the model alone.
#pragma once
#include <string>
#include <vector>

#include "batch.h"

namespace anneal::cpu {

constexpr double kMaxActivationError = 0.05;

// Runs the text in the first pages, which nothing else uses yet, and makes weight-only what errs by more. Returns the
// names of these.
std::vector<std::string> gate_activations(Model&, Pages&, RecurrentStates&, const backends::GateText&);

}  // namespace anneal::cpu
