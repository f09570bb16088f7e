// What describes models, adapters and optimizers, read from JavaScript.
#pragma once
#include "../backends/backend.h"
#include "arguments.h"

namespace anneal::addon {

model::TensorFormat tensor_format(const Argument& argument);  // "float32", "bfloat16"
std::string device_name(const Argument& argument);            // absent: "cpu"
// Of the layers that a model has; absent: -1, all.
int layers_on_gpu(const Argument& argument, const model::ModelSpec&);
model::ModelSpec model_spec(const Argument& config, model::TensorFormat format);
model::LoraSpec lora_spec(const Argument& spec, const model::ModelSpec& of);
backends::OptimizerSettings optimizer_settings(const Argument& settings);

}  // namespace anneal::addon
