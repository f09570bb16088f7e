// A model whose first layers one device computes, with the embedding, and whose last ones another, with the head and
// the sampling: for a model that the second has no memory for. Between them goes the residual stream, once a step.
#pragma once
#include "../backend.h"
#include "parts_of_model.h"

namespace anneal::split {

class SplitDevice final : public backends::Device {
 public:
  // The second computes the last `second_layers` layers: above 0, and fewer than the models have that are loaded.
  SplitDevice(std::unique_ptr<backends::Device> first, std::unique_ptr<backends::Device> second, int second_layers)
      : first_(std::move(first)), second_(std::move(second)), second_layers_(second_layers) {}

  void require(const model::ModelSpec&) const override;
  // Of the second device; load() looks for what the first needs.
  backends::ModelMemory memory(const model::ModelSpec&) const override;
  std::vector<backends::Arithmetic> arithmetics() const override { return second_->arithmetics(); }
  std::unique_ptr<backends::Backend> load(const model::ModelSpec&, backends::CacheSize, const std::string& arithmetic,
                                          const backends::TensorReader&,
                                          const std::function<bool(double)>& progress) const override;
  int64_t available_memory() const override { return second_->available_memory(); }

 private:
  std::unique_ptr<backends::Device> first_, second_;
  int second_layers_;
};

// What a model takes of the second device, given what its parts take. So many recurrent states as that has room for are
// the first's as well, which may be the one that has them.
backends::ModelMemory memory_of(const backends::ModelMemory& first, const backends::ModelMemory& second);

}  // namespace anneal::split
