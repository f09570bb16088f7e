// The processor as a device: weights in panels, pages of keys and values, adapters, and the passes over them.
#pragma once
#include "adapter.h"
#include "batch.h"
#include "guessed_inputs.h"
#include "row_sampler.h"
#include "workspace.h"

namespace anneal::cpu {

class TrainMemorySlot;

struct HostLogits final : backends::Logits {
  MatrixStore values;  // [rows][vocab], padded to panels
};

class CpuBackend final : public backends::Backend {
 public:
  // The pool must live as long as the backend, its trainables and passes.
  CpuBackend(std::unique_ptr<Model> model, Pool& pool, backends::CacheSize);
  ~CpuBackend() override;

  const ModelSpec& spec() const override { return model_->spec; }
  const char* name() const override { return isa_name(model_->kernels.isa); }
  int pages() const override { return pages_.count(); }
  const backends::PageGroups& page_groups() const override { return pages_.groups(); }
  int recurrent_states() const override { return states_.count(); }
  bool takes_guesses_back() const override { return true; }
  std::vector<std::string> gate_activations(const backends::GateText&) override;
  bool set_exact(bool) override;
  void keep_training_memory(bool) override;

  const backends::Logits* step(std::span<const Run>) override;
  bool sample(const backends::Logits&, std::span<const RowRequest>, std::span<RowResult>) override;
  bool keep_guesses(std::span<const int> kept) override;
  void copy_page(int from, int to) override { pages_.copy(from, to); }
  void copy_recurrent_state(int from, int to) override { states_.copy(from, to); }

  AdapterRef load_adapter(const LoraSpec&, const AdapterValues&) override;
  std::unique_ptr<Trainable> train_adapter(const LoraSpec&, uint64_t seed, const AdapterValues* values) override;
  std::unique_ptr<Trainable> train_weights() override;
  std::unique_ptr<TrainPass> forward(std::span<const TrainRow>, Trainable*, const AdapterRef&,
                                     const PassOptions&) override;
  int64_t pass_bytes(std::span<const std::vector<TrainRow>> trained, std::span<const std::vector<TrainRow>> evaluated,
                     Trainable*, const PassOptions&) override;

 private:
  // Makes the batch of a step.
  int gather(std::span<const Run>);
  // Lists the rows that are read after the last layer, and those whose logits are wanted.
  void list_read(std::span<const Run>);
  // The rows that are read, as a batch of their own.
  void gather_read(std::span<const Run>);
  void run_layers(Team& team);
  // Fills in logits_ from the residual rows of those wanted. False if aborted.
  bool project_logits(Team& team);
  // The latest step's residual rows after the final norm, from the row0th that is read on: [rows][hidden].
  void read_states(Team& team, int row0, int rows, float* to);

  std::unique_ptr<Model> model_;
  const Isa isa_;
  Pool& pool_;
  Pages pages_;
  RecurrentStates states_;
  // Of steps alone: a step may run while a training pass waits.
  Batch batch_, read_batch_;
  GuessedInputs guessed_;
  Workspace workspace_;
  MatrixStore residual_;
  RowStore attention_, normed_;
  CodeStore codes_;
  std::vector<int> order_, first_row_;
  std::vector<int> read_, logit_rows_;  // rows of the batch, ascending; places among them
  std::vector<int32_t> new_pages_;      // that the step is the first to write: [blocks][groups]
  HostLogits logits_;
  RowSampler sampler_;
  std::shared_ptr<TrainMemorySlot> train_memory_;
};

}  // namespace anneal::cpu
