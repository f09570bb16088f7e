#include "gpu_model.h"

namespace anneal::vulkan {

GpuModel::GpuModel(const ModelSpec& m, ElementType t, std::shared_ptr<Gpu> g, std::unique_ptr<Weights> w)
    : spec(m), type(t), gpu(std::move(g)), weights(std::move(w)) {
  std::vector<const AttentionSpec*> known;
  for (const LayerSpec& layer : m.layers) {
    const AttentionSpec& a = layer.attention;
    const auto same = std::find_if(known.begin(), known.end(), [&](const AttentionSpec* other) {
      return other->rope == a.rope && other->rotary() == a.rotary();
    });
    rope_of.push_back(int(same - known.begin()));
    if (same != known.end()) continue;
    known.push_back(&a);
    ropes.emplace_back(a.rope, a.rotary(), m.max_positions);
  }
}

float GpuModel::embedding_scale() const {
  const float scale = float(spec.embedding_scale);
  return spec.embedding_rounds && type.bf16 ? widened(narrowed(scale)) : scale;
}

Widths widths_of(const LayerSpec& l) {
  const AttentionSpec& a = l.attention;
  return {a.q_width(), a.kv_width(), l.feed_forward.intermediate,
          a.heads,     a.qk_norm,    l.norms == NormPlacement::before_and_after};
}

Widths widest(const ModelSpec& m) {
  Widths most;
  for (const LayerSpec& layer : m.layers) {
    const Widths own = widths_of(layer);
    for (int Widths::*width : {&Widths::q, &Widths::kv, &Widths::intermediate, &Widths::heads})
      most.*width = std::max(most.*width, own.*width);
    most.qk_norm |= own.qk_norm;
    most.norms_after |= own.norms_after;
  }
  return most;
}

}  // namespace anneal::vulkan
