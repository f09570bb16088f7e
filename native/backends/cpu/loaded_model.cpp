#include "loaded_model.h"

namespace anneal::cpu {

Widths widths_of(const LayerSpec& l) {
  Widths w;
  w.intermediate = l.experts ? l.experts->per_row() * l.experts->stride() : l.feed_forward.intermediate;
  w.norms_after = l.norms == NormPlacement::before_and_after;
  if (l.delta_rule) {
    const DeltaRuleSpec& d = *l.delta_rule;
    w.attended = d.value_width(), w.gated = true;
    w.delta_in[kInQkv - kInQkv] = d.conv_width(), w.delta_in[kInZ - kInQkv] = d.value_width();
    w.delta_in[kInB - kInQkv] = w.delta_in[kInA - kInQkv] = d.value_heads;
    return w;
  }
  if (l.short_convolution) {
    w.attended = l.short_convolution->width, w.delta_in[kInQkv - kInQkv] = 3 * l.short_convolution->width;
    return w;
  }
  const AttentionSpec& a = l.attention;
  w.attended = a.q_width(), w.gated = a.output_gate;
  w.q = a.heads * a.q_stride(), w.kv = a.kv_width();
  w.heads = a.heads, w.head_dim = a.head_dim;
  w.q_floats = a.heads * padded(a.head_dim), w.kv_floats = a.kv_heads * padded(a.head_dim);
  w.qk_norm = a.qk_norm;
  w.v_norm = a.v_norm && !a.values_from_keys && a.keys_of < 0;
  return w;
}

namespace {

// Matrices whose transposes are multiplied with gradients that are summed up by one product of backward.
template <class F> void each_gradient_sum(const Layer& l, F&& f) {
  const auto& p = l.projections;
  f({&p[kDown]}), f({&p[kGate], &p[kUp]}), f({&p[kO]}), f({&p[kQ], &p[kK], &p[kV]});
  f({&p[kInQkv], &p[kInZ], &p[kInB], &p[kInA]});
  f({&l.token_gate}), f({&l.token_out}), f({&l.router, &l.shared_gate});
  for (const Expert& e : l.experts) f({&e.down}), f({&e.gate, &e.up});
}

}  // namespace

Model::Model(const ModelSpec& m, const Kernels& k, std::unique_ptr<Weights> w)
    : spec(m), kernels(k), weights(std::move(w)) {
  std::vector<const AttentionSpec*> known;
  if (weights->token_projection.quantized()) code_bytes_ = code_row_bytes(weights->token_projection.format, m.hidden);
  for (size_t layer = 0; layer < m.layers.size(); layer++) {
    const Widths own = widths_of(m.layers[layer]);
    for (int Widths::*width :
         {&Widths::attended, &Widths::q, &Widths::kv, &Widths::intermediate, &Widths::heads, &Widths::head_dim})
      widest_.*width = std::max(widest_.*width, own.*width);
    for (int i = 0; i < kDeltaInputs; i++) widest_.delta_in[i] = std::max(widest_.delta_in[i], own.delta_in[i]);
    widest_.q_floats = std::max(widest_.q_floats, own.q_floats);
    widest_.kv_floats = std::max(widest_.kv_floats, own.kv_floats);
    widest_.qk_norm |= own.qk_norm;
    widest_.v_norm |= own.v_norm;
    widest_.norms_after |= own.norms_after;
    widest_.gated |= own.gated;

    if (const auto& experts = m.layers[layer].experts)
      for (int ExpertsSpec::*size : {&ExpertsSpec::count, &ExpertsSpec::per_token, &ExpertsSpec::intermediate,
                                     &ExpertsSpec::shared_intermediate})
        most_experts_.*size = std::max(most_experts_.*size, (*experts).*size);

    int64_t bytes = 0;
    weights->layers[layer].each_matrix([&](const Linear& linear) {
      bytes += panels_of(linear.n) * panel_bytes(k, linear.k);
      if (linear.quantized()) code_bytes_ = std::max(code_bytes_, code_row_bytes(linear.format, linear.k));
    });
    layer_bytes_ = std::max(layer_bytes_, bytes);
    each_gradient_sum(weights->layers[layer], [&](std::initializer_list<const Linear*> terms) {
      int64_t sum = 0;
      for (const Linear* w : terms) sum += gradient_code_bytes_of(k, *w, w->n);
      gradient_code_bytes_ = std::max(gradient_code_bytes_, sum);
    });

    const int keys = m.keys_layer(int(layer));
    shared_keys_.push_back(keys < int(layer) ? shared_keys_[size_t(keys)] : -1);
    if (m.keys_are_shared(int(layer))) shared_keys_.back() = shared_keys_count_++;
    rope_of_.push_back(-1), scales_.push_back(0);
    if (!m.layers[layer].attends()) continue;
    const AttentionSpec& a = m.layers[layer].attention;
    const auto same = std::find_if(known.begin(), known.end(), [&](const AttentionSpec* other) {
      return other->rope == a.rope && other->rotary() == a.rotary();
    });
    rope_of_.back() = int(same - known.begin());
    if (same == known.end()) {
      known.push_back(&a);
      ropes_.emplace_back(a.rope, a.rotary(), m.max_positions);
    }
    scales_.back() = a.score_scale();
    if (std::find(groups_.begin(), groups_.end(), a.group()) == groups_.end()) groups_.push_back(a.group());
  }
}

void Model::embed(const Linear& table, int token, float* to) const {
  if (table.quantized())
    kernels.of(table.format).embed(table.panels, table.k, token, to);
  else
    kernels.embed(table.panels, table.n, table.k, token, to);
}

void Model::round(float* x, int n) const {
  constexpr int kPiece = 256;
  alignas(64) char rounded[kPiece * sizeof(float)];
  for (int i = 0; i < n; i += kPiece) {
    const int count = std::min(kPiece, n - i);
    kernels.round_rows(x + i, count, 1, count, 1, rounded, kPiece);
    kernels.widen_rows(rounded, kPiece, 1, count, x + i, count);
  }
}

}  // namespace anneal::cpu
