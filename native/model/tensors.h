// The tensors of a model and of its adapters: names, shapes, order. Names are Hugging Face's and PEFT's.
#pragma once
#include <string>
#include <vector>

#include "spec.h"

namespace anneal::model {

// The products of a layer: what is computed by itself.
enum Projection : int {
  kQ,
  kK,
  kV,
  kO,  // of what attention or the delta rule put out
  kGate,
  kUp,
  kDown,
  // Of the delta rule: queries, keys and values before the convolution, the gate of the norm, and what strength and
  // decay are made of. Of a short convolution, kInQkv is b, c and x.
  kInQkv,
  kInZ,
  kInB,
  kInA,
  kProjections
};
bool has_projection(const LayerSpec&, int projection);

// What checkpoints store and adapters target: a projection, or several whose outputs stand one after the other.
enum Module : int {
  kQkv = kProjections,
  kGateUp,
  kOut,
  // As LFM2 calls them.
  kW1,
  kW3,
  kW2,
  kAttentionOut,
  kConvolutionIn,
  kConvolutionOut,
  kModules
};

// The norms of a layer: before attention, after it, before and after the feed-forward, of heads of q and k, of what
// heads of the delta rule put out, of what token inputs add.
enum Norm : int { kNormIn, kNormAttended, kNormMiddle, kNormOut, kNormQ, kNormK, kNormDelta, kNormToken, kNorms };
// "input_layernorm"; null: the layer has none.
const char* norm_place(const ModelSpec&, int layer, int norm);
int norm_width(const ModelSpec&, int layer, int norm);
// Whether it multiplies by 1 + weight.
inline bool norm_adds_one(const ModelSpec& m, int norm) { return m.norm_adds_one && norm != kNormDelta; }

struct Parts {
  int first, count;  // projections
};
Parts parts_of(int module);
// The module that a layer stores a projection in.
int module_of(const LayerSpec&, int projection);
// Those of a layer, in order.
std::vector<int> modules_of(const LayerSpec&);
// Of all layers, in the order of their numbers; every one where no layer is described.
std::vector<int> modules_of(const ModelSpec&);

// "self_attn.q_proj"
const char* module_place(int module);
// "q_proj"; what adapters call their targets. A model may have several modules of one name, at other places.
const char* module_name(int module);
// "model.layers.3.self_attn.q_proj"
std::string module_name(int layer, int module);
// "model.layers.3." + rest
std::string layer_name(int layer, const char* rest);

// y[outputs] = x[inputs] . W^T (+ bias)
struct ProjectionShape {
  int outputs, inputs;
  bool bias;
};
ProjectionShape projection_shape(const ModelSpec&, int layer, int projection);
ProjectionShape module_shape(const ModelSpec&, int layer, int module);
// Outputs of a projection's module that stand before its own.
int first_output(const ModelSpec&, int layer, int projection);

// Row-major; a vector has cols 0 and `rows` elements.
struct TensorShape {
  std::string name;
  int64_t rows, cols;
  bool convolution = false;  // stored as [rows][1][cols]
  int64_t elements() const { return cols ? rows * cols : rows; }
  std::vector<int64_t> dimensions() const;  // as it is stored
};

// What the delta rule has beside its projections and its norm.
enum DeltaTensor : int { kConvolution, kDecay, kStepBias, kDeltaTensors };
TensorShape delta_tensor(const ModelSpec&, int layer, int tensor);

// What experts have in the place of a feed-forward's projections: a router, the logit of the shared expert, and of each
// expert kGate, kUp and kDown.
TensorShape router_tensor(const ModelSpec&, int layer);
TensorShape score_bias_tensor(const ModelSpec&, int layer);
TensorShape shared_gate_tensor(const ModelSpec&, int layer);
TensorShape expert_tensor(const ModelSpec&, int layer, int expert, int projection);
// The vector of a matrix that has one.
std::string bias_of(const std::string& weight);
// What a short convolution has beside its projections: its weight, then its bias where it has one.
std::vector<TensorShape> convolution_tensors(const ModelSpec&, int layer);
// Of attention with sinks.
TensorShape sink_tensor(const ModelSpec&, int layer);
// Of a layer that is scaled.
TensorShape scale_tensor(const ModelSpec&, int layer);

// What token inputs are made of, as wide as those of all layers together: a row of every token, and a product of its
// embedding, whose part of each layer has a norm.
enum TokenTensor : int { kTokenTable, kTokenProjection, kTokenNorm, kTokenTensors };
TensorShape token_tensor(const ModelSpec&, int tensor);
// What a layer multiplies them with: the gate's product of the residual stream, and that of what is gated.
TensorShape token_gate_tensor(const ModelSpec&, int layer);
TensorShape token_out_tensor(const ModelSpec&, int layer);

// The weight of the norm before the head.
const char* final_norm_name(const ModelSpec&);

// All weights, in the order in which they are read.
std::vector<TensorShape> weight_tensors(const ModelSpec&);

struct LoraSpec {
  int rank;
  float alpha;  // scale() = alpha / rank (rslora: alpha / sqrt(rank))
  bool rslora = false;
  bool targets[kModules] = {};
  float scale() const;
  bool adapts(const LayerSpec& layer, int projection) const {
    return has_projection(layer, projection) && targets[module_of(layer, projection)];
  }
};

// A [rank][inputs] then B [outputs][rank] of every target, by layer and module.
std::vector<TensorShape> adapter_tensors(const ModelSpec&, const LoraSpec&);

// Where the values of a projection's A or B begin: in which of adapter_tensors(), and at which element.
struct AdapterPlace {
  size_t tensor;
  int64_t element;
};
class AdapterPlaces {
 public:
  AdapterPlaces(const ModelSpec&, const LoraSpec&);
  AdapterPlace of(int layer, int projection, bool b) const;

 private:
  struct Place {
    size_t tensor = 0;  // of A; B follows
    int64_t element = 0;
  };
  std::vector<std::vector<Place>> places_;  // [layer][projection]
};

}  // namespace anneal::model
