// The gated delta rule of a layer, between its projections: from what these put out to what heads put out, and back.
#pragma once
#include "workspace.h"

namespace anneal::vulkan {

// The states of sequences, and the last inputs of their convolutions, of every delta-rule layer.
class RecurrentStates {
 public:
  struct OfLayer {
    uint64_t states = 0, tails = 0;  // addresses; tails 0: none are kept
  };
  RecurrentStates() = default;
  RecurrentStates(const GpuModel&, int count);
  // Of a pass, which hands them on within a layer: all layers use the same memory, once that is taken.
  void plan_passing(MemoryPlan&, const ModelSpec&, int count);
  static int64_t bytes(const ModelSpec&);          // of one
  static int64_t largest_bytes(const ModelSpec&);  // of one, of the layer that has the most
  int count() const { return count_; }
  OfLayer of(int layer) const;
  void copy(Commands&, int from, int to) const;

 private:
  struct Memories {
    Memory states, tails;
  };
  int count_ = 0;
  std::vector<Memories> layers_;
  Memory passing_;
};

// a.delta_in to a.attention.
void record_delta_forward(Commands&, const GpuModel&, const DeviceBatch&, const RecurrentStates::OfLayer&, int layer,
                          const LayerActivations&, const Scratch&);

// Memory of the way back.
struct DeltaMemory {
  void plan(MemoryPlan&, const GpuModel&, int rows, const DeltaPlan&);

  Memory states, gradients;         // that scans keep; by the states before sequences
  Memory within;                    // of stretches
  Memory d_mixed, d_keys, d_gates;  // float32
  int flight = 1;                   // sequences that are under way at the same time
};

// Gradients, by address: of what heads put out (float32, [rows][value_width]) to those of what projections put out.
struct DeltaGradients {
  uint64_t d_heads, d_qkv, d_b, d_a;
};
void record_delta_backward(Commands&, const GpuModel&, const DeviceBatch&, const DeltaListsBack&, int layer,
                           const LayerActivations&, const DeltaGradients&, const Scratch&, const DeltaMemory&);

}  // namespace anneal::vulkan
