// A model of two layers that a test loads onto a GPU, and what a test says of it.
#pragma once
#include <cstdio>
#include <string>

#include "vulkan_device.h"

namespace anneal::vulkan {

inline int failures = 0;
inline std::string failed;  // what did, a line each

inline void check(bool ok, const char* what) {
  if (ok) return;
  printf("FAILED: %s\n", what);
  failed += std::string("  ") + what + "\n";
  failures++;
}

template <class E, class F> bool throws(F&& f) {
  try {
    f();
  } catch (const E&) {
    return true;
  }
  return false;
}

struct OneThread final : anneal::executor::Pool {
  int workers() const override { return 1; }
  bool run(int64_t chunks, anneal::executor::ChunkFn f, void* context) override {
    for (int64_t i = 0; i < chunks; i++) f(context, i, 0);
    return true;
  }
};

// Keeps rows of logits as they are given.
struct NoSampler final : backends::Backend {
  ModelSpec spec_;
  const ModelSpec& spec() const override { return spec_; }
  const char* name() const override { return "none"; }
  int pages() const override { return 0; }
  const backends::Logits* step(std::span<const backends::Run>) override { return &none_; }
  bool sample(const backends::Logits&, std::span<const backends::RowRequest>, std::span<backends::RowResult>) override {
    return false;
  }
  void copy_page(int, int) override {}
  backends::AdapterRef load_adapter(const LoraSpec&, const backends::AdapterValues&) override { return nullptr; }
  std::unique_ptr<backends::Trainable> train_adapter(const LoraSpec&, uint64_t,
                                                     const backends::AdapterValues*) override {
    return nullptr;
  }
  std::unique_ptr<backends::Trainable> train_weights() override { return nullptr; }
  std::unique_ptr<backends::TrainPass> forward(std::span<const backends::TrainRow>, backends::Trainable*,
                                               const backends::AdapterRef&, const backends::PassOptions&) override {
    return nullptr;
  }

 private:
  backends::Logits none_;
};

// Of attention with gates over codes, and of the delta rule, in turns.
inline ModelSpec small_model(int layers = 2) {
  ModelSpec m;
  m.hidden = 32, m.vocab = 64, m.max_positions = 4096, m.tied_head = true;
  m.kv_cache = KvCache::int8;
  LayerSpec attends, recurs;
  attends.attention.heads = 4, attends.attention.kv_heads = 2, attends.attention.head_dim = 8;
  attends.attention.output_gate = true;
  recurs.delta_rule = {.key_heads = 2, .value_heads = 4, .key_dim = 12, .value_dim = 8, .kernel = 4};
  attends.feed_forward.intermediate = recurs.feed_forward.intermediate = 48;
  for (int l = 0; l < layers; l++) m.layers.push_back(l % 2 ? recurs : attends);
  return m;
}
constexpr int kStates = 256;

inline backends::TensorReader reader() {
  return {[](const std::string& name, int64_t row0, int64_t rows, float* to) {
    const auto is = [&](const char* part) { return name.find(part) != std::string::npos; };
    const int64_t cols = is("down")                                     ? 48
                         : is("conv1d") || is("A_log") || is("dt_bias") ? 4
                         : is("linear_attn.norm")                       ? 8
                                                                        : 32;
    for (int64_t i = 0; i < rows * cols; i++) to[i] = float((row0 * cols + i) % 17 - 8) / 16;
  }};
}

}  // namespace anneal::vulkan
