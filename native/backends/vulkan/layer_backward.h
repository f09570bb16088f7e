// One decoder layer, backward, into the gradients of an adapter.
#pragma once
#include <algorithm>
#include <optional>

#include "layer_forward.h"
#include "parameters.h"

namespace anneal::vulkan {

// Memory of backward passes.
struct BackwardMemory {
  // `delta`: of a recurrent model.
  void plan(MemoryPlan&, const GpuModel&, int64_t rows, int rank, int64_t pages, const std::optional<DeltaPlan>& delta);

  // Rows of the compute type, rounded for products; g: s B^T dy of each projection.
  Memory d_out, d_gate, d_up, d_q, d_k, d_v, d_delta[kDeltaInputs], g[kProjections];
  // Rows of float32: sums of products, and heads; d_keys, d_values by page.
  Memory wide, d_normed, d_attention, d_queries, d_keys, d_values, delta, low;
  DeltaMemory delta_rule;
};

// Tokens of a sequence whose queries a page's gradients take up together; their rows two by two, as the processor does
// (cpu/layer_backward.cpp).
inline int queries_per_tile(int group) { return std::max(1, 512 / group); }

// Which tokens see a page, by the window and the group that a layer has, as shaders/attention_dkv.comp has them:
// addresses.
struct PageUses {
  int window, group;
  int64_t rows;  // of queries that see a page, the most
  uint64_t first_use, uses;
};

// Of the rows of queries that see a page, so many are taken up by one dispatch of it. Throws backends::UnusableDevice:
// none can be, where loops end.
int64_t dkv_rows_at_once(const Gpu&, int head_dim, int64_t rows);

struct LayerBackward {
  Commands& commands;
  const GpuModel& m;
  const DeviceBatch& b;
  const Pages& pages;
  const PageUses* uses;  // of attention
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
  void queries_keys_values();
  void delta_inputs();
  void input_projections(std::initializer_list<std::pair<int, uint64_t>> terms);
  void branch_gradient(Norm norm, uint64_t branch);
  void lora_up(int p, uint64_t dy);
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
