// How far a device's arithmetic is from the exact one, for a model.
#pragma once
#include "../backends/backend.h"

namespace anneal::inference {

// The mean absolute difference of log-probabilities of these tokens, each given those before it, between the backend's
// arithmetic and the exact one; 0 of a backend that knows no other. Uses its first pages.
double difference_to_exact(backends::Backend&, std::span<const int32_t> text);

}  // namespace anneal::inference
