// Opens GPUs, and finds out what they compute like.
#pragma once
#include "gpu.h"

namespace anneal::vulkan {

// The same object while anybody holds it, unless it was lost. Throws backends::UnusableDevice.
std::shared_ptr<Gpu> open_gpu(int index);

}  // namespace anneal::vulkan
