// A model on a GPU, as every pass over it needs it.
#pragma once
#include <algorithm>
#include <memory>
#include <vector>

#include "../../model/rope.h"
#include "weights.h"

namespace anneal::vulkan {

struct GpuModel {
  ModelSpec spec;
  ElementType type;
  std::shared_ptr<Gpu> gpu;
  std::unique_ptr<Weights> weights;
  std::vector<RopeTable> ropes;  // those that differ
  std::vector<int> rope_of;      // [layer]; -1: nothing turns

  bool fast;  // products, and attention where it can be, on cooperative matrices

  GpuModel(const ModelSpec&, ElementType, std::shared_ptr<Gpu>, std::unique_ptr<Weights>, bool fast);
  int layers() const { return int(spec.layers.size()); }
  // Null: the layer has attention.
  const DeltaRuleSpec* delta_rule(int layer) const {
    const auto& delta = spec.layers[size_t(layer)].delta_rule;
    return delta ? &*delta : nullptr;
  }
  const AttentionSpec& attention(int layer) const { return spec.layers[size_t(layer)].attention; }
  const Layer& layer(int l) const { return weights->layers[size_t(l)]; }
  float residual_scale(int layer) const { return float(spec.layers[size_t(layer)].residual_scale); }
  float embedding_scale() const;
  const Gpu::Pipeline& pipeline(Shader shader, const std::vector<uint32_t>& constants = {}) const {
    return gpu->pipeline(shader, type, constants);
  }
};

// Specialisation constants of the shaders over heads; what `last` is, each says.
inline std::vector<uint32_t> shape_of(const ModelSpec& m, const AttentionSpec& a, int last) {
  return {uint32_t(a.heads), uint32_t(a.kv_heads),        uint32_t(a.head_dim),
          uint32_t(last),    m.kv_cache == KvCache::int8, uint32_t(a.q_stride())};
}

// Elements of a token in a layer's rows; of all layers, the most of each.
constexpr int kDeltaInputs = kProjections - kInQkv;
struct Widths {
  int q = 0, queries = 0, kv = 0, intermediate = 0, heads = 0;
  int attended = 0;                 // what attention or the delta rule puts out
  int delta_in[kDeltaInputs] = {};  // of the projections from kInQkv on
  bool qk_norm = false, norms_after = false;
  bool gated = false;  // what is put out is gated before its projection
};
Widths widths_of(const LayerSpec&);
Widths widest(const ModelSpec&);

}  // namespace anneal::vulkan
