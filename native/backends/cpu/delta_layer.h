// The gated delta rule of a layer, between its projections: convolution, norms of queries and keys, gates, and the scan
// over the tokens. Each key head goes by itself, from a sequence's first token to its last, with its value heads; rows
// that continue another row begin with its state there.
#pragma once
#include "batch.h"
#include "workspace.h"

namespace anneal::cpu {

// What projections put out (delta_in) to what heads put out (attention), and states of sequences that have one.
void delta_forward(Team&, const Model&, const Batch&, int layer, const LayerActivations&, Workspace&);

// Gradients [rows][width]: of what heads put out, to those of what the convolution, strengths and decays are made of.
struct DeltaGradients {
  Matrix out;                // [value_width]
  Matrix qkv;                // [conv_width], zeros to begin with
  Rows b, a;                 // [value_heads]
  Matrix convolution;        // [conv_width][kernel] of the weight, or null: not wanted; likewise:
  float *decay, *step_bias;  // [value_heads]
};
void delta_backward(Team&, const Model&, const Batch&, int layer, const LayerActivations&, const DeltaGradients&,
                    Workspace&);

// Memory of the workers.
void reserve_delta_forward(const Model&, const Batch&, Workspace&);
void reserve_delta_backward(const Model&, const Batch&, Workspace&);

}  // namespace anneal::cpu
