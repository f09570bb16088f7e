// A model in memory, and how wide the rows of its layers are.
#pragma once
#include <memory>
#include <vector>

#include "../../model/rope.h"
#include "weights.h"

namespace anneal::cpu {

constexpr int kDeltaInputs = kProjections - kInQkv;

// Elements of a token in a layer's rows; of all layers, the most of each.
struct Widths {
  int attended = 0;  // what attention, the delta rule or a short convolution puts out
  int q = 0, kv = 0, heads = 0, head_dim = 0;
  int intermediate = 0;                 // of experts, of all that are chosen
  int delta_in[kDeltaInputs] = {};      // of the projections from kInQkv on
  bool gated = false;                   // what is put out is gated before its projection
  int64_t q_floats = 0, kv_floats = 0;  // of float32 heads, each padded
  bool qk_norm = false, v_norm = false, norms_after = false;  // v_norm: of values that no key is made of
};
Widths widths_of(const LayerSpec&);

class ActivationProbe;

struct Model {
  ModelSpec spec;
  Kernels kernels;
  std::unique_ptr<Weights> weights;
  ActivationProbe* probe = nullptr;  // is shown every product

  Model(const ModelSpec&, const Kernels&, std::unique_ptr<Weights>);
  int layers() const { return int(spec.layers.size()); }
  const AttentionSpec& attention(int layer) const { return spec.layers[layer].attention; }
  // Null: the layer has attention.
  const DeltaRuleSpec* delta_rule(int layer) const {
    const auto& delta = spec.layers[layer].delta_rule;
    return delta ? &*delta : nullptr;
  }
  const ShortConvolutionSpec* short_convolution(int layer) const {
    const auto& convolution = spec.layers[layer].short_convolution;
    return convolution ? &*convolution : nullptr;
  }
  bool attends(int layer) const { return spec.layers[layer].attends(); }
  // Of a layer that does not attend: the projections of its input, from kInQkv on.
  int recurrent_inputs(int layer) const { return delta_rule(layer) ? kDeltaInputs : 1; }
  const Widths& widest() const { return widest_; }
  // Of all layers with experts, the most; counts of 0 where there are none.
  const ExpertsSpec& most_experts() const { return most_experts_; }
  const std::vector<int>& groups() const { return groups_; }  // of all layers' attention, each once
  const RopeTable& rope(int layer) const { return ropes_[rope_of_[layer]]; }
  // Makes positions 0..count-1 available.
  void reserve_positions(int count) {
    for (RopeTable& rope : ropes_) rope.reserve(count);
  }
  float residual_scale(int layer) const { return float(spec.layers[layer].residual_scale); }
  float embedding_scale() const {
    float scale = float(spec.embedding_scale);
    if (spec.embedding_rounds) round(&scale, 1);
    return scale;
  }
  // To the format, n floats.
  void round(float* x, int n) const;
  // A token's row of a table, k floats.
  void embed(const Linear& table, int token, float* to) const;
  // Among the layers whose keys others attend to, the one whose keys a layer attends to; -1: these are its alone.
  int shared_keys(int layer) const { return shared_keys_[layer]; }
  int shared_keys_count() const { return shared_keys_count_; }
  // Whether no layer behind it attends to the same keys.
  bool reads_keys_last(int layer) const {
    const int of = spec.keys_layer(layer);
    for (int l = layer + 1; l < layers(); l++)
      if (spec.keys_layer(l) == of) return false;
    return true;
  }
  // The first of the last layers that all attend to keys of others; layers(): the last one has its own.
  int reads_keys_from() const {
    int from = layers();
    while (spec.layers[from - 1].attention.keys_of >= 0) from--;
    return from;
  }
  // Whether something follows a layer's feed-forward.
  bool ends_apart(int layer) const { return spec.token_inputs > 0 || spec.layers[layer].scaled; }
  // Of q.k in a layer's attention.
  float attention_scale(int layer) const { return scales_[layer]; }
  // What a layer's attention sees from rows at `position` and later.
  AttentionSight sight(int layer, int position) const {
    const AttentionSpec& a = attention(layer);
    return {a.window, backends::unseen_blocks(a.window, position, kPage), float(a.soft_cap)};
  }
  const AttentionKernels& attention_kernels() const { return kernels.attention_over(spec.kv_cache); }
  const GatedActivation& activation(int layer) const {
    const LayerSpec& l = spec.layers[layer];
    const Activation kind = l.experts ? l.experts->activation : l.feed_forward.activation;
    return kind == Activation::silu        ? kernels.silu
           : kind == Activation::gelu_tanh ? kernels.gelu_tanh
                                           : kernels.clamped_swiglu;
  }
  // Of the projections and experts of the largest layer, in the compute type.
  int64_t layer_bytes() const { return layer_bytes_; }
  // Of codes in the widest row that quantised weights are multiplied with; 0: none are.
  int64_t code_bytes() const { return code_bytes_; }
  // Of codes of a row's gradients for the product of backward that has most, with weights of 16 bits; 0: none has any.
  int64_t gradient_code_bytes() const { return gradient_code_bytes_; }

 private:
  std::vector<RopeTable> ropes_;  // those that differ
  std::vector<int> rope_of_;      // [layer]
  std::vector<float> scales_;     // [layer]
  std::vector<int> groups_;
  std::vector<int> shared_keys_;  // [layer]
  int shared_keys_count_ = 0;
  Widths widest_;
  ExpertsSpec most_experts_;
  int64_t layer_bytes_ = 0;
  int64_t code_bytes_ = 0, gradient_code_bytes_ = 0;
};

}  // namespace anneal::cpu
