// How fast a GPU could be: the limits that what is measured on it stands beside.
#pragma once
#include "gpu.h"

namespace anneal::vulkan {

struct GpuRate {
  double bandwidth;          // bytes read from its memory in a second
  double operations;         // of multiply-adds as products are computed, two each, in a second
  double matrix_operations;  // the same on cooperative matrices; 0: it has none
};
// Takes about a second. Throws NoDeviceMemory, DeviceLost.
GpuRate measure_rate(const std::shared_ptr<Gpu>&);

}  // namespace anneal::vulkan
