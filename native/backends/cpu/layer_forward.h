// One decoder layer, forward. Inference steps and training passes share it; training passes buffers to save into.
#pragma once
#include "batch.h"
#include "workspace.h"

namespace anneal::cpu {

// The residual stream before the first layer: x [rows][hidden]; and token inputs.
void embed_tokens(Team&, const Model&, const Batch&, const Matrix& x, Workspace&);

// Where not all rows are read of a layer, keys, values and states are those of all rows all the same.
void layer_forward(Team&, const Model&, const Batch&, int layer, const LayerActivations&, Workspace&);

constexpr int kLoraRows = 32;  // of a chunk of the products with A and B

// What the output projection of rows [row0, row0 + rows) is given: what attention or the delta rule put out, gated
// where the layer says so, which `run` then holds.
Rows gated_heads(Team&, const Model&, int layer, const LayerActivations&, RunScratch& run, int row0, int rows,
                 Workspace&);

// Rows row .. row + rows - 1 of q [..][heads * q_stride], whose first is row0 of the batch, normed and roped, to
// queries [kv_heads][batch rows][group][head_dim]. scratch: heads * head_dim floats.
void rope_queries(const Model&, const Batch&, int layer, const Rows& q, int row0, int row, int rows,
                  const Rows& queries, float* scratch);

}  // namespace anneal::cpu
