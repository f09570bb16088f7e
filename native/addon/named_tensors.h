// Float32 tensors by name, in and out.
#pragma once
#include <memory>

#include "../backends/backend.h"
#include "arguments.h"

namespace anneal::addon {

// Row-major values in the order of a list of tensors.
using TensorValues = std::vector<std::vector<float>>;

// Reads [{name, shape, data}, ...]: exactly the tensors of `expected`, finite, in any order.
TensorValues named_tensors(const Argument& list, const std::vector<model::TensorShape>& expected);

// What Backend::load_adapter and train_adapter take; `values` must outlive it.
backends::AdapterValues adapter_values(const model::ModelSpec& model, const model::LoraSpec& spec,
                                       const TensorValues& values);

// [{name, shape}], and with data, which JavaScript takes over.
napi_value named_tensors_out(Js js, const std::vector<model::TensorShape>& tensors);
napi_value named_tensors_out(Js js, const std::vector<model::TensorShape>& tensors, TensorValues values);

}  // namespace anneal::addon
