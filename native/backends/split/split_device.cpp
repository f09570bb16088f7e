#include "split_device.h"

#include "split_backend.h"

namespace anneal::split {

using model::ModelSpec;

namespace {

constexpr const char *kLayers = "model.layers.", *kEmbedding = "model.embed_tokens.weight", *kHead = "lm_head.weight";

// The name in the whole model of a tensor of its last layers, of which `skipped` stand before.
std::string name_in_whole(const ModelSpec& whole, int skipped, const std::string& name) {
  if (name == kEmbedding) return whole.tied_head ? kEmbedding : kHead;
  if (!name.starts_with(kLayers)) return name;
  const size_t number = std::string(kLayers).size(), end = name.find('.', number);
  return kLayers + std::to_string(std::stoi(name.substr(number, end - number)) + skipped) + name.substr(end);
}

ModelSpec first_layers(const ModelSpec& whole, int layers) {
  ModelSpec part = whole;
  part.layers.resize(size_t(layers));
  part.tied_head = true;  // there is none
  return part;
}

}  // namespace

ModelSpec last_layers(const ModelSpec& whole, int layers) {
  const int skipped = int(whole.layers.size()) - layers;
  ModelSpec part = whole;
  part.layers.assign(whole.layers.begin() + skipped, whole.layers.end());
  part.tied_head = true;  // the embedding is the head
  // For the memory of a model that is refused after.
  part.quantized.clear();
  for (const model::TensorShape& t : model::weight_tensors(part))
    if (const auto found = whole.quantized.find(name_in_whole(whole, skipped, t.name)); found != whole.quantized.end())
      part.quantized.emplace(t.name, found->second);
  return part;
}

void SplitDevice::require(const ModelSpec& m) const {
  // How they are multiplied is decided of a whole model.
  if (!m.quantized.empty())
    throw model::UnsupportedModel("quantized", "is not split between devices: load the model on one of them");
  first_->require(m);
  second_->require(m);
}

ModelSpec SplitDevice::part_behind(const ModelSpec& m) const { return last_layers(m, second_layers_); }

std::unique_ptr<backends::Backend> SplitDevice::load(const ModelSpec& m, backends::CacheSize cache,
                                                     const std::string& arithmetic, const backends::TensorReader& read,
                                                     const std::function<bool(double)>& progress) const {
  const int layers = int(m.layers.size()), skipped = layers - second_layers_;
  const ModelSpec front = first_layers(m, skipped), behind = part_behind(m);
  const backends::ModelMemory needs = first_->memory(front);
  if (const int64_t needed = needs.weights + cache.pages * needs.page, free = first_->available_memory(); needed > free)
    throw backends::NoDeviceMemory("the first " + std::to_string(skipped) + " layers, in the processor's memory,",
                                   needed, free);
  const double share = double(skipped) / layers;
  auto first = first_->load(front, cache, "", read, [&](double done) { return !progress || progress(done * share); });
  if (!first) return nullptr;

  const auto named = [&](const std::string& name) { return name_in_whole(m, skipped, name); };
  const backends::TensorReader renamed{
      [&](const std::string& name, int64_t row0, int64_t rows, float* to) { read.floats(named(name), row0, rows, to); },
      !read.stored ? decltype(read.stored)() : [&](const std::string& name) { return read.stored(named(name)); },
      {}};  // no blocks: `require` refuses quantised models
  auto second = second_->load(behind, cache, arithmetic, renamed,
                              [&](double done) { return !progress || progress(share + done * (1 - share)); });
  if (!second) return nullptr;
  return std::make_unique<SplitBackend>(m, std::move(first), std::move(second));
}

}  // namespace anneal::split
