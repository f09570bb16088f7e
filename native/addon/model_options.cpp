#include "model_options.h"

#include <algorithm>

namespace anneal::addon {

using model::Activation;
using model::AttentionSpec;
using model::FeedForwardSpec;
using model::LayerSpec;
using model::ModelSpec;
using model::NormPlacement;
using model::RopeSpec;
using model::RopeType;
using model::TensorFormat;

namespace {

// Reads the fields of one object.
struct Fields {
  const Argument& of;
  int whole(const char* name, int64_t min, int64_t max) const {
    return int(of.field(name, [&](Argument a) { return a.integer(min, max); }));
  }
  double number(const char* name, double min, double max) const {
    return of.field(name, [&](Argument a) { return a.number(min, max); });
  }
  bool flag(const char* name) const {
    return of.field(name, [](Argument a) { return a.boolean(); });
  }
};

RopeSpec rope_spec(const Argument& rope) {
  rope.object();
  const Fields f{rope};
  RopeSpec r;
  r.type = rope.field("type", [](Argument a) {
    return one_of<RopeType>(a, {{"none", RopeType::none},
                                {"default", RopeType::standard},
                                {"linear", RopeType::linear},
                                {"llama3", RopeType::llama3},
                                {"yarn", RopeType::yarn},
                                {"longrope", RopeType::longrope}});
  });
  r.theta = f.number("theta", 1, 1e15);
  r.factor = f.number("factor", 1e-3, 1e6);
  r.rotary_share = f.number("rotaryShare", 0, 1);
  r.low_freq_factor = f.number("lowFreqFactor", 1e-6, 1e6);
  r.high_freq_factor = f.number("highFreqFactor", 1e-6, 1e6);
  r.original_max_positions = f.number("originalMaxPositions", 0, 1e9);
  r.attention_factor = f.number("attentionFactor", 0, 1e3);
  r.beta_fast = f.number("betaFast", 1e-6, 1e6);
  r.beta_slow = f.number("betaSlow", 1e-6, 1e6);
  r.mscale = f.number("mscale", 0, 1e3);
  r.mscale_all_dim = f.number("mscaleAllDim", 0, 1e3);
  r.truncate = f.flag("truncate");
  r.query_scale = f.number("queryScale", 0, 1e3);
  const auto factors = [](Argument list) {
    std::vector<double> values;
    for (uint32_t i = 0, n = list.array_length(256); i < n; ++i)
      values.push_back(list.element(i, [](Argument a) { return a.number(1e-6, 1e9); }));
    return values;
  };
  r.short_factors = rope.field("shortFactors", factors);
  r.long_factors = rope.field("longFactors", factors);
  return r;
}

AttentionSpec attention_spec(const Argument& attention) {
  attention.object();
  const Fields f{attention};
  AttentionSpec a;
  a.heads = f.whole("heads", 1, 1024);
  a.kv_heads = f.whole("kvHeads", 1, 1024);
  a.head_dim = f.whole("headDim", 1, 512);
  a.rope = attention.field("rope", rope_spec);
  a.scale = f.number("scale", 0, 1e3);
  a.window = f.whole("window", 0, 1 << 30);
  a.soft_cap = f.number("softCap", 0, 1e6);
  a.qk_norm = f.flag("qkNorm");
  a.q_bias = f.flag("qBias");
  a.k_bias = f.flag("kBias");
  a.v_bias = f.flag("vBias");
  a.o_bias = f.flag("oBias");
  a.fused_qkv = f.flag("fusedQkv");
  a.output_gate = f.flag("outputGate");
  return a;
}

model::DeltaRuleSpec delta_rule_spec(const Argument& delta_rule) {
  delta_rule.object();
  const Fields f{delta_rule};
  model::DeltaRuleSpec d;
  d.key_heads = f.whole("keyHeads", 1, 1024);
  d.value_heads = f.whole("valueHeads", 1, 1024);
  d.key_dim = f.whole("keyDim", 1, 512);
  d.value_dim = f.whole("valueDim", 1, 512);
  d.kernel = f.whole("kernel", 1, 16);
  return d;
}

FeedForwardSpec feed_forward_spec(const Argument& feed_forward) {
  feed_forward.object();
  const Fields f{feed_forward};
  FeedForwardSpec s;
  s.intermediate = f.whole("intermediate", 1, 1 << 19);
  s.activation = feed_forward.field("activation", [](Argument a) {
    return one_of<Activation>(a, {{"silu", Activation::silu}, {"gelu_tanh", Activation::gelu_tanh}});
  });
  s.bias = f.flag("bias");
  s.fused_gate_up = f.flag("fusedGateUp");
  return s;
}

LayerSpec layer_spec(const Argument& layer) {
  layer.object();
  LayerSpec l;
  layer.field("deltaRule", [&](Argument a) {
    if (!a.missing()) l.delta_rule = delta_rule_spec(a);
  });
  layer.field("attention", [&](Argument a) {
    if (!l.delta_rule) l.attention = attention_spec(a);
  });
  l.feed_forward = layer.field("feedForward", feed_forward_spec);
  l.norms = layer.field("norms", [](Argument a) {
    return one_of<NormPlacement>(
        a, {{"before", NormPlacement::before}, {"before_and_after", NormPlacement::before_and_after}});
  });
  l.residual_scale = Fields{layer}.number("residualScale", 1e-6, 1e6);
  return l;
}

}  // namespace

std::string device_name(const Argument& argument) { return argument.missing() ? "cpu" : argument.text(32); }

int layers_on_gpu(const Argument& argument) { return argument.missing() ? -1 : int(argument.integer(0, 1 << 20)); }

TensorFormat tensor_format(const Argument& argument) {
  return one_of<TensorFormat>(argument, {{"float32", TensorFormat::f32}, {"bfloat16", TensorFormat::bf16}});
}

namespace {

// Formats of matrices by name: [{ tensor, format }].
void read_quantized(const Argument& list, ModelSpec& m) {
  if (list.missing()) return;
  std::unordered_map<std::string, int64_t> columns;
  for (const model::TensorShape& t : model::weight_tensors(m)) columns.emplace(t.name, t.cols);
  for (uint32_t i = 0, n = list.array_length(1 << 20); i < n; ++i)
    list.element(i, [&](Argument entry) {
      entry.object();
      const auto name = entry.field("tensor", [](Argument a) { return a.text(512); });
      const auto found = columns.find(name);
      if (found == columns.end() || found->second == 0) invalid(entry.path(), "names no matrix: " + name);
      const auto* format = entry.field("format", [&](Argument a) {
        const auto* known = model::quantized_format(a.text(16));
        if (!known) invalid(a.path(), "is no format of quantised weights");
        return known;
      });
      if (found->second % format->numbers != 0)
        invalid(entry.path(), "(" + name + ") has rows that are not whole blocks of its format");
      if (!m.quantized.emplace(name, format->format).second) invalid(entry.path(), "names " + name + " a second time");
    });
}

}  // namespace

ModelSpec model_spec(const Argument& config, TensorFormat format) {
  config.object();
  const Fields f{config};
  ModelSpec m;
  m.format = format;
  m.hidden = f.whole("hidden", 1, 1 << 17);
  m.vocab = f.whole("vocab", 1, 1 << 22);
  m.max_positions = f.whole("maxPositions", 1, 1 << 24);
  m.rms_eps = float(f.number("rmsEps", 1e-12, 1));
  m.norm_adds_one = f.flag("normAddsOne");
  m.tied_head = f.flag("tiedHead");
  m.embedding_scale = f.number("embeddingScale", 1e-6, 1e6);
  m.embedding_rounds = f.flag("embeddingRounds");
  m.logit_scale = f.number("logitScale", 1e-6, 1e6);
  m.logit_soft_cap = f.number("logitSoftCap", 0, 1e6);
  config.field("layers", [&](Argument list) {
    for (uint32_t i = 0, n = list.array_length(1024); i < n; ++i) m.layers.push_back(list.element(i, layer_spec));
  });
  try {
    model::check(m);
  } catch (const model::UnsupportedModel& error) {
    invalid(Path(config.path(), error.field.c_str()), error.problem);
  }
  config.field("quantized", [&](Argument list) { read_quantized(list, m); });
  config.field("kvCache", [&](Argument a) {
    if (!a.missing())
      m.kv_cache = one_of<model::KvCache>(a, {{"exact", model::KvCache::exact}, {"int8", model::KvCache::int8}});
  });
  return m;
}

model::LoraSpec lora_spec(const Argument& spec, const ModelSpec& of) {
  spec.object();
  model::LoraSpec result{};
  result.rank = int(spec.field("rank", [](Argument a) { return a.integer(1, 1024); }));
  result.alpha = float(spec.field("alpha", [](Argument a) { return a.number(1e-6, 1e6); }));
  result.rslora = spec.field("rslora", [](Argument a) { return a.boolean(); });
  spec.field("targets", [&](Argument list) {
    std::vector<int> known;
    for (const LayerSpec& layer : of.layers)
      for (int module : model::modules_of(layer))
        if (std::find(known.begin(), known.end(), module) == known.end()) known.push_back(module);
    // What computes without describing its layers refuses adapters itself.
    for (int module = 0; of.layers.empty() && module < model::kModules; module++) known.push_back(module);
    std::sort(known.begin(), known.end());
    const uint32_t count = list.array_length(model::kModules);
    if (count == 0) invalid(list.path(), "must name at least one projection");
    for (uint32_t i = 0; i < count; ++i)
      list.element(i, [&](Argument a) {
        const auto name = a.text(32);
        std::string names;
        for (int module : known) {
          names += (names.empty() ? "" : ", ") + std::string(model::module_name(module));
          if (name != model::module_name(module)) continue;
          if (result.targets[module]) invalid(a.path(), "names \"" + name + "\" a second time");
          result.targets[module] = true;
          return;
        }
        invalid(a.path(), "is \"" + name + "\"; this model has " + names);
      });
  });
  return result;
}

backends::OptimizerSettings optimizer_settings(const Argument& settings) {
  settings.object();
  const auto number = [&](const char* name, double min, double max) {
    return float(settings.field(name, [&](Argument a) { return a.number(min, max); }));
  };
  backends::OptimizerSettings s{};
  s.learning_rate = number("learningRate", 0, 1e3);
  s.beta1 = number("beta1", 0, 0.9999999);
  s.beta2 = number("beta2", 0, 0.9999999);
  s.eps = number("eps", 1e-30, 1);
  s.weight_decay = number("weightDecay", 0, 1e3);
  s.max_grad_norm = number("maxGradNorm", 0, 1e30);
  return s;
}

}  // namespace anneal::addon
