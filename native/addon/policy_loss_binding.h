// policyLoss(row, settings) -> {dLogprobs, metrics}; synchronous, arithmetic only.
#pragma once
#include "wrapped.h"

namespace anneal::addon {

napi_value policy_loss_binding(const Arguments& arguments);

}  // namespace anneal::addon
