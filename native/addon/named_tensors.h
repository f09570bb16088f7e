// Float32 tensors by name, in and out.
#pragma once
#include <memory>

#include "../backends/cpu/decoder.h"
#include "arguments.h"

namespace anneal::addon {

// Row-major values in the order of a list of tensors.
using TensorValues = std::vector<std::vector<float>>;

// The tensors of an adapter by PEFT's names, in the order (layer, projection, A then B).
std::vector<Trainable::Tensor> adapter_tensors(const DecoderConfig& config, const LoraSpec& spec);

// Reads [{name, shape, data}, ...]: exactly the tensors of `expected`, finite, in any order.
TensorValues named_tensors(const Argument& list, const std::vector<Trainable::Tensor>& expected);

// Adapter values for Decoder::load_adapter and train_adapter; `values` must outlive it.
Decoder::AdapterValues adapter_values(const LoraSpec& spec, const TensorValues& values);

napi_value named_tensors_out(Js js, const std::vector<Trainable::Tensor>& tensors, const TensorValues* values);

}  // namespace anneal::addon
