// For tests and measurements: a pool, models from folders or random, and the numbers of a pass.
#pragma once
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <deque>
#include <filesystem>
#include <thread>

#include "../../expect_fixture.h"
#include "cpu_backend.h"
#include "cpu_device.h"
#include "memory.h"
#include "reference.h"

using namespace anneal::cpu;
using namespace anneal::cpu::reference;
using namespace anneal::backends;
using namespace anneal::model;
using anneal::expect;
using anneal::executor::Aborted;
using anneal::executor::ChunkFn;
using anneal::executor::Pool;

inline void below(double value, double limit, const std::string& what) {
  if (!(value <= limit)) expect(false, what + ": " + std::to_string(value) + " is above " + std::to_string(limit));
}

class TestPool final : public Pool {
 public:
  explicit TestPool(int workers) {
    for (int w = 1; w < workers; w++)
      threads_.emplace_back([this, w] {
        FloatMode mode;
        for (uint64_t seen = 0;;) {
          int spins = 0;
          while (round_.load(std::memory_order_acquire) == seen)
            if (++spins > 1000) std::this_thread::yield();
          seen++;
          if (stop_) return;
          work(w);
          busy_.fetch_sub(1, std::memory_order_release);
        }
      });
  }
  ~TestPool() override {
    stop_ = true;
    round_.fetch_add(1, std::memory_order_release);
    for (auto& t : threads_) t.join();
  }
  int workers() const override { return 1 + int(threads_.size()); }
  bool run(int64_t chunks, ChunkFn fn, void* context) override {
    runs++;
    chunks_ = chunks, fn_ = fn, context_ = context, next_ = 0;
    busy_ = int(threads_.size());
    round_.fetch_add(1, std::memory_order_release);
    work(0);
    while (busy_.load(std::memory_order_acquire)) std::this_thread::yield();
    return !(abort_after > 0 && runs >= abort_after);
  }
  int64_t runs = 0, abort_after = 0;

 private:
  void work(int worker) {
    for (int64_t c; (c = next_.fetch_add(1)) < chunks_;) fn_(context_, c, worker);
  }
  std::vector<std::thread> threads_;
  std::atomic<uint64_t> round_{0};
  std::atomic<int64_t> next_{0};
  std::atomic<int> busy_{0};
  int64_t chunks_ = 0;
  ChunkFn fn_ = nullptr;
  void* context_ = nullptr;
  bool stop_ = false;
};

// Hands work on to whichever pool is set, so that one model is tried with several.
class SwitchedPool final : public Pool {
 public:
  explicit SwitchedPool(Pool& pool) : pool(&pool) {}
  int workers() const override { return pool->workers(); }
  bool run(int64_t chunks, ChunkFn fn, void* context) override { return pool->run(chunks, fn, context); }
  Pool* pool;
};

// What the layers of Gemma 4 do not have in common.
inline void read_gemma4_layers(const Json& j, ModelSpec& m) {
  const int count = int(m.layers.size()), own = count - int(j["num_kv_shared_layers"].value);
  const auto sliding = [&](int l) { return j["layer_types"].items[size_t(l)].string == "sliding_attention"; };
  for (int l = 0; l < count; l++) {
    LayerSpec& layer = m.layers[size_t(l)];
    AttentionSpec& a = layer.attention;
    const std::string number = std::to_string(l);
    if (const Json& told = j["per_layer_config"]; told.has(number.c_str())) {
      a.head_dim = int(told[number.c_str()].number_or("head_dim", a.head_dim));
      a.kv_heads = int(told[number.c_str()].number_or("num_key_value_heads", a.kv_heads));
    }
    a.values_from_keys = !sliding(l) && j["attention_k_eq_v"].value != 0 && l < own;
    if (l < own) continue;
    for (int of = 0; of < own; of++)
      if (sliding(of) == sliding(l)) a.keys_of = of;
    if (j["use_double_wide_mlp"].value != 0) layer.feed_forward.intermediate *= 2;
  }
}

