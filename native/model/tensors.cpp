#include "tensors.h"

#include <cmath>
#include <cstring>

namespace anneal::model {

bool has_projection(const LayerSpec& layer, int p) {
  if (p >= kGate && p <= kDown) return !layer.experts;
  if (p == kO) return true;
  if (layer.short_convolution) return p == kInQkv;
  if ((p == kK || p == kV) && layer.attention.keys_of >= 0) return false;
  if (p == kV && layer.attention.values_from_keys) return false;
  return (p >= kInQkv) == layer.delta_rule.has_value();
}

Parts parts_of(int module) {
  switch (module) {
    case kQkv: return {kQ, 3};
    case kGateUp: return {kGate, 2};
    case kOut:
    case kAttentionOut:
    case kConvolutionOut: return {kO, 1};
    case kW1: return {kGate, 1};
    case kW3: return {kUp, 1};
    case kW2: return {kDown, 1};
    case kConvolutionIn: return {kInQkv, 1};
    default: return {module, 1};
  }
}

namespace {

int lfm2_module_of(int p) {
  switch (p) {
    case kO: return kAttentionOut;
    case kGate: return kW1;
    case kUp: return kW3;
    case kDown: return kW2;
    default: return p;
  }
}

const char* lfm2_norm_place(const LayerSpec& layer, int norm) {
  switch (norm) {
    case kNormIn: return "operator_norm";
    case kNormMiddle: return "ffn_norm";
    case kNormQ: return layer.attention.qk_norm ? "self_attn.q_layernorm" : nullptr;
    case kNormK: return layer.attention.qk_norm ? "self_attn.k_layernorm" : nullptr;
    default: return nullptr;
  }
}

}  // namespace

int module_of(const LayerSpec& layer, int p) {
  if (layer.short_convolution && p == kInQkv) return kConvolutionIn;
  if (layer.short_convolution && p == kO) return kConvolutionOut;
  if (layer.names == LayerNames::lfm2) return lfm2_module_of(p);
  if (layer.attention.fused_qkv && p >= kQ && p <= kV) return kQkv;
  if (layer.delta_rule && p == kO) return kOut;
  if (layer.feed_forward.fused_gate_up && (p == kGate || p == kUp)) return kGateUp;
  return p;
}

std::vector<int> modules_of(const LayerSpec& layer) {
  std::vector<int> list;
  for (int p = 0; p < kProjections; p++)
    if (const int module = module_of(layer, p); has_projection(layer, p) && parts_of(module).first == p)
      list.push_back(module);
  return list;
}

std::vector<int> modules_of(const ModelSpec& m) {
  bool has[kModules] = {};
  for (const LayerSpec& layer : m.layers)
    for (int module : modules_of(layer)) has[module] = true;
  std::vector<int> modules;
  for (int module = 0; module < kModules; module++)
    if (has[module] || m.layers.empty()) modules.push_back(module);
  return modules;
}

const char* module_place(int module) {
  static constexpr const char* places[kModules] = {
      "self_attn.q_proj",      "self_attn.k_proj",      "self_attn.v_proj",      "self_attn.o_proj",
      "mlp.gate_proj",         "mlp.up_proj",           "mlp.down_proj",         "linear_attn.in_proj_qkv",
      "linear_attn.in_proj_z", "linear_attn.in_proj_b", "linear_attn.in_proj_a", "self_attn.qkv_proj",
      "mlp.gate_up_proj",      "linear_attn.out_proj",  "feed_forward.w1",       "feed_forward.w3",
      "feed_forward.w2",       "self_attn.out_proj",    "conv.in_proj",          "conv.out_proj"};
  return places[module];
}

const char* module_name(int module) { return std::strchr(module_place(module), '.') + 1; }

const char* norm_place(const ModelSpec& m, int index, int norm) {
  const LayerSpec& layer = m.layers[size_t(index)];
  if (layer.names == LayerNames::lfm2) return lfm2_norm_place(layer, norm);
  const bool after = layer.norms == NormPlacement::before_and_after, delta = layer.delta_rule.has_value(),
             heads = layer.attention.qk_norm && !delta;
  switch (norm) {
    case kNormIn: return "input_layernorm";
    case kNormAttended: return after ? "post_attention_layernorm" : nullptr;
    case kNormMiddle: return after ? "pre_feedforward_layernorm" : "post_attention_layernorm";
    case kNormOut: return after ? "post_feedforward_layernorm" : nullptr;
    case kNormQ: return heads ? "self_attn.q_norm" : nullptr;
    case kNormK: return heads && layer.attention.keys_of < 0 ? "self_attn.k_norm" : nullptr;
    case kNormToken: return m.token_inputs ? "post_per_layer_input_norm" : nullptr;
    default: return delta ? "linear_attn.norm" : nullptr;
  }
}

int norm_width(const ModelSpec& m, int layer, int norm) {
  const LayerSpec& of = m.layers[layer];
  if (norm == kNormDelta) return of.delta_rule ? of.delta_rule->value_dim : 0;
  return norm == kNormQ || norm == kNormK ? of.attention.head_dim : m.hidden;
}

std::string layer_name(int layer, const char* rest) { return "model.layers." + std::to_string(layer) + "." + rest; }

std::string module_name(int layer, int module) { return layer_name(layer, module_place(module)); }

ProjectionShape projection_shape(const ModelSpec& m, int layer, int p) {
  const AttentionSpec& a = m.layers[layer].attention;
  const FeedForwardSpec& f = m.layers[layer].feed_forward;
  if (!has_projection(m.layers[layer], p)) return {0, 0, false};
  const int q = a.q_width(), kv = a.kv_width();
  if (const auto& d = m.layers[layer].delta_rule) {
    switch (p) {
      case kO: return {m.hidden, d->value_width(), false};
      case kInQkv: return {d->conv_width(), m.hidden, false};
      case kInZ: return {d->value_width(), m.hidden, false};
      case kInB:
      case kInA: return {d->value_heads, m.hidden, false};
      default: break;
    }
  }
  if (const auto& c = m.layers[layer].short_convolution) {
    if (p == kO) return {m.hidden, c->width, c->bias};
    if (p == kInQkv) return {3 * c->width, m.hidden, c->bias};
  }
  switch (p) {
    case kQ: return {a.heads * a.q_stride(), m.hidden, a.q_bias};
    case kK: return {kv, m.hidden, a.k_bias};
    case kV: return {kv, m.hidden, a.v_bias};
    case kO: return {m.hidden, q, a.o_bias};
    case kGate:
    case kUp: return {f.intermediate, m.hidden, f.bias};
    default: return {m.hidden, f.intermediate, f.bias};
  }
}

ProjectionShape module_shape(const ModelSpec& m, int layer, int module) {
  const Parts parts = parts_of(module);
  ProjectionShape shape = projection_shape(m, layer, parts.first);
  for (int p = parts.first + 1; p < parts.first + parts.count; p++)
    shape.outputs += projection_shape(m, layer, p).outputs;
  return shape;
}

int first_output(const ModelSpec& m, int layer, int projection) {
  int sum = 0;
  for (int p = parts_of(module_of(m.layers[layer], projection)).first; p < projection; p++)
    sum += projection_shape(m, layer, p).outputs;
  return sum;
}

std::vector<int64_t> TensorShape::dimensions() const {
  if (!cols) return {rows};
  return convolution ? std::vector<int64_t>{rows, 1, cols} : std::vector<int64_t>{rows, cols};
}

TensorShape delta_tensor(const ModelSpec& m, int layer, int tensor) {
  const DeltaRuleSpec& d = *m.layers[layer].delta_rule;
  switch (tensor) {
    case kConvolution: return {layer_name(layer, "linear_attn.conv1d.weight"), d.conv_width(), d.kernel, true};
    case kDecay: return {layer_name(layer, "linear_attn.A_log"), d.value_heads, 0};
    default: return {layer_name(layer, "linear_attn.dt_bias"), d.value_heads, 0};
  }
}

std::vector<TensorShape> convolution_tensors(const ModelSpec& m, int layer) {
  const auto& c = m.layers[layer].short_convolution;
  if (!c) return {};
  std::vector<TensorShape> list = {{layer_name(layer, "conv.conv.weight"), c->width, c->kernel, true}};
  if (c->bias) list.push_back({layer_name(layer, "conv.conv.bias"), c->width, 0});
  return list;
}

const char* final_norm_name(const ModelSpec& m) {
  const bool lfm2 = !m.layers.empty() && m.layers[0].names == LayerNames::lfm2;
  return lfm2 ? "model.embedding_norm.weight" : "model.norm.weight";
}

TensorShape router_tensor(const ModelSpec& m, int layer) {
  const bool lfm2 = m.layers[layer].names == LayerNames::lfm2;
  return {layer_name(layer, lfm2 ? "feed_forward.gate.weight" : "mlp.gate.weight"), m.layers[layer].experts->count,
          m.hidden};
}

TensorShape score_bias_tensor(const ModelSpec& m, int layer) {
  return {layer_name(layer, "feed_forward.expert_bias"), m.layers[layer].experts->count, 0};
}

TensorShape shared_gate_tensor(const ModelSpec& m, int layer) {
  return {layer_name(layer, "mlp.shared_expert_gate.weight"), 1, m.hidden};
}

TensorShape expert_tensor(const ModelSpec& m, int layer, int expert, int projection) {
  const ExpertsSpec& e = *m.layers[layer].experts;
  const int intermediate = e.intermediate_of(expert);
  const bool lfm2 = m.layers[layer].names == LayerNames::lfm2;
  const std::string experts = lfm2 ? "feed_forward.experts." : "mlp.experts.",
                    of = expert == e.count ? "mlp.shared_expert." : experts + std::to_string(expert) + ".",
                    name =
                        layer_name(layer, of.c_str()) + module_name(module_of(m.layers[layer], projection)) + ".weight";
  if (projection == kDown) return {name, m.hidden, intermediate};
  return {name, intermediate, m.hidden};
}

std::string bias_of(const std::string& weight) { return weight.substr(0, weight.rfind('.')) + ".bias"; }

TensorShape sink_tensor(const ModelSpec& m, int layer) {
  return {layer_name(layer, "self_attn.sinks"), m.layers[layer].attention.heads, 0};
}

TensorShape scale_tensor(const ModelSpec&, int layer) { return {layer_name(layer, "layer_scalar"), 1, 0}; }

TensorShape token_tensor(const ModelSpec& m, int tensor) {
  const int64_t width = int64_t(m.token_inputs) * int64_t(m.layers.size());
  switch (tensor) {
    case kTokenTable: return {"model.embed_tokens_per_layer.weight", m.vocab, width};
    case kTokenProjection: return {"model.per_layer_model_projection.weight", width, m.hidden};
    default: return {"model.per_layer_projection_norm.weight", m.token_inputs, 0};
  }
}

TensorShape token_gate_tensor(const ModelSpec& m, int layer) {
  return {layer_name(layer, "per_layer_input_gate.weight"), m.token_inputs, m.hidden};
}

TensorShape token_out_tensor(const ModelSpec& m, int layer) {
  return {layer_name(layer, "per_layer_projection.weight"), m.hidden, m.token_inputs};
}

std::vector<TensorShape> weight_tensors(const ModelSpec& m) {
  std::vector<TensorShape> list;
  const auto of_experts = [&](const ExpertsSpec& experts, const TensorShape& matrix) {
    list.push_back(matrix);
    if (experts.bias) list.push_back({bias_of(matrix.name), matrix.rows, 0});
  };
  list.push_back({"model.embed_tokens.weight", m.vocab, m.hidden});
  for (int t = 0; m.token_inputs && t < kTokenTensors; t++) list.push_back(token_tensor(m, t));
  for (int l = 0; l < int(m.layers.size()); l++) {
    const LayerSpec& layer = m.layers[l];
    for (int module : modules_of(layer)) {
      const ProjectionShape shape = module_shape(m, l, module);
      list.push_back({module_name(l, module) + ".weight", shape.outputs, shape.inputs});
      if (shape.bias) list.push_back({module_name(l, module) + ".bias", shape.outputs, 0});
    }
    if (layer.attention.sinks) list.push_back(sink_tensor(m, l));
    if (layer.experts) of_experts(*layer.experts, router_tensor(m, l));
    if (layer.experts && layer.experts->score_bias) list.push_back(score_bias_tensor(m, l));
    if (layer.experts && layer.experts->shared()) list.push_back(shared_gate_tensor(m, l));
    for (int e = 0; layer.experts && e < layer.experts->total(); e++)
      for (int p : {kGate, kUp, kDown}) of_experts(*layer.experts, expert_tensor(m, l, e, p));
    for (int n = 0; n < kNorms; n++)
      if (const char* place = norm_place(m, l, n))
        list.push_back({layer_name(l, place) + ".weight", norm_width(m, l, n), 0});
    for (int t = 0; layer.delta_rule && t < kDeltaTensors; t++) list.push_back(delta_tensor(m, l, t));
    for (TensorShape& tensor : convolution_tensors(m, l)) list.push_back(std::move(tensor));
    if (m.token_inputs) list.push_back(token_gate_tensor(m, l)), list.push_back(token_out_tensor(m, l));
    if (layer.scaled) list.push_back(scale_tensor(m, l));
  }
  list.push_back({final_norm_name(m), m.hidden, 0});
  if (!m.tied_head) list.push_back({"lm_head.weight", m.vocab, m.hidden});
  return list;
}

std::vector<TensorShape> adapter_tensors(const ModelSpec& m, const LoraSpec& spec) {
  std::vector<TensorShape> list;
  for (int l = 0; l < int(m.layers.size()); l++)
    for (int module : modules_of(m.layers[l])) {
      if (!spec.targets[module]) continue;
      const ProjectionShape shape = module_shape(m, l, module);
      const std::string at = "base_model.model." + module_name(l, module);
      list.push_back({at + ".lora_A.weight", spec.rank, shape.inputs});
      list.push_back({at + ".lora_B.weight", shape.outputs, spec.rank});
    }
  return list;
}

AdapterPlaces::AdapterPlaces(const ModelSpec& m, const LoraSpec& spec) {
  size_t next = 0;
  for (int l = 0; l < int(m.layers.size()); l++) {
    places_.emplace_back(kProjections);
    for (int module : modules_of(m.layers[l])) {
      if (!spec.targets[module]) continue;
      const Parts parts = parts_of(module);
      for (int p = parts.first; p < parts.first + parts.count; p++)
        places_.back()[p] = {next, int64_t(first_output(m, l, p)) * spec.rank};
      next += 2;
    }
  }
}

AdapterPlace AdapterPlaces::of(int layer, int projection, bool b) const {
  const Place& place = places_[size_t(layer)][size_t(projection)];
  return b ? AdapterPlace{place.tensor + 1, place.element} : AdapterPlace{place.tensor, 0};
}

float LoraSpec::scale() const { return rslora ? alpha / std::sqrt(float(rank)) : alpha / float(rank); }

}  // namespace anneal::model
