// The weights of a decoder in the kernels' layout, one copy.
#pragma once
#include <vector>

#include "../backend.h"
#include "memory.h"

namespace anneal::cpu {

using backends::AdapterRef;
using backends::AdapterValues;
using backends::NoRoom;
using backends::OptimizerSettings;
using backends::PassOptions;
using backends::RowRequest;
using backends::RowResult;
using backends::Run;
using backends::TensorReader;
using backends::Trainable;
using backends::TrainPass;
using backends::TrainRow;
using namespace model;

DType dtype_of(model::TensorFormat);

// y[n] = x[k] . W^T (+ bias)
struct Linear {
  int n = 0, k = 0;
  Buffer panels;
  std::vector<float> bias;  // [n], or empty
};

struct Layer {
  Linear projections[kProjections];
  std::vector<float> input_norm, post_norm;  // [hidden]
  std::vector<float> q_norm, k_norm;         // [head_dim], or empty
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

// Null when `progress` (given the fraction done) returns false.
std::unique_ptr<Weights> load_weights(const ModelSpec&, const Kernels&, Pool&, const TensorReader&,
                                      const std::function<bool(double)>& progress);
int64_t weight_bytes(const ModelSpec&, const Kernels&);

}  // namespace anneal::cpu
