// Opens GPUs, and finds out what they compute like.
#pragma once
#include "gpu.h"

namespace anneal::vulkan {

// The same object while anybody holds it, unless it was lost. Throws backends::UnusableDevice.
std::shared_ptr<Gpu> open_gpu(int index);

// What was made of shaders by a process before: used when that GPU is opened next.
void restore_pipelines(int index, std::vector<uint8_t>);
// Of a GPU that somebody holds; else empty.
std::vector<uint8_t> pipelines_of(int index);

}  // namespace anneal::vulkan
