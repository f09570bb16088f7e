// The gated short convolution of a layer, between its projections. Channels go by themselves, sequence by sequence; a
// sequence begins with the products that its state holds, or with those of the rows that it continues.
#pragma once
#include "batch.h"
#include "workspace.h"

namespace anneal::cpu {

// What the first projection put out (delta_in) to what the second is given (attention), and states of sequences that
// have one.
void convolution_forward(Team&, const Model&, const Batch&, int layer, const LayerActivations&, Workspace&);

// Gradients [rows][..]: of what the second projection is given, to those of what the first put out.
struct ConvolutionGradients {
  Matrix out;     // [width]
  Matrix in;      // [3 width]; overwritten
  Matrix weight;  // [width][kernel], or null: not wanted; likewise:
  float* bias;    // [width]
};
void convolution_backward(Team&, const Model&, const Batch&, int layer, const LayerActivations&,
                          const ConvolutionGradients&, Workspace&);

}  // namespace anneal::cpu
