// Attention on cooperative matrices (shaders/attention_fast.comp): which layers have it, and what a workgroup has of
// it.
#pragma once
#include "gpu_model.h"

namespace anneal::vulkan {

// Of the fast family, with heads of whole granules and pages that are no codes, on matrices whose places the shader
// divides among the invocations of a subgroup. Others have the exact family's.
bool attends_on_matrices(const GpuModel&, const AttentionSpec&);

// Whether their gradients are computed there too (shaders/attention_dq_fast.comp, attention_dkv_fast.comp).
bool goes_back_on_matrices(const GpuModel&, const AttentionSpec&);

// Keys that are taken up at once.
int keys_of_unit(const AttentionSpec&);

// Subgroups that have a band of rows together, fewest first, as this device has room for them; and rows of a workgroup.
std::vector<int> shared_bands(const Gpu&, const AttentionSpec&);
int rows_of_bands(const Gpu&, int across);

}  // namespace anneal::vulkan
