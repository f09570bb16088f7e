#include "tensors.h"

#include <cstring>

namespace anneal::model {

const char* projection_place(int p) {
  static constexpr const char* places[kProjections] = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj",
                                                       "self_attn.o_proj", "mlp.gate_proj",    "mlp.up_proj",
                                                       "mlp.down_proj"};
  return places[p];
}

const char* projection_name(int p) { return std::strchr(projection_place(p), '.') + 1; }

std::string layer_name(int layer, const char* rest) { return "model.layers." + std::to_string(layer) + "." + rest; }

std::string projection_name(int layer, int p) { return layer_name(layer, projection_place(p)); }

ProjectionShape projection_shape(const ModelSpec& m, int layer, int p) {
  const AttentionSpec& a = m.layers[layer].attention;
  const FeedForwardSpec& f = m.layers[layer].feed_forward;
  const int q = a.heads * a.head_dim, kv = a.kv_heads * a.head_dim;
  switch (p) {
    case kQ: return {q, m.hidden, a.q_bias};
    case kK: return {kv, m.hidden, a.k_bias};
    case kV: return {kv, m.hidden, a.v_bias};
    case kO: return {m.hidden, q, a.o_bias};
    case kGate:
    case kUp: return {f.intermediate, m.hidden, f.bias};
    default: return {m.hidden, f.intermediate, f.bias};
  }
}

std::vector<TensorShape> weight_tensors(const ModelSpec& m) {
  std::vector<TensorShape> list;
  list.push_back({"model.embed_tokens.weight", m.vocab, m.hidden});
  for (int l = 0; l < int(m.layers.size()); l++) {
    for (int p = 0; p < kProjections; p++) {
      const ProjectionShape shape = projection_shape(m, l, p);
      list.push_back({projection_name(l, p) + ".weight", shape.outputs, shape.inputs});
      if (shape.bias) list.push_back({projection_name(l, p) + ".bias", shape.outputs, 0});
    }
    list.push_back({layer_name(l, "input_layernorm.weight"), m.hidden, 0});
    list.push_back({layer_name(l, "post_attention_layernorm.weight"), m.hidden, 0});
    if (m.layers[l].attention.qk_norm) {
      list.push_back({layer_name(l, "self_attn.q_norm.weight"), m.layers[l].attention.head_dim, 0});
      list.push_back({layer_name(l, "self_attn.k_norm.weight"), m.layers[l].attention.head_dim, 0});
    }
  }
  list.push_back({"model.norm.weight", m.hidden, 0});
  if (!m.tied_head) list.push_back({"lm_head.weight", m.vocab, m.hidden});
  return list;
}

std::vector<TensorShape> adapter_tensors(const ModelSpec& m, const LoraSpec& spec) {
  std::vector<TensorShape> list;
  for (int l = 0; l < int(m.layers.size()); l++)
    for (int p = 0; p < kProjections; p++) {
      if (!spec.targets[p]) continue;
      const ProjectionShape shape = projection_shape(m, l, p);
      const std::string at = "base_model.model." + projection_name(l, p);
      list.push_back({at + ".lora_A.weight", spec.rank, shape.inputs});
      list.push_back({at + ".lora_B.weight", shape.outputs, spec.rank});
    }
  return list;
}

}  // namespace anneal::model
