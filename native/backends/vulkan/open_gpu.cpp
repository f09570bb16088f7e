#include "open_gpu.h"

#include <map>
#include <mutex>

#include "probe.h"

namespace anneal::vulkan {

namespace {

std::mutex mutex;
std::map<int, std::weak_ptr<Gpu>> known;
std::map<int, std::vector<uint8_t>> restored;

}  // namespace

void restore_pipelines(int index, std::vector<uint8_t> data) {
  std::lock_guard lock(mutex);
  restored[index] = std::move(data);
}

std::vector<uint8_t> pipelines_of(int index) {
  std::shared_ptr<Gpu> gpu;
  {
    std::lock_guard lock(mutex);
    gpu = known[index].lock();
  }
  return gpu ? gpu->pipelines() : std::vector<uint8_t>();
}

std::shared_ptr<Gpu> open_gpu(int index) {
  std::lock_guard lock(mutex);
  if (auto gpu = known[index].lock(); gpu && !gpu->lost()) return gpu;

  auto gpu = std::make_shared<Gpu>(index, restored[index]);
  gpu->set_arithmetic({.fused = true});
  GpuArithmetic found = probe_arithmetic(gpu);
  if (!found.fused) {
    if (!gpu->has_doubles())
      throw backends::UnusableDevice(gpu->facts().name + " lacks fused multiply-adds, and doubles to replace them");
    gpu->set_arithmetic({});
    found.exact = probe_arithmetic(gpu).exact;
  }
  found.max_turns = probe_turns(gpu);
  gpu->set_arithmetic(found);
  known[index] = gpu;
  return gpu;
}

}  // namespace anneal::vulkan