inline ModelSpec read_spec(const std::string& folder, TensorFormat format) {
  const Json whole = read_json(folder + "/config.json"), j = whole.has("text_config") ? whole["text_config"] : whole;
  const std::string family = j["model_type"].string;
  ModelSpec m;
  m.format = format;
  m.hidden = int(j["hidden_size"].value);
  m.vocab = int(j["vocab_size"].value), m.max_positions = int(j["max_position_embeddings"].value);
  const bool lfm2 = family.starts_with("lfm2"), lfm2_moe = family == "lfm2_moe";
  m.rms_eps = float(j[lfm2 ? "norm_eps" : "rms_norm_eps"].value);
  m.tied_head = j.number_or("tie_embedding", j.number_or("tie_word_embeddings", 1)) != 0;
  LayerSpec l;
  AttentionSpec& a = l.attention;
  l.feed_forward.intermediate = int(j.number_or("block_ff_dim", j.number_or("intermediate_size", 0)));
  if (lfm2 && !lfm2_moe && j.number_or("block_auto_adjust_ff_dim", 1) != 0) {
    const int step = int(j.number_or("block_multiple_of", 256)), adjusted = 2 * l.feed_forward.intermediate / 3;
    l.feed_forward.intermediate = (int(j.number_or("block_ffn_dim_multiplier", 1) * adjusted) + step - 1) / step * step;
  }
  a.heads = int(j["num_attention_heads"].value), a.kv_heads = int(j["num_key_value_heads"].value);
  a.head_dim = int(j.number_or("head_dim", m.hidden / a.heads));
  a.qk_norm = family.starts_with("qwen3") || lfm2;
  if (lfm2) l.names = LayerNames::lfm2;
  auto flag = [&](const char* name) { return j.number_or(name, 0) != 0; };
  const bool gpt_oss = family == "gpt_oss", gemma4 = family == "gemma4_text";
  a.o_bias = gpt_oss ? j.number_or("attention_bias", 1) != 0 : flag("attention_bias");
  a.sinks = gpt_oss;
  a.q_bias = a.k_bias = a.v_bias = family == "qwen2" || a.o_bias;
  l.feed_forward.bias = flag("mlp_bias");
  Json rope = j.has("rope_parameters") ? j["rope_parameters"] : j.has("rope_scaling") ? j["rope_scaling"] : Json{};
  // Gemma 3: of the layers with a window.
  RopeSpec local;
  if (j.has("rope_local_base_freq")) local.theta = j["rope_local_base_freq"].value;
  if (rope.has("sliding_attention")) {
    local.theta = rope["sliding_attention"]["rope_theta"].value;
    const Json full = rope["full_attention"];
    rope = full;
  }
  a.rope.theta = j.has("rope_theta") ? j["rope_theta"].value : rope["rope_theta"].value;
  const std::string kind = rope.has("rope_type") ? rope["rope_type"].string : "default";
  a.rope.type = kind == "linear"   ? RopeType::linear
                : kind == "llama3" ? RopeType::llama3
                : kind == "yarn"   ? RopeType::yarn
                : gemma4           ? RopeType::proportional
                                   : RopeType::standard;
  a.rope.factor = rope.number_or("factor", 1);
  a.rope.low_freq_factor = rope.number_or("low_freq_factor", 1),
  a.rope.high_freq_factor = rope.number_or("high_freq_factor", 4);
  a.rope.original_max_positions = rope.number_or("original_max_position_embeddings", 0);
  a.rope.query_scale = rope.number_or("llama_4_scaling_beta", 0);
  a.rope.truncate = rope.number_or("truncate", 1) != 0;
  a.rope.mscale = rope.number_or("mscale", 0), a.rope.mscale_all_dim = rope.number_or("mscale_all_dim", 0);
  const bool qwen3_5 = family == "qwen3_5_text" || family == "qwen3_5_moe_text";
  a.rope.rotary_share =
      rope.number_or("partial_rotary_factor", j.number_or("partial_rotary_factor", qwen3_5 ? 0.25 : 1));
  if (family == "phi3") {
    a.fused_qkv = l.feed_forward.fused_gate_up = true;
    if (kind == "longrope") {
      const double original = rope.number_or("original_max_position_embeddings",
                                             j.number_or("original_max_position_embeddings", 0)),
                   factor = rope.number_or("factor", m.max_positions / original);
      a.rope.type = RopeType::longrope;
      a.rope.attention_factor = factor <= 1 ? 1 : std::sqrt(1 + std::log(factor) / std::log(original));
      a.rope.original_max_positions = original;
      for (const Json& x : rope["short_factor"].items) a.rope.short_factors.push_back(x.value);
      for (const Json& x : rope["long_factor"].items) a.rope.long_factors.push_back(x.value);
    }
  }
  if (family.starts_with("gemma")) {
    l.norms = NormPlacement::before_and_after, l.feed_forward.activation = Activation::gelu_tanh;
    m.norm_adds_one = m.embedding_rounds = true, m.embedding_scale = std::sqrt(double(m.hidden));
    a.qk_norm = family != "gemma2", m.norm_adds_one = !gemma4;
    a.scale = gemma4 ? 1 : 1 / std::sqrt(j["query_pre_attn_scalar"].value);
    if (gemma4) a.v_norm = l.scaled = true, m.token_inputs = int(j["hidden_size_per_layer_input"].value);
    m.logit_soft_cap = j.number_or("final_logit_softcapping", 0);
    if (family == "gemma2") a.soft_cap = j.number_or("attn_logit_softcapping", 0);
  }
  if (family.starts_with("granite")) {
    a.scale = j["attention_multiplier"].value, l.residual_scale = j["residual_multiplier"].value;
    m.embedding_scale = j["embedding_multiplier"].value, m.logit_scale = 1 / j["logits_scaling"].value;
  }
  if (qwen3_5) m.norm_adds_one = a.qk_norm = a.output_gate = true;
  m.layers.assign(size_t(j["num_hidden_layers"].value), l);
  const bool same_window =
                 (family == "mistral" || family == "ministral3" || family == "phi3") && j.has("sliding_window"),
             switched = j.has("use_sliding_window");
  for (size_t i = 0; i < m.layers.size(); i++) {
    const bool sliding = same_window || (j.has("layer_types") && (!switched || flag("use_sliding_window")) &&
                                         j["layer_types"].items[i].string == "sliding_attention");
    if (!sliding) continue;
    m.layers[i].attention.window = int(j["sliding_window"].value);
    if (gemma4 || family == "gemma3_text") m.layers[i].attention.rope = local;
  }
  if (gemma4) read_gemma4_layers(j, m);
  for (size_t i = 0; qwen3_5 && i < m.layers.size(); i++)
    if (j["layer_types"].items[i].string == "linear_attention") {
      const auto size = [&](const char* name) { return int(j[name].value); };
      m.layers[i].attention = {};
      m.layers[i].delta_rule = {size("linear_num_key_heads"), size("linear_num_value_heads"),
                                size("linear_key_head_dim"), size("linear_value_head_dim"),
                                size("linear_conv_kernel_dim")};
    }
  for (size_t i = 0; lfm2 && i < m.layers.size(); i++) {
    const std::vector<Json> full = j.has("full_attn_idxs") ? j["full_attn_idxs"].items : std::vector<Json>();
    const bool attends = j.has("layer_types")
                             ? j["layer_types"].items[i].string == "full_attention"
                             : std::any_of(full.begin(), full.end(), [&](const Json& x) { return x.value == i; });
    if (attends) continue;
    m.layers[i].attention = {};
    m.layers[i].short_convolution = {m.hidden, int(j["conv_L_cache"].value), flag("conv_bias")};
  }
  for (size_t i = 0; gpt_oss && i < m.layers.size(); i++) {
    m.layers[i].feed_forward = {};
    m.layers[i].experts = {int(j["num_local_experts"].value),
                           int(j["num_experts_per_tok"].value),
                           l.feed_forward.intermediate,
                           Activation::clamped_swiglu,
                           true,
                           0,
                           true};
  }
  for (size_t i = 0; family == "granitemoe" && i < m.layers.size(); i++) {
    m.layers[i].feed_forward = {};
    m.layers[i].experts = {int(j["num_local_experts"].value), int(j["num_experts_per_tok"].value),
                           l.feed_forward.intermediate};
  }
  if (j.has("moe_intermediate_size"))
    for (size_t i = 0; i < m.layers.size(); i++) {
      const std::vector<Json> dense = j.has("mlp_only_layers") ? j["mlp_only_layers"].items : std::vector<Json>();
      const auto is_this = [&](const Json& layer) { return size_t(layer.value) == i; };
      if (std::any_of(dense.begin(), dense.end(), is_this) || (i + 1) % int(j.number_or("decoder_sparse_step", 1)) ||
          double(i) < j.number_or("num_dense_layers", 0))
        continue;
      m.layers[i].feed_forward = {};
      m.layers[i].experts = {int(j[j.has("num_experts") ? "num_experts" : "num_local_experts"].value),
                             int(j["num_experts_per_tok"].value),
                             int(j["moe_intermediate_size"].value),
                             Activation::silu,
                             qwen3_5 || flag("norm_topk_prob"),
                             int(j.number_or("shared_expert_intermediate_size", 0)),
                             false,
                             lfm2_moe,
                             flag("use_expert_bias"),
                             j.number_or("routed_scaling_factor", 1)};
    }
  if (j.has("no_rope_layers"))
    for (size_t i = 0; i < m.layers.size(); i++)
      if (j["no_rope_layers"].items[i].value == 0) m.layers[i].attention.rope.type = RopeType::none;
  return m;
}

