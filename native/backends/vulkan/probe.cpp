#include "probe.h"

#include <bit>
#include <cmath>
#include <cstring>

#include "commands.h"

namespace anneal::vulkan {
namespace {

// Of the processor's kernels' results (vulkan_test.cpp computes them again).
constexpr uint64_t kExpected[kProbes] = {0x7ba5a61effa7470bull, 0x7ba5a61effa7470bull, 0x6fc62b3fdfe27f3dull,
                                         0x4a35cd5200c5d05full, 0xb0dab600b4654c0eull, 0xd419e1b5ee447b6eull,
                                         0x3f8f3c0ae46c4848ull, 0x6cf69b690e74a0f3ull, 0x8eefa13e7c23d94cull,
                                         0x7d324a3c39cba5cbull, 0x70c7cc119b806325ull, 0xa56b374a529aed14ull};

struct Random {
  uint64_t state = 1;
  uint32_t next() {  // the upper half of Knuth's MMIX generator
    state = state * 6364136223846793005ull + 1442695040888963407ull;
    return uint32_t(state >> 32);
  }
  // Of either sign, 2^low to 2^high.
  float number(int low, int high) {
    const uint32_t exponent = uint32_t(127 + low) + next() % uint32_t(high - low);
    return std::bit_cast<float>((next() & 0x80000000u) | exponent << 23 | (next() & 0x7fffffu));
  }
};

}  // namespace

std::vector<float> probe_inputs() {
  Random random;
  std::vector<float> all(size_t(3) * kProbeCount);
  float *a = all.data(), *b = a + kProbeCount, *c = b + kProbeCount;
  for (int i = 0; i < kProbeCount; i++) {
    const int kind = i % 8;
    const int range = kind == 0 ? 126 : kind == 1 ? 60 : 6;
    a[i] = random.number(-range, range), b[i] = random.number(-range, range), c[i] = random.number(-range, range);
    if (kind == 2 || kind == 3) {
      // A sum of which nothing is left but what rounding the product alone would lose.
      const double product = double(a[i]) * double(b[i]);
      c[i] = -float(product);
    }
    if (kind == 4) c[i] *= 0x1p-24f;  // near ties
    if (kind == 5) b[i] = std::bit_cast<float>(std::bit_cast<uint32_t>(b[i]) | 0x7fffff);
    if (i % 61 == 0) a[i] = 0;
    if (i % 67 == 0) c[i] = std::bit_cast<float>(0x80000000u);
    if (i % 128 == 7) a[i] = random.number(-120, -60), b[i] = random.number(-66, -30);  // products underflow
  }
  return all;
}

uint64_t expected_hash(Probe p) { return kExpected[p]; }

uint64_t probe_hash(const float* results) {
  uint64_t hash = 0xcbf29ce484222325ull;  // FNV-1a, a number at a time
  for (int i = 0; i < kProbeCount; i++) {
    uint32_t bits;
    std::memcpy(&bits, results + i, 4);
    if ((bits & 0x7fffffffu) > 0x7f800000u) bits = 0x7fc00000u;
    if ((bits & 0x7f800000u) == 0) bits &= 0x80000000u;
    hash = (hash ^ bits) * 0x100000001b3ull;
  }
  return hash;
}

std::vector<float> run_probes(const std::shared_ptr<Gpu>& gpu) {
  const std::vector<float> inputs = probe_inputs();
  constexpr int64_t row = int64_t(kProbeCount) * 4;
  Memory in(gpu, 3 * row, Memory::Place::upload), out(gpu, kProbes * row, Memory::Place::readback);
  std::memcpy(in.mapped<char>(), inputs.data(), size_t(in.bytes()));
  const struct {
    uint64_t a, b, c, results;
    int32_t n;
    int32_t padding;
  } parameters{in.address(), in.address() + row, in.address() + 2 * row, out.address(), kProbeCount, 0};
  Commands commands(gpu);
  commands.dispatch(gpu->pipeline(Shader::kProbe), parameters, kProbeCount / 64);
  commands.run();

  const float* results = out.mapped<float>();
  return {results, results + kProbes * kProbeCount};
}

int probe_turns(const std::shared_ptr<Gpu>& gpu) {
  constexpr int kWanted = 1 << 18;
  Memory taken(gpu, 8, Memory::Place::readback);
  const struct {
    uint64_t taken;
    int32_t wanted, padding;
  } parameters{taken.address(), kWanted, 0};
  Commands commands(gpu);
  commands.dispatch(gpu->pipeline(Shader::kTurns), parameters, 1);
  commands.run();

  const int found = *taken.mapped<int32_t>();
  return found >= kWanted ? GpuArithmetic::kNoEnd : found;
}

GpuArithmetic probe_arithmetic(const std::shared_ptr<Gpu>& gpu) {
  const std::vector<float> results = run_probes(gpu);
  uint64_t found[kProbes];
  for (int p = 0; p < kProbes; p++) found[p] = probe_hash(results.data() + int64_t(p) * kProbeCount);
  GpuArithmetic result;
  result.fused = found[kFma] == kExpected[kFma];
  result.exact = true;
  for (int p = kMad; p < kProbes; p++) result.exact &= found[p] == kExpected[p];
  return result;
}

}  // namespace anneal::vulkan
