// The one Decoder: weights, pages and the passes over them.
#pragma once
#include "batch.h"

namespace anneal::cpu {

class TrainMemorySlot;

class DecoderImpl final : public Decoder {
 public:
  DecoderImpl(std::unique_ptr<Model> model, Pool& pool, int pages);
  ~DecoderImpl() override;

  const DecoderConfig& config() const override { return model_->config; }
  int pages() const override { return pages_.count(); }
  bool step(Pool&, const StepRun* runs, int count, LogitsOut) override;
  void copy_page(int from, int to) override { pages_.copy(from, to); }
  void clear_page(int page) override { pages_.clear(page); }
  AdapterRef load_adapter(Pool&, const LoraSpec&, const AdapterValues&) override;
  std::unique_ptr<Trainable> train_adapter(const LoraSpec&, uint64_t seed, const AdapterValues* values) override;
  std::unique_ptr<Trainable> train_weights() override;
  std::unique_ptr<TrainPass> forward(Pool&, const TrainRow* rows, int count, const uint8_t* const* trained, const uint8_t* first_trained,
                                     Trainable* trainable, const AdapterRef& adapter, const PassOptions& options) override;

 private:
  std::unique_ptr<Model> model_;
  Pool& pool_;
  Pages pages_;
  // Of steps alone: a step may run while a training pass waits.
  Batch batch_;
  Workspace workspace_;
  MatrixStore residual_;
  RowStore attention_, normed_;
  std::vector<int> order_, first_row_, logit_rows_;
  std::shared_ptr<TrainMemorySlot> train_memory_;
};

}  // namespace anneal::cpu
