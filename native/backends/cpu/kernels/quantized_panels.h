// Blocks of quantised rows to the panels that the kernels multiply with.
#pragma once
#include <cstdint>

#include "../../../model/tensor_format.h"

namespace anneal::cpu {

int64_t quantized_panel_bytes_of(model::TensorFormat, int k);
// The same of weights of 16 bits over any k, which is filled up to whole groups.
inline size_t wide_panel_bytes(int k) {
  constexpr model::TensorFormat wide = model::TensorFormat::int16_64;
  constexpr int group = model::quantized_format(wide).group;
  return size_t(quantized_panel_bytes_of(wide, (k + group - 1) / group * group));
}
// One panel of n <= 16 rows of blocks, `bytes` apart. What is padded has scales of zero.
void pack_quantized(model::TensorFormat, const uint8_t* rows, int64_t bytes, int n, int k, uint8_t* panel);

}  // namespace anneal::cpu
