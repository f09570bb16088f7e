// Training passes: forward over rows with activations kept, and backward from gradients of log-probabilities.
#pragma once
#include "layer_backward.h"

namespace anneal::vulkan {

// As Backend::forward.
std::unique_ptr<backends::TrainPass> train_forward(GpuModel&, executor::Pool&, std::span<const backends::TrainRow>,
                                                   AdapterParameters* trainable, const backends::AdapterRef&,
                                                   const backends::PassOptions&, const float* residual = nullptr);

}  // namespace anneal::vulkan
