// Attention of a layer, between its projections: roped queries over the keys and values in pages, forward and backward.
#pragma once
#include "batch.h"
#include "workspace.h"

namespace anneal::cpu {

// Queries of the workspace, over pages that hold the batch's keys and values, to attention [rows][heads * head_dim]
// and, where it is kept, lse.
void attention_forward(Team&, const Model&, const Batch&, int layer, const LayerActivations&, Workspace&);

// Takes the memory of that over all layers. `read`: as LayerActivations has them of the last one.
void reserve_attention_forward(const Model&, const Batch&, const std::vector<int>* read, int workers, Workspace&);

// Some rows of a sequence against some of its key blocks.
struct AttentionCell {
  int sequence, row, rows, block, blocks;
};
// Level by level: cells of one have neither rows nor pages in common; those that have are levels apart, in the order in
// which their gradients are summed.
using AttentionCells = std::vector<std::vector<AttentionCell>>;
// Where `group` query heads share a key-value head.
AttentionCells attention_cells(const Batch&, int pages, int group);

// Of heads, padded and in float32 but for `out`.
struct AttentionGradients {
  Rows out;            // [kv_heads][rows][group][head_dim], in the compute type
  const float* delta;  // sum of out and its gradient, [kv_heads][rows][group]
  Matrix q;            // [kv_heads][rows][group][head_dim], zeros to begin with
  Matrix k, v;         // [pages][kv_heads][kPage][head_dim], overwritten, or added to where others attended to them
  bool adds;
  int pages;
  const AttentionCells& cells;
};
// From that of what heads put out to those of roped queries, and of keys and values in pages.
void attention_backward(Team&, const Model&, const Batch&, int layer, const LayerActivations&,
                        const AttentionGradients&, Workspace&);

}  // namespace anneal::cpu