// Whether all weights of a model can be trained.
inline bool trains_weights(const ModelSpec& m) { return !m.has_experts() && !m.token_inputs; }

// A model over tensors in memory.
struct Loaded {
  ModelSpec spec;
  SwitchedPool pool;
  std::unique_ptr<Backend> backend;
  Loaded(const std::string& folder, const Arrays& weights, TensorFormat format, Isa isa, Pool& pool,
         int max_positions = 0, KvCache kv_cache = KvCache::exact)
      : spec(read_spec(folder, format)), pool(pool) {
    if (max_positions) spec.max_positions = max_positions;
    spec.kv_cache = kv_cache;
    load(reader(weights), isa);
  }
  Loaded(const ModelSpec& s, const Arrays& weights, Isa isa, Pool& pool) : Loaded(s, reader(weights), isa, pool) {}
  Loaded(const ModelSpec& s, const TensorReader& weights, Isa isa, Pool& pool) : spec(s), pool(pool) {
    load(weights, isa);
  }
  void load(const TensorReader& weights, Isa isa) {
    backend = CpuDevice(pool).load(spec, {128, 128}, isa_name(isa), weights, nullptr);
  }
  int vocab() const { return spec.vocab; }
  // Runs whose tables are of one group: each other group has pages of its own for their blocks, and none has one that
  // no token of the run sees.
  const Logits* step(std::span<const Run> runs) {
    const anneal::backends::PageGroups& groups = backend->page_groups();
    std::vector<Run> grouped(runs.begin(), runs.end());
    std::deque<std::vector<int32_t>> tables;
    for (Run& run : grouped) {
      run.block_count = (run.position + run.count + kPage - 1) / kPage;
      std::vector<int32_t>& table = tables.emplace_back();
      for (int g = 0; g < groups.count(); g++)
        for (int b = 0; b < run.block_count; b++) {
          const bool unseen = b < anneal::backends::unseen_blocks(groups.windows[g], run.position, kPage);
          table.push_back(unseen ? -1 : run.blocks[b] * groups.count() + g);
        }
      run.blocks = table.data();
    }
    return backend->step(grouped);
  }
  void copy_block(int from, int to) {
    const int groups = backend->page_groups().count();
    for (int g = 0; g < groups; g++) backend->copy_page(from * groups + g, to * groups + g);
  }
  static TensorReader reader(const Arrays& weights) {
    return {[&weights](const std::string& name, int64_t row0, int64_t rows, float* dst) {
      const Array& a = weights.at(name);
      const int64_t cols = a.shape.size() == 1 ? a.shape[0] : int64_t(a.values.size()) / a.shape[0];
      std::memcpy(dst, a.values.data() + row0 * cols, size_t(rows) * cols * sizeof(float));
    }};
  }
};

