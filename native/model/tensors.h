// The tensors of a model and of its adapters: names, shapes, order. Names are Hugging Face's and PEFT's.
#pragma once
#include <string>
#include <vector>

#include "spec.h"

namespace anneal::model {

// The seven projections of a layer, which an adapter may target.
enum Projection : int { kQ, kK, kV, kO, kGate, kUp, kDown, kProjections };

// "self_attn.q_proj"
const char* projection_place(int projection);
// "q_proj"; what adapters call their targets.
const char* projection_name(int projection);
// "model.layers.3.self_attn.q_proj"
std::string projection_name(int layer, int projection);
// "model.layers.3." + rest
std::string layer_name(int layer, const char* rest);

// y[outputs] = x[inputs] . W^T (+ bias)
struct ProjectionShape {
  int outputs, inputs;
  bool bias;
};
ProjectionShape projection_shape(const ModelSpec&, int layer, int projection);

// Row-major; a vector has cols 0 and `rows` elements.
struct TensorShape {
  std::string name;
  int64_t rows, cols;
  int64_t elements() const { return cols ? rows * cols : rows; }
};

// All weights, in the order in which they are read.
std::vector<TensorShape> weight_tensors(const ModelSpec&);

struct LoraSpec {
  int rank;
  float alpha;  // scale = alpha / rank (rslora: alpha / sqrt(rank))
  bool rslora = false;
  bool targets[kProjections] = {};
};

// A [rank][inputs] then B [outputs][rank] of every target, by layer and projection.
std::vector<TensorShape> adapter_tensors(const ModelSpec&, const LoraSpec&);

}  // namespace anneal::model
