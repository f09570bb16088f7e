// A model of which one backend computes the first layers, and another the last ones and what follows them.
#pragma once
#include <algorithm>

#include "../backend.h"

namespace anneal::split {

class SplitBackend final : public backends::Backend {
 public:
  SplitBackend(model::ModelSpec whole, std::unique_ptr<backends::Backend> first,
               std::unique_ptr<backends::Backend> second)
      : spec_(std::move(whole)), first_(std::move(first)), second_(std::move(second)) {}

  const model::ModelSpec& spec() const override { return spec_; }
  const char* name() const override { return second_->name(); }
  int pages() const override { return second_->pages(); }
  int64_t logit_bytes() const override { return second_->logit_bytes(); }
  int recurrent_states() const override { return std::max(first_->recurrent_states(), second_->recurrent_states()); }

  std::vector<std::string> gate_activations(const backends::GateText&) override;

  bool set_exact(bool exact) override { return second_->set_exact(exact); }
  const backends::Logits* step(std::span<const backends::Run>) override;
  void start() override { second_->start(); }
  bool sample(const backends::Logits& logits, std::span<const backends::RowRequest> requests,
              std::span<backends::RowResult> results) override {
    return second_->sample(logits, requests, results);
  }
  void copy_page(int from, int to) override;
  void copy_recurrent_state(int from, int to) override {
    first_->copy_recurrent_state(from, to), second_->copy_recurrent_state(from, to);
  }

  backends::AdapterRef load_adapter(const model::LoraSpec&, const backends::AdapterValues&) override;
  std::unique_ptr<backends::Trainable> train_adapter(const model::LoraSpec&, uint64_t seed,
                                                     const backends::AdapterValues* values) override;
  std::unique_ptr<backends::Trainable> train_weights() override;
  std::unique_ptr<backends::TrainPass> forward(std::span<const backends::TrainRow>, backends::Trainable*,
                                               const backends::AdapterRef&, const backends::PassOptions&) override;

 private:
  int first_layers() const { return int(first_->spec().layers.size()); }
  // A page of the second's stands for one in each of the first's groups: number page * groups + group.
  int groups() const { return first_->page_groups().count(); }

  model::ModelSpec spec_;
  std::unique_ptr<backends::Backend> first_, second_;
  std::vector<backends::Run> front_, behind_;
  std::vector<std::vector<int32_t>> tables_;  // of the first, for each run
  std::vector<float> residual_;               // [rows][hidden]
};

}  // namespace anneal::split
