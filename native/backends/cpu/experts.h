// The feed-forward of a layer with experts: the router chooses some for each row, and their outputs are added by their
// weights, in the order of their numbers. What a row gets does not depend on the rows beside it; training routes anew
// by the same sums as steps, so both choose alike.
#pragma once
#include "workspace.h"

namespace anneal::cpu {

// to [rows][hidden] = from + residual scale * what the experts make of x [rows][hidden], in float32. gate and up are
// kept where they have data; no `to`: nothing else is wanted.
void experts_forward(Team&, const Model&, int layer, const Rows& x, int rows, const Rows& gate, const Rows& up,
                     const Matrix& from, const Matrix& to, RunScratch& run, Workspace&);

// run.d_normed [rows][hidden] = the gradient with respect to x, of dy [rows][hidden], what the layer's output takes,
// residual scale included.
void experts_backward(Team&, const Model&, int layer, const Rows& x, const Rows& dy, int rows, const Rows& gate,
                      const Rows& up, RunScratch& run, Workspace&);

}  // namespace anneal::cpu
