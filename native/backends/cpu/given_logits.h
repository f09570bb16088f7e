// A model whose logits are computed elsewhere and come with every run: what is left is to sample.
#pragma once
#include "row_sampler.h"

namespace anneal::cpu {

class GivenLogits final : public backends::Backend {
 public:
  // Of the spec only what steps are checked by counts: vocab, max_positions.
  GivenLogits(const model::ModelSpec&, executor::Pool&, int pages);

  const model::ModelSpec& spec() const override { return spec_; }
  const char* name() const override;
  int pages() const override { return pages_; }

  // Rows are those of the runs, which hold them until they have been sampled.
  const backends::Logits* step(std::span<const backends::Run>) override;
  bool sample(const backends::Logits&, std::span<const backends::RowRequest>, std::span<backends::RowResult>) override;
  void copy_page(int, int) override {}  // pages lie where logits are computed

  // There are no weights that these could be of: they throw std::logic_error.
  backends::AdapterRef load_adapter(const model::LoraSpec&, const backends::AdapterValues&) override;
  std::unique_ptr<backends::Trainable> train_adapter(const model::LoraSpec&, uint64_t,
                                                     const backends::AdapterValues*) override;
  std::unique_ptr<backends::Trainable> train_weights() override;
  std::unique_ptr<backends::TrainPass> forward(std::span<const backends::TrainRow>, backends::Trainable*,
                                               const backends::AdapterRef&, const backends::PassOptions&) override;

 private:
  struct Rows final : backends::Logits {
    std::vector<const float*> at;
  };
  model::ModelSpec spec_;
  const Kernels& kernels_;
  int pages_;
  Rows rows_;
  RowSampler sampler_;
};

}  // namespace anneal::cpu