struct SavedAdapter {
  ModelSpec model;
  LoraSpec spec;
  Arrays tensors;
  explicit SavedAdapter(const std::string& folder) : model(read_spec(folder, TensorFormat::f32)) {
    const Json j = read_json(folder + "/adapter/adapter_config.json");
    read_safetensors(folder + "/adapter/adapter_model.safetensors", tensors);
    spec.rank = int(j["r"].value), spec.alpha = float(j["lora_alpha"].value),
    spec.rslora = j.number_or("use_rslora", 0) != 0;
    for (const Json& t : j["target_modules"].items)
      for (int module = 0; module < kModules; module++)
        if (t.string == module_name(module)) spec.targets[module] = true;
  }
  AdapterValues reader() const {
    return [this, places = AdapterPlaces(model, spec), names = adapter_tensors(model, spec)](int layer, int p, bool b) {
      const AdapterPlace place = places.of(layer, p, b);
      return tensors.at(names[place.tensor].name).values.data() + place.element;
    };
  }
};

// The rows of logits that the last step left.
inline std::vector<float> rows_of(Loaded& m, const Logits& logits) {
  const MatrixStore& values = static_cast<const HostLogits&>(logits).values;
  std::vector<float> out;
  for (int row = 0; row < logits.rows; row++) out.insert(out.end(), values.at(row), values.at(row) + m.vocab());
  return out;
}

