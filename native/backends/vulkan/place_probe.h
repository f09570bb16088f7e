// Whether a GPU's cooperative matrices give an output the same bits wherever its row and its weights lie.
#pragma once
#include "gpu.h"

namespace anneal::vulkan {

// Multiplies rows and weights that stand at many places, by few and by many rows at a time. False also where products
// are wrong. Only of a GPU that has cooperative matrices.
bool keeps_place(const std::shared_ptr<Gpu>&);

}  // namespace anneal::vulkan
