// One decoder layer, backward.
#pragma once
#include "backward_memory.h"

namespace anneal::cpu {

// Turns dx [rows][hidden] from the gradient of the layer's output into that of its input (unless input_gradient is
// false), and adds the layer's gradients to those wanted.
void layer_backward(Team&, const Model&, const Batch&, int layer, const LayerActivations&, const AdapterVersion*,
                    const LayerGradients&, bool input_gradient, const Matrix& dx, Workspace&, BackwardMemory&);

}  // namespace anneal::cpu