// Logits of every token of a sequence, computed in runs of `chunk` tokens.
inline std::vector<float> logits_of(Loaded& m, Pool& pool, const std::vector<int32_t>& tokens,
                                    const AdapterRef& adapter, int chunk, int first_page = 0) {
  m.pool.pool = &pool;
  const int n = int(tokens.size());
  std::vector<int32_t> blocks;
  for (int b = 0; b * anneal::backends::kPage < n; b++) blocks.push_back(first_page + b * 2);
  std::vector<float> out;
  for (int at = 0; at < n; at += chunk) {
    Run run{tokens.data() + at, std::min(chunk, n - at), at, blocks.data(), adapter, WantedLogits::all};
    run.recurrent = 0;
    const std::vector<float> rows = rows_of(m, *m.step({&run, 1}));
    out.insert(out.end(), rows.begin(), rows.end());
  }
  return out;
}

inline double max_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double worst = a.size() == b.size() ? 0 : INFINITY;
  for (size_t i = 0; i < std::min(a.size(), b.size()); i++) worst = std::max(worst, double(std::abs(a[i] - b[i])));
  return worst;
}
inline double relative_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < b.size(); i++) difference += std::pow(double(a[i]) - b[i], 2), norm += double(b[i]) * b[i];
  return std::sqrt(difference / std::max(norm, 1e-30));
}
inline bool same_bits(const std::vector<float>& a, const std::vector<float>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

inline std::vector<float> logprobs_from(const Kernels& k, const std::vector<float>& logits,
                                        const std::vector<int32_t>& tokens, int vocab) {
  FloatMode mode;
  std::vector<float> out;
  for (size_t t = 0; t + 1 < tokens.size(); t++) {
    const float* row = &logits[t * vocab];
    out.push_back(row[tokens[t + 1]] - k.log_sum_exp(row, vocab));
  }
  return out;
}

inline std::vector<float> read_part(const Trainable& t, int i, Trainable::Part part) {
  const auto& x = t.tensors()[i];
  std::vector<float> out(x.elements());
  t.read(i, part, out);
  return out;
}

using Sequences = std::vector<std::vector<int32_t>>;

// Rows of which every prediction counts, and the same gradient for each.
struct Batched {
  std::vector<TrainRow> rows;
  std::vector<std::vector<float>> gradients;
  std::vector<std::span<const float>> by_logprob;
  Batched(const Sequences& sequences, float gradient) {
    for (const auto& s : sequences) {
      rows.push_back({.tokens = s});
      gradients.emplace_back(s.size(), gradient).back() = 0;
    }
    for (const auto& g : gradients) by_logprob.push_back(g);
  }
};

// Mean cross-entropy of the rows, forward and backward. Returns the loss.
inline double train_on(Loaded& m, Pool& pool, const Sequences& rows, Trainable* t,
                       std::vector<float>* logprobs = nullptr, PassOptions options = {}, int64_t* held = nullptr) {
  m.pool.pool = &pool;
  int predicted = 0;
  for (const auto& r : rows) predicted += int(r.size()) - 1;
  const Batched batch(rows, -1.0f / predicted);
  auto pass = m.backend->forward(batch.rows, t, nullptr, options);
  if (!pass) return NAN;
  double loss = 0;
  for (size_t r = 0; r < rows.size(); r++)
    for (size_t i = 0; i + 1 < rows[r].size(); i++) {
      loss -= pass->logprobs(int(r))[i] / predicted;
      if (logprobs) logprobs->push_back(pass->logprobs(int(r))[i]);
    }
  if (!pass->backward(batch.by_logprob, {})) return NAN;
  if (held) *held = pass->bytes();
  return loss;
}

inline std::vector<std::vector<float>> gradients_of(const Trainable& t) {
  std::vector<std::vector<float>> out;
  for (size_t i = 0; i < t.tensors().size(); i++) out.push_back(read_part(t, int(i), Trainable::Part::gradient));
  return out;
}
