#include "spec.h"

#include <cmath>

namespace anneal::model {

float AttentionSpec::score_scale() const { return scale == 0 ? 1.0f / std::sqrt(float(head_dim)) : float(scale); }

void check(const ModelSpec& m) {
  auto require = [](bool ok, const std::string& field, const char* what) {
    if (!ok) throw UnsupportedModel(field, what);
  };
  require(m.hidden > 0, "hidden", "must be positive");
  require(m.vocab > 0, "vocab", "must be positive");
  require(m.max_positions > 0, "maxPositions", "must be positive");
  require(!m.layers.empty(), "layers", "must not be empty");
  require(m.token_inputs >= 0, "tokenInputs", "must not be negative");
  for (size_t i = 0; i < m.layers.size(); i++) {
    const AttentionSpec& a = m.layers[i].attention;
    const std::string at = "layers[" + std::to_string(i) + "].";
    if (const auto& e = m.layers[i].experts) {
      require(e->intermediate > 0, at + "experts.intermediate", "must be positive");
      require(e->per_token > 0 && e->per_token <= e->count, at + "experts.perToken", "must be 1 to count");
      require(m.layers[i].norms == NormPlacement::before, at + "norms", "must stand before experts");
      require(m.token_inputs == 0, at + "experts", "must not be in a model with token inputs");
      require(!e->bias || !e->shared(), at + "experts.bias", "must be false where every token has an expert");
      require(e->logistic || !e->score_bias, at + "experts.scoreBias", "must be false where scores are a softmax");
      require(e->logistic || e->scale == 1, at + "experts.scale", "must be 1 where scores are a softmax");
      require(std::isfinite(e->scale) && e->scale > 0, at + "experts.scale", "must be positive");
    } else {
      require(m.layers[i].feed_forward.intermediate > 0, at + "feedForward.intermediate", "must be positive");
    }
    require(!m.layers[i].feed_forward.fused_gate_up || !m.layers[i].feed_forward.bias, at + "feedForward.fusedGateUp",
            "must have no biases");
    const LayerSpec& l = m.layers[i];
    require(l.names == LayerNames::usual ||
                !(l.delta_rule || a.fused_qkv || l.feed_forward.fused_gate_up || l.norms != NormPlacement::before ||
                  (l.experts && (l.experts->bias || l.experts->shared()))),
            at + "names", "must be usual for what this layer has");
    require(l.names == LayerNames::lfm2 || !l.experts || !l.experts->score_bias, at + "experts.scoreBias",
            "must be false where names are usual");
    if (const auto& d = m.layers[i].delta_rule) {
      require(d->key_heads > 0 && d->value_heads > 0 && d->value_heads % d->key_heads == 0, at + "deltaRule.valueHeads",
              "must be a multiple of keyHeads");
      require(!m.layers[i].short_convolution, at + "shortConvolution", "must be absent where there is a delta rule");
      require(d->key_dim > 0 && d->value_dim > 0 && d->kernel > 0, at + "deltaRule", "must have sizes above 0");
      continue;
    }
    if (const auto& c = m.layers[i].short_convolution) {
      require(c->width > 0, at + "shortConvolution.width", "must be positive");
      require(c->kernel > 0 && c->kernel <= kMaxConvolution, at + "shortConvolution.kernel", "must be 1 to 16");
      continue;
    }
    require(a.head_dim > 0 && a.head_dim % 2 == 0, at + "attention.headDim", "must be positive and even");
    require(a.kv_heads > 0 && a.heads > 0 && a.heads % a.kv_heads == 0, at + "attention.heads",
            "must be a multiple of kvHeads");
    require(a.rope.rotary_share > 0 && a.rope.rotary_share <= 1, at + "attention.rope.rotaryShare",
            "must be above 0 and at most 1");
    require(a.rotary() > 0 && a.rotary() % 2 == 0, at + "attention.rope.rotaryShare",
            "must leave an even number of elements of a head");
    const RopeSpec& rope = a.rope;
    require(!(rope.type == RopeType::llama3 || rope.type == RopeType::yarn || rope.query_scale > 0) ||
                rope.original_max_positions >= 1,
            at + "attention.rope.originalMaxPositions", "must be at least 1 for this type of scaling");
    require(rope.type != RopeType::llama3 || rope.high_freq_factor > rope.low_freq_factor,
            at + "attention.rope.highFreqFactor", "must be greater than lowFreqFactor");
    if (rope.type == RopeType::longrope)
      require(int(rope.factors(m.max_positions).size()) == a.rotary() / 2 && rope.attention_factor > 0,
              at + "attention.rope.factors", "must be one for every two elements that turn");
    require(!(a.v_norm || a.values_from_keys) || (a.qk_norm && !a.fused_qkv), at + "attention.qkNorm",
            "must be true, and fusedQkv false, where values have a norm or are keys");
    if (a.keys_of >= 0) {
      require(a.keys_of < int(i) && m.layers[size_t(a.keys_of)].attends() &&
                  m.layers[size_t(a.keys_of)].attention.keys_of < 0,
              at + "attention.keysOf", "must be a layer before it that has keys and values");
      const AttentionSpec& of = m.layers[size_t(a.keys_of)].attention;
      require(of.kv_heads == a.kv_heads && of.head_dim == a.head_dim && of.window == a.window && !a.fused_qkv,
              at + "attention.keysOf", "must be a layer with the same heads and window");
    }
    require(!a.fused_qkv || !(a.q_bias || a.k_bias || a.v_bias), at + "attention.fusedQkv", "must have no biases");
    require(!a.fused_qkv || !a.output_gate, at + "attention.fusedQkv", "must have no output gate");
  }
}

}  // namespace anneal::model
