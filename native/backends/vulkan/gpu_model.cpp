#include "gpu_model.h"

namespace anneal::vulkan {

GpuModel::GpuModel(const ModelSpec& m, ElementType t, std::shared_ptr<Gpu> g, std::unique_ptr<Weights> w,
                   bool on_matrices)
    : spec(m), type(t), gpu(std::move(g)), weights(std::move(w)), fast(on_matrices) {
  std::vector<const AttentionSpec*> known;
  for (const LayerSpec& layer : m.layers) {
    if (layer.delta_rule) {
      rope_of.push_back(-1);
      continue;
    }
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
  Widths w;
  w.intermediate = l.feed_forward.intermediate, w.norms_after = l.norms == NormPlacement::before_and_after;
  if (const auto& d = l.delta_rule) {
    w.attended = d->value_width(), w.gated = true;
    w.delta_in[0] = d->conv_width(), w.delta_in[kInZ - kInQkv] = d->value_width();
    w.delta_in[kInB - kInQkv] = w.delta_in[kInA - kInQkv] = d->value_heads;
    return w;
  }
  const AttentionSpec& a = l.attention;
  w.q = a.heads * a.q_stride(), w.queries = w.attended = a.q_width(), w.kv = a.kv_width(), w.heads = a.heads;
  w.qk_norm = a.qk_norm, w.gated = a.output_gate;
  return w;
}

Widths widest(const ModelSpec& m) {
  Widths most;
  for (const LayerSpec& layer : m.layers) {
    const Widths own = widths_of(layer);
    for (int Widths::*width :
         {&Widths::q, &Widths::queries, &Widths::kv, &Widths::intermediate, &Widths::heads, &Widths::attended})
      most.*width = std::max(most.*width, own.*width);
    for (int i = 0; i < kDeltaInputs; i++) most.delta_in[i] = std::max(most.delta_in[i], own.delta_in[i]);
    most.gated |= own.gated;
    most.qk_norm |= own.qk_norm;
    most.norms_after |= own.norms_after;
  }
  return most;
}

}  // namespace anneal::vulkan
