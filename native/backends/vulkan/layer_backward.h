// One decoder layer, backward, into the gradients of an adapter.
#pragma once
#include <algorithm>
#include <optional>

#include "layer_forward.h"
#include "page_queries.h"
#include "parameters.h"

namespace anneal::vulkan {

// Memory of backward passes.
struct BackwardMemory {
  // `pair_bytes`: of the largest chunk; `delta`: of a recurrent model.
  void plan(MemoryPlan&, const GpuModel&, int64_t rows, int rank, int64_t pages, int64_t pair_bytes,
            const std::optional<DeltaPlan>& delta);

  // Rows of the compute type, rounded for products; g: s B^T dy of each projection.
  Memory d_out, d_gate, d_up, d_q, d_k, d_v, d_delta[kDeltaInputs], g[kProjections];
  // Rows of float32: sums of products, and heads; d_keys, d_values by page.
  Memory wide, d_normed, d_attention, d_queries, d_keys, d_values, delta, low[kProjections];
  // d_attention rounded; p and ds of the pairs of queries and keys of a chunk (shaders/attention_backward.glsl).
  Memory d_attended, pairs;
  Memory halves, units;      // of d_attention, for products on cooperative matrices
  Memory codes, transposed;  // see BackInputs; the latter also of the head
  DeltaMemory delta_rule;
};

struct LayerBackward {
  Commands& commands;
  const GpuModel& m;
  const DeviceBatch& b;
  const Pages& pages;
  const PagePairs* pairs;  // of attention, in one way
  const PageUses* uses;    // or the other
  const DeltaListsBack& delta_lists;
  int layer;
  const LayerActivations& a;
  const AdapterVersion& adapter;
  const AdapterParameters& gradients;
  bool input_gradient;
  uint64_t dx;  // [rows][hidden]
  Scratch& s;
  BackwardMemory& mem;

  // Turns dx from the gradient of the layer's output into that of its input (unless input_gradient is false), and adds
  // the layer's gradients.
  void record();

 private:
  void feed_forward();
  void output_projection();
  void attention();
  void attention_on_matrices();
  void queries_keys_values();
  void delta_inputs();
  void input_projections(std::initializer_list<std::pair<int, uint64_t>> terms);
  void branch_gradient(Norm norm, uint64_t branch);
  void lora_up(std::initializer_list<std::pair<int, uint64_t>> terms);
  void back_product(uint64_t x, int ldx, uint64_t weight, int n, int k, uint64_t to, bool accumulate);
  void input_gradient_of(std::initializer_list<std::pair<int, uint64_t>> terms, uint64_t to);
  void sum_tokens(std::initializer_list<std::pair<int, uint64_t>> terms, uint64_t input);
  void token_sum(uint64_t left, int ldl, uint64_t right, int ldr, const Gradient& to, int m, int n, int first,
                 int tokens);
  void norm_backward(uint64_t x, Norm norm);

  bool lora(int p) const { return adapter.adapts(layer, p); }
  const DeltaRuleSpec* delta_rule() const { return m.delta_rule(layer); }
  const LayerSpec& spec() const { return m.spec.layers[size_t(layer)]; }
  const vulkan::Layer& weights() const { return m.layer(layer); }
};

}  // namespace anneal::vulkan
