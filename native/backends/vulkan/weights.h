// The weights of a decoder in a GPU's memory: a piece of memory for every layer, and for what stands before and after.
#pragma once
#include <functional>

#include "../../executor/pool.h"
#include "layout.h"
#include "memory.h"

namespace anneal::vulkan {

// y[n] = x[k] . W^T (+ bias), by address; 0: there is none.
struct Linear {
  int n = 0, k = 0;
  uint64_t weight = 0, bias = 0;
  TensorFormat format = TensorFormat::f32;  // f32 also stands for the compute type
  bool weight_only = false;                 // quantised, and multiplied with activations as they are
  bool quantized() const { return is_quantized(format); }
  bool takes_codes() const { return quantized() && !weight_only; }
  // Specialisation constants of a shader that reads it, after its own two.
  std::vector<uint32_t> constants(uint32_t first = 0, uint32_t second = 0) const;
};
struct Layer {
  Linear projections[kProjections];
  uint64_t norms[kNorms] = {};
  uint64_t taps = 0, rates = 0;  // of the delta rule, see shaders/delta_prepare.comp
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
// The named ones, which are quantised, are multiplied with activations as they are, the others with codes of these.
void keep_activations(const ModelSpec&, Weights&, const std::vector<std::string>& names);
int64_t weight_bytes(const ModelSpec&, ElementType);
// Of the largest piece.
int64_t largest_weight_bytes(const ModelSpec&, ElementType);

}  // namespace anneal::vulkan
