// The memory that a pass works in, and what it leaves behind of a layer.
#pragma once
#include "batch.h"
#include "products.h"

namespace anneal::vulkan {

// Temporaries of the rows of a pass.
struct Scratch {
  void plan(MemoryPlan&, const GpuModel&, int rows, int rank);
  void add_key(RecordingKey&) const;

  Memory normed, q, k, v, queries, gate, up, act, branch;
  Memory attended, gated;         // what heads put out, before and after gates, where they have these
  Memory delta_in[kDeltaInputs];  // of the delta rule: what its projections put out, and its tokens in float32
  Memory mixed, delta_gates;
  Memory z[kProjections];  // s A x of each projection
  ProductInputs inputs;    // of the product to come
};

// What a forward pass over one layer leaves behind, by address. Residual streams [rows][hidden] are float32, the others
// rows of the compute type.
struct LayerActivations {
  uint64_t x_in, x_mid, x_out;      // x_out 0: the layer stops before its last product
  uint64_t q, k, gate, up;          // k, q before norm and rope
  uint64_t delta_in[kDeltaInputs];  // what the projections from kInQkv on put out
  uint64_t attended, fed_forward;   // what the branches put out before their norms
  // Before gates [rows][attended]; may be q, where that is not kept and nothing is gated.
  uint64_t attention;
  uint64_t lse;  // [rows][heads], or 0
};

// Of a layer of which nothing is kept but the residual stream at x: the rest lies in the scratch until the next one.
LayerActivations unkept_activations(const Scratch&, uint64_t x);

// Bytes of a token that a layer leaves behind, where they are kept, but for its residual streams' first.
int64_t kept_bytes(const ModelSpec&, ElementType, const Widths& of_layer);

}  // namespace anneal::vulkan
