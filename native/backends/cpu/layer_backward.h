// One decoder layer, backward.
#pragma once
#include "back_products.h"
#include "parameters.h"

namespace anneal::cpu {

// Memory of backward passes.
struct BackwardMemory {
  Buffer transposed[kProjections];  // panels of the layer's weights transposed, when whole layers are
  bool transpose_layers = false;
  int window = 0;                      // rows whose transposes are held at once
  TokenBlocks dy[kProjections], x[4];  // gradients of outputs (left), inputs (right): see InputOf
  TokenBlocks g[kProjections], z[kProjections];
  Buffer out, d_out, d_q, d_k, d_v;  // float32 heads of a layer
  MatrixStore partial_final_norm;
  MatrixStore partial_norm[kNorms];  // [blocks][width]
  MatrixStore partial_bias[kProjections];
  // Sequences that see a page, and as which of their blocks.
  struct Use {
    int sequence, block;
  };
  std::vector<std::vector<Use>> uses;

  void configure(const Model&, const Batch&, int pages, const Workspace&, const ModelGradients&, const AdapterVersion*);
};

// Turns dx from the gradient of the layer's output into that of its input (unless input_gradient is false), and adds
// the layer's gradients to those wanted.
void layer_backward(Team&, const Model&, const Batch&, int layer, const LayerActivations&, const AdapterVersion*,
                    const LayerGradients&, bool input_gradient, const Matrix& dx, Workspace&, BackwardMemory&);

}  // namespace anneal::cpu
