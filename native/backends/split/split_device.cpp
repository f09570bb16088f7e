#include "split_device.h"

#include <algorithm>

#include "split_backend.h"

namespace anneal::split {

using model::ModelSpec;

void SplitDevice::require(const ModelSpec& m) const {
  first_->require(m);
  second_->require(m);
}

backends::ModelMemory memory_of(const backends::ModelMemory& first, const backends::ModelMemory& second) {
  backends::ModelMemory needs = second;
  needs.recurrent_state = std::max(first.recurrent_state, second.recurrent_state);
  return needs;
}

backends::ModelMemory SplitDevice::memory(const ModelSpec& m) const {
  return memory_of(first_->memory(first_layers(m, int(m.layers.size()) - second_layers_)),
                   second_->memory(last_layers(m, second_layers_)));
}

std::unique_ptr<backends::Backend> SplitDevice::load(const ModelSpec& m, backends::CacheSize cache,
                                                     const std::string& arithmetic, const backends::TensorReader& read,
                                                     const std::function<bool(double)>& progress) const {
  const int layers = int(m.layers.size()), skipped = layers - second_layers_;
  const ModelSpec front = first_layers(m, skipped), behind = last_layers(m, second_layers_);
  const backends::ModelMemory needs = first_->memory(front);
  const int64_t needed = needs.weights + cache.pages * needs.page + cache.recurrent_states * needs.recurrent_state;
  if (const int64_t free = first_->available_memory(); needed > free)
    throw backends::NoDeviceMemory("the first " + std::to_string(skipped) + " layers, in the processor's memory,",
                                   needed, free);
  const double share = double(skipped) / layers;
  auto first = first_->load(front, cache, "", read, [&](double done) { return !progress || progress(done * share); });
  if (!first) return nullptr;

  const auto named = [&](const std::string& name) { return name_in_whole(m, skipped, name); };
  const backends::TensorReader renamed{
      [&](const std::string& name, int64_t row0, int64_t rows, float* to) { read.floats(named(name), row0, rows, to); },
      !read.stored ? decltype(read.stored)() : [&](const std::string& name) { return read.stored(named(name)); },
      !read.blocks ? decltype(read.blocks)()
                   : [&](const std::string& name, int64_t row0, int64_t rows,
                         uint8_t* to) { read.blocks(named(name), row0, rows, to); }};
  auto second = second_->load(behind, cache, arithmetic, renamed,
                              [&](double done) { return !progress || progress(share + done * (1 - share)); });
  if (!second) return nullptr;
  return std::make_unique<SplitBackend>(m, std::move(first), std::move(second));
}

}  // namespace anneal::split
