// Computes a few thousand chosen numbers on a GPU and compares the bits with those of the processor's kernels.
#pragma once
#include <array>

#include "gpu.h"

namespace anneal::vulkan {

// [kProbes][kProbeCount]
std::vector<float> run_probes(const std::shared_ptr<Gpu>&);
int probe_turns(const std::shared_ptr<Gpu>&);  // GpuArithmetic::max_turns
GpuArithmetic probe_arithmetic(const std::shared_ptr<Gpu>&);

// What shaders/probe.comp computes of every triple, in its order.
enum Probe : int {
  kFma,
  kMad,
  kSum,
  kDifference,
  kProduct,
  kQuotient,
  kRoot,
  kExp,
  kLog,
  kTanh,
  kNarrow,
  kUnfused,
  kProbes
};
constexpr int kProbeCount = 4096;  // triples
// [3][kProbeCount]: normal numbers and zeros, many of them such that an operation cancels or underflows.
std::vector<float> probe_inputs();
uint64_t expected_hash(Probe);  // of the processor's kernels' results
// Of a row of results; all NaN are one, and denormals zeros: not every device can be told to flush them.
uint64_t probe_hash(const float* results);

}  // namespace anneal::vulkan
