// One decoder layer, forward. Steps and training passes share it; training passes give memory to save into.
#pragma once
#include "delta_layer.h"

namespace anneal::vulkan {

// Keys and values, in pages of 64 positions. A page id stands for one page in every layer.
class Pages {
 public:
  Pages() = default;
  Pages(const GpuModel&, int count);
  // Of a pass: once the memory is taken.
  void plan(MemoryPlan&, const GpuModel&, int count);
  int count() const { return count_; }
  const Memory& of(int layer) const { return layers_[size_t(layer)]; }
  int64_t page_bytes(int layer) const { return layers_[size_t(layer)].bytes() / count_; }

 private:
  int count_ = 0;
  std::vector<Memory> layers_;
};

// The residual stream before the first layer.
void record_embedding(Commands&, const GpuModel&, const DeviceBatch&, uint64_t x);
// Of rows of x, all or those that `from` lists; y [rows] of the compute type.
void record_norm(Commands&, const GpuModel&, uint64_t x, uint64_t weight, uint64_t from, int first, int rows, int n,
                 uint64_t y);
void record_layer(Commands&, const GpuModel&, const DeviceBatch&, const Pages&, const RecurrentStates&, int layer,
                  const LayerActivations&, Scratch&);
// What the output projection is given: what heads put out, through their gates where they have these. Its address.
uint64_t record_gated_heads(Commands&, const GpuModel&, const DeviceBatch&, int layer, const LayerActivations&,
                            const Scratch&);
// y = activation(gate) * up, [rows][intermediate].
void record_gated(Commands&, const GpuModel&, const DeviceBatch&, const FeedForwardSpec&, uint64_t gate, uint64_t up,
                  uint64_t y);
// Turned queries of the batch into the scratch, from q before norm and rope.
void record_queries(Commands&, const GpuModel&, const DeviceBatch&, const Pages&, int layer, uint64_t q, Scratch&);
// Rows [first, first + rows) of the batch's logit rows, after the final norm in `normed`: float32 [rows][vocab].
void record_logits(Commands&, const GpuModel&, uint64_t normed, int rows, uint64_t logits, const Scratch&);
// z = round(s A x) of the projections of an input, for the rows whose adapter adapts them.
void record_lora_down(Commands&, const GpuModel&, const DeviceBatch&, int layer, std::initializer_list<int> projections,
                      uint64_t x, int k, Scratch&);

}  // namespace anneal::vulkan
