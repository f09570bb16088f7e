#include "open_gpu.h"

#include <map>
#include <mutex>

#include "probe.h"

namespace anneal::vulkan {

std::shared_ptr<Gpu> open_gpu(int index) {
  static std::mutex mutex;
  static std::map<int, std::weak_ptr<Gpu>> known;
  std::lock_guard lock(mutex);
  if (auto gpu = known[index].lock(); gpu && !gpu->lost()) return gpu;

  auto gpu = std::make_shared<Gpu>(index);
  gpu->set_arithmetic({.fused = true});
  GpuArithmetic found = probe_arithmetic(gpu);
  if (!found.fused) {
    if (!gpu->has_doubles())
      throw backends::UnusableDevice(gpu->facts().name + " lacks fused multiply-adds, and doubles to replace them");
    gpu->set_arithmetic({});
    found.exact = probe_arithmetic(gpu).exact;
  }
  gpu->set_arithmetic(found);
  known[index] = gpu;
  return gpu;
}

}  // namespace anneal::vulkan
