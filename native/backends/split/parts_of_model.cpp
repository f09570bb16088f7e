#include "parts_of_model.h"

#include "../../model/tensors.h"

namespace anneal::split {

using model::ModelSpec;

namespace {

constexpr const char *kLayers = "model.layers.", *kEmbedding = "model.embed_tokens.weight", *kHead = "lm_head.weight";

}  // namespace

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

ModelSpec last_layers(const ModelSpec& whole, int layers) {
  const int skipped = int(whole.layers.size()) - layers;
  ModelSpec part = whole;
  part.layers.assign(whole.layers.begin() + skipped, whole.layers.end());
  part.tied_head = true;  // the embedding is the head
  part.quantized.clear();
  for (const model::TensorShape& t : model::weight_tensors(part))
    if (const auto found = whole.quantized.find(name_in_whole(whole, skipped, t.name)); found != whole.quantized.end())
      part.quantized.emplace(t.name, found->second);
  return part;
}

}  // namespace anneal::split
