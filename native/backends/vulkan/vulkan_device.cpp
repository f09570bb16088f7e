#include "vulkan_device.h"

#include "open_gpu.h"
#include "place_probe.h"
#include "vulkan_backend.h"

namespace anneal::vulkan {
namespace {

constexpr int kMaxHeadDim = 256;                        // of queries in a workgroup's shared memory
constexpr int kMaxDeltaDim = 512;                       // of states, likewise
constexpr int64_t kMaxMatrixBytes = int64_t(32) << 30;  // shaders count granules by signed numbers of 32 bits
constexpr int kGatePages = 2;  // for the text by which quantised weights are judged: less than 100 tokens

}  // namespace

VulkanDevice::VulkanDevice(executor::Pool& pool, int index, MakeSampler sampler, LoadHere load_here)
    : pool_(pool), gpu_(open_gpu(index)), make_sampler_(std::move(sampler)), load_here_(std::move(load_here)) {}

namespace {

[[noreturn]] void refuse(const std::string& field, const std::string& what) { throw UnsupportedModel(field, what); }

// What no GPU computes.
void require_here(const ModelSpec& m) {
  model::check(m);
  if (m.token_inputs) refuse("tokenInputs", "are not computed by this device");
  for (const auto& [name, format] : m.quantized)
    if (model::is_wide(format))
      refuse("quantized", "(" + name + ") has weights of 16 bits, which are for the processor alone");
  for (size_t i = 0; i < m.layers.size(); i++) {
    const std::string at = "layers[" + std::to_string(i) + "].";
    if (m.layers[i].experts) refuse(at + "experts", "are not computed by this device");
    if (m.layers[i].feed_forward.activation == Activation::clamped_swiglu)
      refuse(at + "feedForward.activation", "is not computed by this device");
    if (m.layers[i].short_convolution) refuse(at + "shortConvolution", "is not computed by this device");
    if (const auto& d = m.layers[i].delta_rule) {
      if (d->key_dim > kMaxDeltaDim)
        refuse(at + "deltaRule.keyDim", "is above 512, which this device does not compute");
      if (d->value_dim > kMaxDeltaDim)
        refuse(at + "deltaRule.valueDim", "is above 512, which this device does not compute");
      continue;
    }
    const model::AttentionSpec& a = m.layers[i].attention;
    if (a.v_norm || a.values_from_keys) refuse(at + "attention.vNorm", "is not computed by this device");
    if (a.keys_of >= 0) refuse(at + "attention.keysOf", "is not known to this device");
    if (a.rope.type == model::RopeType::proportional)
      refuse(at + "attention.rope.type", "is not computed by this device");
    if (m.layers[i].scaled) refuse(at + "scaled", "is not known to this device");
    if (m.layers[i].attention.sinks) refuse(at + "attention.sinks", "are not computed by this device");
    if (m.layers[i].attention.head_dim > kMaxHeadDim)
      refuse(at + "attention.headDim", "is above 256, which this device does not compute");
  }
}

// Of the layer that has the most.
int64_t largest_piece_of_cache(const ModelSpec& m, backends::CacheSize cache) {
  return std::max(cache.pages * largest_page_bytes(m, type_of(m)),
                  cache.recurrent_states * RecurrentStates::largest_bytes(m));
}

}  // namespace

void VulkanDevice::require(const ModelSpec& m) const {
  require_here(m);
  const int64_t most = std::min(gpu_->facts().max_allocation, kMaxMatrixBytes);
  if (const int64_t largest = largest_weight_bytes(m, type_of(m)); largest > most)
    refuse("vocab", "or a layer takes " + std::to_string(largest) +
                        " bytes in one piece, of which this device has at most " + std::to_string(most));
}

backends::ModelMemory VulkanDevice::memory_of(const ModelSpec& m) {
  require_here(m);
  const ElementType t = type_of(m);
  int64_t page = 0, kept = 0;
  for (const LayerSpec& layer : m.layers) {
    const Widths c = widths_of(layer);
    page += page_bytes(t, m.kv_cache, layer.attention);
    kept += 4 * int64_t(m.hidden) + kept_bytes(m, t, c) + (c.qk_norm ? 2 : 1) * t.row_bytes(c.kv);
  }
  return {weight_bytes(m, t), page, kept, {}, RecurrentStates::bytes(m)};
}

std::vector<backends::Arithmetic> VulkanDevice::arithmetics() const {
  std::vector<backends::Arithmetic> known = {{"exact", true}};
  if (gpu_->facts().matrices) known.push_back({"fast", false});
  return known;
}

std::unique_ptr<backends::Backend> VulkanDevice::load(const ModelSpec& m, backends::CacheSize cache,
                                                      const std::string& arithmetic, const backends::TensorReader& read,
                                                      const std::function<bool(double)>& progress) const {
  const bool fast = arithmetic == "fast";
  if (fast && !type_of(m).bf16)
    throw backends::UnusableDevice(
        "cooperative matrices multiply models in bfloat16, not in float32: open it with that "
        "dtype, or with precision \"exact\"");
  if (fast && !keeps_place(gpu_))
    throw backends::UnusableDevice(gpu_->facts().name +
                                   " multiplies matrices with bits that depend on where a row lies");
  for (const LayerSpec& layer : m.layers) {
    const Widths c = widths_of(layer);
    const int longest = std::max({m.hidden, c.intermediate, c.attended});
    gpu_->require_turns("a product over " + std::to_string(longest) + " elements",
                        turns_of_few(type_of(m), longest, 1));
  }
  const backends::ModelMemory needs = memory(m);
  const int pages = cache.pages;
  const int64_t cache_bytes = pages * needs.page + cache.recurrent_states * needs.recurrent_state;
  std::string of_cache = std::to_string(pages) + " pages of KV cache";
  if (needs.recurrent_state > 0) of_cache += " and " + std::to_string(cache.recurrent_states) + " recurrent states";
  gpu_->plan(of_cache + ", those of a layer", 0, largest_piece_of_cache(m, cache));
  // The ring that weights go through is gone before the cache is taken.
  gpu_->plan("the model's weights and " + of_cache, needs.weights + std::max(cache_bytes, Staging::kBytes));
  gpu_->plan("the model's weights", needs.weights);
  // Which weights are multiplied with activations as they are is decided on the processor, for all devices alike.
  std::unique_ptr<backends::Backend> gate;
  const bool is_quantized = !m.quantized.empty();
  const double share = is_quantized ? 0.5 : 1;
  std::unique_ptr<Weights> weights =
      load_weights(m, type_of(m), gpu_, pool_, read, [&](double done) { return !progress || progress(done * share); });
  if (!weights) return nullptr;
  if (is_quantized) {
    gate = load_here_(m, {std::min(pages, kGatePages), m.recurrent() ? 1 : 0}, read,
                      [&](double done) { return !progress || progress(share + done * (1 - share)); });
    if (!gate) return nullptr;
  }
  gpu_->plan(of_cache, cache_bytes);
  return std::make_unique<VulkanBackend>(GpuModel(m, type_of(m), gpu_, std::move(weights), fast), pool_, cache,
                                         make_sampler_(m, pages), std::move(gate));
}

}  // namespace anneal::vulkan
