#include "model_options.h"

#include <algorithm>

namespace anneal::addon {

using model::Activation;
using model::AttentionSpec;
using model::FeedForwardSpec;
using model::LayerNames;
using model::LayerSpec;
using model::ModelSpec;
using model::NormPlacement;
using model::RopeSpec;
using model::RopeType;
using model::TensorFormat;

namespace {

RopeSpec rope_spec(const Argument& rope) {
  rope.object();
  const auto number = [&](const char* name, double min, double max) { return rope.at(name).number(min, max); };
  RopeSpec r;
  r.type = one_of<RopeType>(rope.at("type"), {{"none", RopeType::none},
                                              {"default", RopeType::standard},
                                              {"linear", RopeType::linear},
                                              {"llama3", RopeType::llama3},
                                              {"yarn", RopeType::yarn},
                                              {"longrope", RopeType::longrope},
                                              {"proportional", RopeType::proportional}});
  r.theta = number("theta", 1, 1e15);
  r.factor = number("factor", 1e-3, 1e6);
  r.rotary_share = number("rotaryShare", 0, 1);
  r.low_freq_factor = number("lowFreqFactor", 1e-6, 1e6);
  r.high_freq_factor = number("highFreqFactor", 1e-6, 1e6);
  r.original_max_positions = number("originalMaxPositions", 0, 1e9);
  r.attention_factor = number("attentionFactor", 0, 1e3);
  r.beta_fast = number("betaFast", 1e-6, 1e6);
  r.beta_slow = number("betaSlow", 1e-6, 1e6);
  r.mscale = number("mscale", 0, 1e3);
  r.mscale_all_dim = number("mscaleAllDim", 0, 1e3);
  r.truncate = rope.at("truncate").boolean();
  r.query_scale = number("queryScale", 0, 1e3);
  rope.at("shortFactors").each(256, [&](const Argument& a) { r.short_factors.push_back(a.number(1e-6, 1e9)); });
  rope.at("longFactors").each(256, [&](const Argument& a) { r.long_factors.push_back(a.number(1e-6, 1e9)); });
  return r;
}

AttentionSpec attention_spec(const Argument& attention) {
  attention.object();
  AttentionSpec a;
  a.heads = attention.at("heads").whole(1, 1024);
  a.kv_heads = attention.at("kvHeads").whole(1, 1024);
  a.head_dim = attention.at("headDim").whole(1, 512);
  a.rope = rope_spec(attention.at("rope"));
  a.scale = attention.at("scale").number(0, 1e3);
  a.window = attention.at("window").whole(0, 1 << 30);
  a.soft_cap = attention.at("softCap").number(0, 1e6);
  a.qk_norm = attention.at("qkNorm").boolean();
  a.q_bias = attention.at("qBias").boolean();
  a.k_bias = attention.at("kBias").boolean();
  a.v_bias = attention.at("vBias").boolean();
  a.o_bias = attention.at("oBias").boolean();
  a.fused_qkv = attention.at("fusedQkv").boolean();
  a.output_gate = attention.at("outputGate").boolean();
  if (const auto sinks = attention.given("sinks")) a.sinks = sinks->boolean();
  if (const auto norm = attention.given("vNorm")) a.v_norm = norm->boolean();
  if (const auto from_keys = attention.given("valuesFromKeys")) a.values_from_keys = from_keys->boolean();
  if (const auto layer = attention.given("keysOf")) a.keys_of = layer->whole(0, 1023);
  return a;
}

model::DeltaRuleSpec delta_rule_spec(const Argument& delta_rule) {
  delta_rule.object();
  model::DeltaRuleSpec d;
  d.key_heads = delta_rule.at("keyHeads").whole(1, 1024);
  d.value_heads = delta_rule.at("valueHeads").whole(1, 1024);
  d.key_dim = delta_rule.at("keyDim").whole(1, 512);
  d.value_dim = delta_rule.at("valueDim").whole(1, 512);
  d.kernel = delta_rule.at("kernel").whole(1, 16);
  return d;
}

model::ShortConvolutionSpec short_convolution_spec(const Argument& convolution) {
  convolution.object();
  model::ShortConvolutionSpec c;
  c.width = convolution.at("width").whole(1, 1 << 17);
  c.kernel = convolution.at("kernel").whole(1, model::kMaxConvolution);
  c.bias = convolution.at("bias").boolean();
  return c;
}

Activation activation(const Argument& argument) {
  return one_of<Activation>(argument, {{"silu", Activation::silu},
                                       {"gelu_tanh", Activation::gelu_tanh},
                                       {"clamped_swiglu", Activation::clamped_swiglu}});
}

FeedForwardSpec feed_forward_spec(const Argument& feed_forward) {
  feed_forward.object();
  FeedForwardSpec s;
  s.intermediate = feed_forward.at("intermediate").whole(1, 1 << 19);
  s.activation = activation(feed_forward.at("activation"));
  s.bias = feed_forward.at("bias").boolean();
  s.fused_gate_up = feed_forward.at("fusedGateUp").boolean();
  return s;
}

model::ExpertsSpec experts_spec(const Argument& experts) {
  experts.object();
  model::ExpertsSpec e;
  e.count = experts.at("count").whole(1, 1024);
  e.per_token = experts.at("perToken").whole(1, 64);
  e.intermediate = experts.at("intermediate").whole(1, 1 << 17);
  e.activation = activation(experts.at("activation"));
  e.normalized = experts.at("normalized").boolean();
  if (const auto bias = experts.given("bias")) e.bias = bias->boolean();
  if (const auto scores = experts.given("scores"))
    e.logistic = one_of<bool>(*scores, {{"softmax", false}, {"logistic", true}});
  if (const auto bias = experts.given("scoreBias")) e.score_bias = bias->boolean();
  if (const auto scale = experts.given("scale")) e.scale = scale->number(1e-3, 1e3);
  if (const auto shared = experts.given("sharedIntermediate")) e.shared_intermediate = shared->whole(1, 1 << 17);
  return e;
}

LayerSpec layer_spec(const Argument& layer) {
  layer.object();
  LayerSpec l;
  if (const auto delta_rule = layer.given("deltaRule"))
    l.delta_rule = delta_rule_spec(*delta_rule);
  else if (const auto convolution = layer.given("shortConvolution"))
    l.short_convolution = short_convolution_spec(*convolution);
  else
    l.attention = attention_spec(layer.at("attention"));
  const auto experts = layer.given("experts"), feed_forward = layer.given("feedForward");
  if (experts && feed_forward) invalid(feed_forward->path(), "must be null where there are experts");
  if (experts)
    l.experts = experts_spec(*experts);
  else
    l.feed_forward = feed_forward_spec(layer.at("feedForward"));
  l.norms = one_of<NormPlacement>(
      layer.at("norms"), {{"before", NormPlacement::before}, {"before_and_after", NormPlacement::before_and_after}});
  l.residual_scale = layer.at("residualScale").number(1e-6, 1e6);
  if (const auto scaled = layer.given("scaled")) l.scaled = scaled->boolean();
  if (const auto names = layer.given("names"))
    l.names = one_of<LayerNames>(*names, {{"usual", LayerNames::usual}, {"lfm2", LayerNames::lfm2}});
  return l;
}

// Formats of matrices by name: [{ tensor, format }].
void read_quantized(const Argument& list, ModelSpec& m) {
  std::unordered_map<std::string, int64_t> columns;
  for (const model::TensorShape& t : model::weight_tensors(m)) columns.emplace(t.name, t.cols);
  list.each(1 << 20, [&](const Argument& entry) {
    entry.object();
    const auto name = entry.at("tensor").text(512);
    const auto found = columns.find(name);
    if (found == columns.end() || found->second == 0) invalid(entry.path(), "names no matrix: " + name);
    const auto* format = model::quantized_format(entry.at("format").text(16));
    if (!format) invalid(entry.at("format").path(), "is no format of quantised weights");
    if (found->second % format->numbers != 0)
      invalid(entry.path(), "(" + name + ") has rows that are not whole blocks of its format");
    if (!m.quantized.emplace(name, format->format).second) invalid(entry.path(), "names " + name + " a second time");
  });
}

}  // namespace

std::string device_name(const Argument& argument) { return argument.missing() ? "cpu" : argument.text(32); }

int layers_on_gpu(const Argument& argument, const model::ModelSpec& spec) {
  return argument.missing() ? -1 : argument.whole(1, int(spec.layers.size()));
}

TensorFormat tensor_format(const Argument& argument) {
  return one_of<TensorFormat>(argument, {{"float32", TensorFormat::f32}, {"bfloat16", TensorFormat::bf16}});
}

ModelSpec model_spec(const Argument& config, TensorFormat format) {
  config.object();
  ModelSpec m;
  m.format = format;
  m.hidden = config.at("hidden").whole(1, 1 << 17);
  m.vocab = config.at("vocab").whole(1, 1 << 22);
  m.max_positions = config.at("maxPositions").whole(1, 1 << 24);
  m.rms_eps = float(config.at("rmsEps").number(1e-12, 1));
  m.norm_adds_one = config.at("normAddsOne").boolean();
  m.tied_head = config.at("tiedHead").boolean();
  m.embedding_scale = config.at("embeddingScale").number(1e-6, 1e6);
  m.embedding_rounds = config.at("embeddingRounds").boolean();
  m.logit_scale = config.at("logitScale").number(1e-6, 1e6);
  m.logit_soft_cap = config.at("logitSoftCap").number(0, 1e6);
  if (const auto inputs = config.given("tokenInputs")) m.token_inputs = inputs->whole(1, 1 << 13);
  config.at("layers").each(1024, [&](const Argument& layer) { m.layers.push_back(layer_spec(layer)); });
  try {
    model::check(m);
  } catch (const model::UnsupportedModel& error) {
    invalid(config.path(), error);
  }
  if (const auto quantized = config.given("quantized")) read_quantized(*quantized, m);
  if (const auto cache = config.given("kvCache"))
    m.kv_cache = one_of<model::KvCache>(*cache, {{"exact", model::KvCache::exact}, {"int8", model::KvCache::int8}});
  return m;
}

model::LoraSpec lora_spec(const Argument& spec, const ModelSpec& of) {
  spec.object();
  model::LoraSpec result{};
  result.rank = spec.at("rank").whole(1, 1024);
  result.alpha = float(spec.at("alpha").number(1e-6, 1e6));
  result.rslora = spec.at("rslora").boolean();
  const std::vector<int> known = model::modules_of(of);
  const Argument targets = spec.at("targets");
  if (targets.array_length(model::kModules) == 0) invalid(targets.path(), "must name at least one projection");
  targets.each(model::kModules, [&](const Argument& target) {
    const auto name = target.text(32);
    bool is_known = false;
    for (int module : known) {
      if (name != model::module_name(module)) continue;
      if (result.targets[module]) invalid(target.path(), "names \"" + name + "\" a second time");
      result.targets[module] = is_known = true;
    }
    if (is_known) return;
    std::vector<std::string> names;
    for (int m : known)
      if (std::find(names.begin(), names.end(), model::module_name(m)) == names.end())
        names.push_back(model::module_name(m));
    std::string list;
    for (const std::string& each : names) list += (list.empty() ? "" : ", ") + each;
    invalid(target.path(), "is \"" + name + "\"; this model has " + list);
  });
  return result;
}

backends::OptimizerSettings optimizer_settings(const Argument& settings) {
  settings.object();
  const auto number = [&](const char* name, double min, double max) {
    return float(settings.at(name).number(min, max));
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
