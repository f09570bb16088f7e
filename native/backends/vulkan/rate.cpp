#include "rate.h"

#include <algorithm>
#include <chrono>

#include "commands.h"

namespace anneal::vulkan {
namespace {

constexpr int64_t kMaxBytes = int64_t(512) << 20;  // read at once: more than caches hold
constexpr int kThreads = 256, kChains = 16, kGroups = 4096;
constexpr int kMatrixSums = 8, kMatrixGroups = 512;  // of a subgroup (shaders/rate_matrix.comp)
constexpr double kSeconds = 0.05;                    // of a measurement at least
constexpr int kMeasurements = 3;

// Units of work in a second, the best of some measurements; `work` does as many units as it is told in one submission.
template <class F> double best_rate(F&& work) {
  using Clock = std::chrono::steady_clock;
  const auto seconds_of = [&](int64_t units) {
    const auto began = Clock::now();
    work(units);
    return std::chrono::duration<double>(Clock::now() - began).count();
  };
  int64_t units = 1;
  while (seconds_of(units) < kSeconds && units < (int64_t(1) << 20)) units *= 2;
  double best = 0;
  for (int i = 0; i < kMeasurements; i++) best = std::max(best, double(units) / seconds_of(units));
  return best;
}

}  // namespace

GpuRate measure_rate(const std::shared_ptr<Gpu>& gpu) {
  const int64_t bytes = std::min({kMaxBytes, gpu->facts().max_allocation, gpu->available() / 4}) / 4096 * 4096;
  gpu->plan("measuring", bytes);
  Memory memory(gpu, bytes), numbers(gpu, 8, Memory::Place::upload);
  numbers.mapped<float>()[0] = 0.5f, numbers.mapped<float>()[1] = 0.25f;
  Commands commands(gpu);
  commands.zero(memory, 0, bytes);
  commands.run();

  const int64_t granules = bytes / 16, groups = std::min<int64_t>(kGroups, (granules + kThreads - 1) / kThreads);
  const double reads = best_rate([&](int64_t times) {
    const struct {
      uint64_t from, to;
      int32_t count, all;
    } parameters{memory.address(), numbers.address(), int32_t(granules), int32_t(groups * kThreads)};
    for (int64_t i = 0; i < times; i++) {
      commands.dispatch(gpu->pipeline(Shader::kRateRead), parameters, groups);
      commands.barrier();
    }
    commands.run();
  });
  const double mads = best_rate([&](int64_t steps) {
    const struct {
      uint64_t numbers;
      int32_t steps, padding;
    } parameters{numbers.address(), int32_t(steps), 0};
    commands.dispatch(gpu->pipeline(Shader::kRateMad), parameters, kGroups);
    commands.run();
  });
  double matrices = 0;
  if (const MatrixShape& m = gpu->facts().matrices) {
    matrices = best_rate([&](int64_t steps) {
      const struct {
        uint64_t numbers;
        int32_t steps, padding;
      } parameters{numbers.address(), int32_t(steps), 0};
      commands.dispatch(gpu->matrix_pipeline(Shader::kRateMatrix, {0, 0, 0, 0, 0, 0}), parameters, kMatrixGroups);
      commands.run();
    });
    matrices *= 2.0 * m.m * m.n * m.k * kMatrixSums * kMatrixSubgroups * kMatrixGroups;
  }
  return {reads * double(bytes), mads * 2 * kChains * kThreads * kGroups, matrices};
}

}  // namespace anneal::vulkan
