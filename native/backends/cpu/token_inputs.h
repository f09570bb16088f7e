// What layers are given of each token beside the residual stream: of a row of a table and a product of the token's
// embedding, as wide as all layers' together. A layer gates its part by what it would put out, and adds that.
#pragma once
#include "batch.h"
#include "workspace.h"

namespace anneal::cpu {

// Of embeddings x [rows][hidden] to the workspace.
void make_token_inputs(Team&, const Model&, const Batch&, const Matrix& x, Workspace&);

// Those of `rows`, in ascending order, move to the beginning.
void keep_token_inputs(Team&, const Model&, const std::vector<int>& rows, Workspace&);

// x_out [rows][hidden] of a run, after the feed-forward: adds what token inputs make of it, and scales it.
void end_of_layer(Team&, const Model&, int layer, const LayerActivations&, RunScratch&, Workspace&, int row0, int rows);

// dx [rows][hidden] of that, from what it put out to what it was given.
void end_of_layer_backward(Team&, const Model&, int layer, const LayerActivations&, const Matrix& dx, RunScratch&,
                           Workspace&, int row0, int rows);

}  // namespace anneal::cpu
