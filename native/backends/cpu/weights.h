// The weights of a decoder in the kernels' layout, one copy.
#pragma once
#include <vector>

#include "decoder.h"
#include "memory.h"

namespace anneal::cpu {

// y[n] = x[k] . W^T (+ bias)
struct Linear {
  int n = 0, k = 0;
  Buffer panels;
  std::vector<float> bias;   // [n], or empty
};

struct Layer {
  Linear projections[kProjections];
  std::vector<float> input_norm, post_norm;    // [hidden]
  std::vector<float> q_norm, k_norm;           // [head_dim], or empty
  const float* q_norm_weight() const { return q_norm.empty() ? nullptr : q_norm.data(); }
  const float* k_norm_weight() const { return k_norm.empty() ? nullptr : k_norm.data(); }
};

struct Weights {
  Linear embedding, untied_head;
  std::vector<float> final_norm;
  std::vector<Layer> layers;
  const Linear& head() const { return untied_head.n ? untied_head : embedding; }
  Linear& head() { return untied_head.n ? untied_head : embedding; }
};

// Outputs, inputs and bias of a projection.
struct ProjectionShape { int n, k; bool bias; };
ProjectionShape projection_shape(const DecoderConfig&, int projection);
// "model.layers.3.self_attn.q_proj"
std::string projection_name(int layer, int projection);
std::string layer_name(int layer, const char* rest);

// Null when `progress` (given the fraction done) returns false.
std::unique_ptr<Weights> load_weights(const DecoderConfig&, const Kernels&, Pool&, const TensorReader&, const std::function<bool(double)>& progress);

}  // namespace anneal::cpu
