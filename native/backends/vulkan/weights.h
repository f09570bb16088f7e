// The weights of a decoder in a GPU's memory: a piece of memory for every layer, and for what stands before and after.
#pragma once
#include <functional>

#include "../../executor/pool.h"
#include "gpu.h"
#include "layout.h"

namespace anneal::vulkan {

// y[n] = x[k] . W^T (+ bias), by address; 0: there is none.
struct Linear {
  int n = 0, k = 0;
  uint64_t weight = 0, bias = 0;
};
struct Layer {
  Linear projections[kProjections];
  uint64_t norms[kNorms] = {};
  Memory memory;
};
struct Weights {
  Linear embedding, head;
  uint64_t final_norm = 0;
  std::vector<Layer> layers;
  Memory embedding_memory, head_memory;
};

// Null when `progress` (given the fraction done) returns false or the work is aborted.
std::unique_ptr<Weights> load_weights(const ModelSpec&, ElementType, const std::shared_ptr<Gpu>&, executor::Pool&,
                                      const backends::TensorReader&, const std::function<bool(double)>& progress);
int64_t weight_bytes(const ModelSpec&, ElementType);
// Of the largest piece.
int64_t largest_weight_bytes(const ModelSpec&, ElementType);

}  // namespace anneal::vulkan
