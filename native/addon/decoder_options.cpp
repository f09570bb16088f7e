#include "decoder_options.h"

namespace anneal::addon {

namespace {
constexpr const char* kPlaces[kProjections] = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj", "mlp.down_proj"};
}

const char* projection_place(int projection) { return kPlaces[projection]; }

DType element_type(const Argument& argument) {
  const auto name = argument.text(32);
  if (name == "float32") return DType::f32;
  if (name == "bfloat16") return DType::bf16;
  invalid(argument.path(), "must be \"float32\" or \"bfloat16\"");
}

DecoderConfig decoder_config(const Argument& config, DType dtype) {
  config.object();
  const auto whole = [&](const char* name, int64_t most) { return int(config.field(name, [&](Argument a) { return a.integer(1, most); })); };
  const auto flag = [&](const char* name) { return config.field(name, [](Argument a) { return a.boolean(); }); };
  DecoderConfig c{};
  c.dtype = dtype;
  c.hidden = whole("hidden", 1 << 17);
  c.intermediate = whole("intermediate", 1 << 19);
  c.layers = whole("layers", 1024);
  c.heads = whole("heads", 1024);
  c.kv_heads = whole("kvHeads", 1024);
  c.head_dim = whole("headDim", 512);
  c.vocab = whole("vocab", 1 << 22);
  c.max_positions = whole("maxPositions", 1 << 24);
  c.rms_eps = float(config.field("rmsEps", [](Argument a) { return a.number(1e-12, 1); }));
  c.tied_head = flag("tiedHead");
  c.qk_norm = flag("qkNorm");
  c.q_bias = flag("qBias");
  c.k_bias = flag("kBias");
  c.v_bias = flag("vBias");
  c.o_bias = flag("oBias");
  c.mlp_bias = flag("mlpBias");
  if (c.head_dim % 2) invalid(Path(config.path(), "headDim"), "must be even");
  if (c.heads % c.kv_heads || c.heads / c.kv_heads > kAttentionRows)
    invalid(Path(config.path(), "heads"), "must be a multiple of kvHeads, at most " + std::to_string(kAttentionRows) + " times as many");
  config.field("rope", [&](Argument rope) {
    rope.object();
    const auto number = [&](const char* name, double least, double most) { return rope.field(name, [&](Argument a) { return a.number(least, most); }); };
    const auto type = rope.field("type", [](Argument a) { return a.text(32); });
    if (type == "default") c.rope.type = Rope::standard;
    else if (type == "linear") c.rope.type = Rope::linear;
    else if (type == "llama3") c.rope.type = Rope::llama3;
    else if (type == "yarn") c.rope.type = Rope::yarn;
    else invalid(rope.path(), "has type \"" + type + "\"; default, linear, llama3 or yarn are known");
    c.rope.theta = number("theta", 1, 1e15);
    c.rope.factor = number("factor", 1e-3, 1e6);
    c.rope.low_freq_factor = number("lowFreqFactor", 1e-6, 1e6);
    c.rope.high_freq_factor = number("highFreqFactor", 1e-6, 1e6);
    c.rope.original_max_positions = number("originalMaxPositions", 0, 1e9);
    c.rope.attention_factor = number("attentionFactor", 0, 1e3);
    c.rope.beta_fast = number("betaFast", 1e-6, 1e6);
    c.rope.beta_slow = number("betaSlow", 1e-6, 1e6);
    c.rope.mscale = number("mscale", 0, 1e3);
    c.rope.mscale_all_dim = number("mscaleAllDim", 0, 1e3);
    c.rope.truncate = rope.field("truncate", [](Argument a) { return a.boolean(); });
    if ((c.rope.type == Rope::llama3 || c.rope.type == Rope::yarn) && c.rope.original_max_positions < 1)
      invalid(Path(rope.path(), "originalMaxPositions"), "must be at least 1 for this type of scaling");
    if (c.rope.type == Rope::llama3 && c.rope.high_freq_factor <= c.rope.low_freq_factor)
      invalid(Path(rope.path(), "highFreqFactor"), "must be greater than lowFreqFactor");
  });
  return c;
}

LoraSpec lora_spec(const Argument& spec) {
  spec.object();
  LoraSpec result{};
  result.rank = int(spec.field("rank", [](Argument a) { return a.integer(1, 1024); }));
  result.alpha = float(spec.field("alpha", [](Argument a) { return a.number(1e-6, 1e6); }));
  result.rslora = spec.field("rslora", [](Argument a) { return a.boolean(); });
  spec.field("targets", [&](Argument list) {
    const uint32_t count = list.array_length(kProjections);
    if (count == 0) invalid(list.path(), "must name at least one projection");
    for (uint32_t i = 0; i < count; ++i)
      list.element(i, [&](Argument a) {
        const auto name = a.text(32);
        for (int p = 0; p < kProjections; ++p)
          if (name == std::string(kPlaces[p]).substr(std::string(kPlaces[p]).find('.') + 1)) {
            if (result.targets[p]) invalid(a.path(), "names \"" + name + "\" a second time");
            result.targets[p] = true;
            return;
          }
        invalid(a.path(), "is \"" + name + "\"; q_proj, k_proj, v_proj, o_proj, gate_proj, up_proj and down_proj are known");
      });
  });
  return result;
}

OptimizerSettings optimizer_settings(const Argument& settings) {
  settings.object();
  const auto number = [&](const char* name, double least, double most) { return float(settings.field(name, [&](Argument a) { return a.number(least, most); })); };
  OptimizerSettings s{};
  s.learning_rate = number("learningRate", 0, 1e3);
  s.beta1 = number("beta1", 0, 0.9999999);
  s.beta2 = number("beta2", 0, 0.9999999);
  s.eps = number("eps", 1e-30, 1);
  s.weight_decay = number("weightDecay", 0, 1e3);
  s.max_grad_norm = number("maxGradNorm", 0, 1e30);
  return s;
}

}  // namespace anneal::addon
