// Blocks of quantised rows to the panels that the kernels multiply with.
#pragma once
#include <cstdint>

#include "../../../model/tensor_format.h"

namespace anneal::cpu {

int64_t quantized_panel_bytes_of(model::TensorFormat, int k);
// Of a panel of W^T over any n outputs, which are filled up to whole groups: see QuantizedKernels::transpose_panels.
int64_t quantized_back_panel_bytes(model::TensorFormat, int n);
// One panel of n <= 16 rows of blocks, `bytes` apart. What is padded has scales of zero.
void pack_quantized(model::TensorFormat, const uint8_t* rows, int64_t bytes, int n, int k, uint8_t* panel);

}  // namespace anneal::cpu
