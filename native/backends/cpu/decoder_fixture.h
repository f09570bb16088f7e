// For tests and measurements: a pool, models from folders or random, and the numbers of a pass.
#pragma once
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <thread>

#include "decoder.h"
#include "reference.h"

using namespace anneal::cpu;
using namespace anneal::cpu::reference;

inline int failures = 0;
inline void expect(bool ok, const std::string& what) {
  if (ok) return;
  failures++;
  std::printf("FAILED %s\n", what.c_str());
}
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

inline DecoderConfig read_config(const std::string& folder, DType type) {
  const Json j = read_json(folder + "/config.json");
  const std::string family = j["model_type"].string;
  DecoderConfig c{};
  c.hidden = int(j["hidden_size"].value), c.intermediate = int(j["intermediate_size"].value), c.layers = int(j["num_hidden_layers"].value);
  c.heads = int(j["num_attention_heads"].value), c.kv_heads = int(j["num_key_value_heads"].value);
  c.head_dim = int(j.number_or("head_dim", c.hidden / c.heads));
  c.vocab = int(j["vocab_size"].value), c.max_positions = int(j["max_position_embeddings"].value);
  c.rms_eps = float(j["rms_norm_eps"].value);
  c.tied_head = j["tie_word_embeddings"].value != 0, c.qk_norm = family == "qwen3";
  c.q_bias = c.k_bias = c.v_bias = family == "qwen2";
  c.dtype = type;
  Json rope = j.has("rope_parameters") ? j["rope_parameters"] : j.has("rope_scaling") ? j["rope_scaling"] : Json{};
  c.rope.theta = j.has("rope_theta") ? j["rope_theta"].value : rope["rope_theta"].value;
  const std::string kind = rope.has("rope_type") ? rope["rope_type"].string : "default";
  c.rope.type = kind == "linear" ? Rope::linear : kind == "llama3" ? Rope::llama3 : kind == "yarn" ? Rope::yarn : Rope::standard;
  c.rope.factor = rope.number_or("factor", 1);
  c.rope.low_freq_factor = rope.number_or("low_freq_factor", 1), c.rope.high_freq_factor = rope.number_or("high_freq_factor", 4);
  c.rope.original_max_positions = rope.number_or("original_max_position_embeddings", 0);
  return c;
}

// A decoder over tensors in memory.
struct Loaded {
  std::string folder;
  DecoderConfig config;
  Pool& pool;
  std::unique_ptr<Decoder> decoder;
  Loaded(const std::string& at, const Arrays& weights, DType type, Isa isa, Pool& pool, int max_positions = 0) : folder(at), config(read_config(at, type)), pool(pool) {
    if (max_positions) config.max_positions = max_positions;
    create(weights, isa);
  }
  Loaded(const DecoderConfig& c, const Arrays& weights, Isa isa, Pool& pool) : config(c), pool(pool) { create(weights, isa); }
  void create(const Arrays& weights, Isa isa) {
    decoder = Decoder::create(config, *kernels(isa, config.dtype), pool, 128, reader(weights), nullptr);
  }
  static TensorReader reader(const Arrays& weights) {
    return [&weights](const std::string& name, int64_t row0, int64_t rows, float* dst) {
      const Array& a = weights.at(name);
      const int64_t cols = a.shape.size() == 2 ? a.shape[1] : a.shape[0];
      std::memcpy(dst, a.values.data() + row0 * cols, size_t(rows) * cols * sizeof(float));
    };
  }
};

inline const char* kShort[kProjections] = {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj",
                                    "mlp.down_proj"};
inline std::string lora_name(int layer, int p, bool b) {
  return "base_model.model.model.layers." + std::to_string(layer) + "." + kShort[p] + (b ? ".lora_B.weight" : ".lora_A.weight");
}

struct SavedAdapter {
  LoraSpec spec;
  Arrays tensors;
  explicit SavedAdapter(const std::string& folder) {
    const Json j = read_json(folder + "/adapter/adapter_config.json");
    read_safetensors(folder + "/adapter/adapter_model.safetensors", tensors);
    spec.rank = int(j["r"].value), spec.alpha = float(j["lora_alpha"].value), spec.rslora = j.number_or("use_rslora", 0) != 0;
    for (const Json& t : j["target_modules"].items)
      for (int p = 0; p < kProjections; p++)
        if (std::string(kShort[p]).ends_with(t.string)) spec.targets[p] = true;
  }
  Decoder::AdapterValues reader() const {
    return [this](int layer, Projection p, bool b) { return tensors.at(lora_name(layer, p, b)).values.data(); };
  }
};

// Logits of every token of a sequence, computed in runs of `chunk` tokens.
inline std::vector<float> logits_of(Loaded& m, Pool& pool, const std::vector<int32_t>& tokens, const AdapterRef& adapter, int chunk, int first_page = 0) {
  const int n = int(tokens.size()), vocab = m.config.vocab, ld = (vocab + 15) / 16 * 16;
  std::vector<int32_t> blocks;
  for (int b = 0; b * kPage < n; b++) blocks.push_back(first_page + b * 2);
  std::vector<float> padded(size_t(n) * ld), out(size_t(n) * vocab);
  for (int at = 0; at < n; at += chunk) {
    const StepRun run{tokens.data() + at, std::min(chunk, n - at), at, blocks.data(), adapter, 2};
    m.decoder->step(pool, &run, 1, {padded.data() + size_t(at) * ld, ld});
  }
  for (int t = 0; t < n; t++) std::memcpy(&out[size_t(t) * vocab], &padded[size_t(t) * ld], vocab * sizeof(float));
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
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

inline std::vector<float> logprobs_from(const Kernels& k, const std::vector<float>& logits, const std::vector<int32_t>& tokens, int vocab) {
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
  std::vector<float> out(x.rows * std::max<int64_t>(x.cols, 1));
  t.read(i, part, out.data());
  return out;
}

using Sequences = std::vector<std::vector<int32_t>>;

// Mean cross-entropy of the rows, forward and backward. Returns the loss.
inline double train_on(Decoder& d, Pool& pool, const Sequences& rows, Trainable* t, std::vector<float>* logprobs = nullptr, PassOptions room = {},
                       int64_t* held = nullptr) {
  std::vector<TrainRow> list;
  int predicted = 0;
  for (const auto& r : rows) list.push_back({r.data(), int(r.size())}), predicted += int(r.size()) - 1;
  auto pass = d.forward(pool, list.data(), int(list.size()), nullptr, nullptr, t, nullptr, room);
  if (!pass) return NAN;
  double loss = 0;
  std::vector<std::vector<float>> gradients;
  std::vector<const float*> pointers;
  for (size_t r = 0; r < rows.size(); r++) {
    for (size_t i = 0; i + 1 < rows[r].size(); i++) {
      loss -= pass->logprobs(int(r))[i] / predicted;
      if (logprobs) logprobs->push_back(pass->logprobs(int(r))[i]);
    }
    gradients.emplace_back(rows[r].size(), -1.0f / predicted).back() = 0;
  }
  for (const auto& g : gradients) pointers.push_back(g.data());
  if (!pass->backward(pointers.data(), nullptr)) return NAN;
  if (held) *held = pass->bytes();
  return loss;
}

inline std::vector<std::vector<float>> gradients_of(const Trainable& t) {
  std::vector<std::vector<float>> out;
  for (size_t i = 0; i < t.tensors().size(); i++) out.push_back(read_part(t, int(i), Trainable::Part::gradient));
  return out;
}
