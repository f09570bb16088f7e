// One decoder layer, forward. Steps and training passes share it; training passes give memory to save into.
#pragma once
#include "batch.h"

namespace anneal::vulkan {

// Keys and values, in pages of 64 positions. A page id stands for one page in every layer.
class Pages {
 public:
  Pages() = default;
  Pages(const GpuModel&, int count);
  int count() const { return count_; }
  const Memory& of(int layer) const { return layers_[size_t(layer)]; }
  int64_t page_bytes(int layer) const { return layers_[size_t(layer)].bytes() / count_; }

 private:
  int count_ = 0;
  std::vector<Memory> layers_;
};

// Temporaries of the rows of a pass.
struct Scratch {
  void reserve(const GpuModel&, int rows, int rank);
  int64_t missing(const GpuModel&, int rows, int rank) const;  // bytes that reserve() would take besides
  static int64_t bytes_per_row(const ModelSpec&, ElementType);
  void add_key(RecordingKey&) const;

  Memory normed, q, k, v, queries, gate, up, act, branch;
  Memory z[kProjections];  // s A x of each projection
  Memory codes;            // of the activations that are multiplied with quantised weights

 private:
  // Calls f(memory, bytes) for what these rows take.
  template <class S, class F> static void each(S& self, const GpuModel&, int rows, int rank, F&& f);
  int rows_ = 0, rank_ = 0;
};

// What a forward pass over one layer leaves behind, by address. Residual streams [rows][hidden] are float32, the others
// rows of the compute type.
struct LayerActivations {
  uint64_t x_in, x_mid, x_out;     // x_out 0: the layer stops before its last product
  uint64_t q, k, gate, up;         // k, q before norm and rope
  uint64_t attended, fed_forward;  // what the branches put out before their norms
  uint64_t attention;              // [rows][heads * head_dim]; may be q, where that is not kept
  uint64_t lse;                    // [rows][heads], or 0
};

// Of a layer of which nothing is kept but the residual stream at x: the rest lies in the scratch until the next one.
LayerActivations unkept_activations(const Scratch&, uint64_t x);

// The residual stream before the first layer.
void record_embedding(Commands&, const GpuModel&, const DeviceBatch&, uint64_t x);
// Of rows of x, all or those that `from` lists; y [rows] of the compute type.
void record_norm(Commands&, const GpuModel&, uint64_t x, uint64_t weight, uint64_t from, int first, int rows, int n,
                 uint64_t y);
void record_layer(Commands&, const GpuModel&, const DeviceBatch&, const Pages&, int layer, const LayerActivations&,
                  Scratch&);
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
