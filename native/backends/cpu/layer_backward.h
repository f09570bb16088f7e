// One decoder layer, backward.
#pragma once
#include "backward_memory.h"

namespace anneal::cpu {

// Turns dx [rows][hidden] from the gradient of the layer's output into that of its input (unless input_gradient is
// false), and adds the layer's gradients to those wanted. Where not all rows of the output are read, dx begins with
// those that are; the layer is not one of the delta rule then, and no sums over all rows are wanted of it.
// `transposes`: of the adapter, or null.
void layer_backward(Team&, const Model&, const Batch&, int layer, const LayerActivations&,
                    const AdapterPanels* transposes, const LayerGradients&, bool input_gradient, const Matrix& dx,
                    Workspace&, BackwardMemory&);

}  // namespace anneal::cpu
