// A model on a GPU: steps over its pages, and adapters.
#pragma once
#include <exception>

#include "../parts.h"
#include "layer_forward.h"
#include "row_sampler.h"
#include "staging.h"

namespace anneal::vulkan {

class VulkanBackend final : public backends::PartBackend {
 public:
  // `sampler` samples rows of logits that lie in the host's memory: few are left to it. `gate`: the same model on the
  // processor, which decides how quantised weights are multiplied; null: there are none. The pool must live as long as
  // the backend.
  VulkanBackend(GpuModel model, executor::Pool& pool, backends::CacheSize cache,
                std::unique_ptr<backends::Backend> sampler, std::unique_ptr<backends::Backend> gate);

  ~VulkanBackend() override;

  const ModelSpec& spec() const override { return model_.spec; }
  const char* name() const override { return name_.c_str(); }
  int pages() const override { return pages_.count(); }
  int recurrent_states() const override { return states_.count(); }
  // As many rows at once as a decode step submits together, of a vocabulary of 256,000; of a small memory less.
  int64_t logit_bytes() const override {
    return std::clamp<int64_t>(model_.gpu->facts().memory / 64, int64_t(64) << 20, int64_t(256) << 20);
  }

  std::vector<std::string> gate_activations(const backends::GateText&) override;
  bool set_exact(bool) override;
  const backends::Logits* step(std::span<const backends::Run>) override;
  void start() override;
  bool sample(const backends::Logits&, std::span<const backends::RowRequest>, std::span<backends::RowResult>) override;
  void copy_page(int from, int to) override;
  void copy_recurrent_state(int from, int to) override;

  backends::AdapterRef load_adapter(const LoraSpec&, const backends::AdapterValues&) override;
  std::unique_ptr<backends::Trainable> train_adapter(const LoraSpec&, uint64_t seed,
                                                     const backends::AdapterValues* values) override;
  std::unique_ptr<backends::Trainable> train_weights() override;
  std::unique_ptr<backends::TrainPass> forward(std::span<const backends::TrainRow>, backends::Trainable*,
                                               const backends::AdapterRef&, const backends::PassOptions&) override;
  std::unique_ptr<backends::TrainPass> forward_behind(std::span<const backends::TrainRow>, backends::Trainable*,
                                                      const backends::AdapterRef&, const backends::PassOptions&,
                                                      const float* residual) override;

 private:
  // Does what was recorded; false if the work was aborted. Training gives way to a waiting step here.
  bool run(Commands&);
  // Does what `record` records, for which nobody waits: what goes wrong the next step tells.
  template <class F> void copy(F&& record);
  void read_states(std::span<const backends::Run>);
  void reserve(std::span<const backends::Run>);
  void take_residual(std::span<const backends::Run>);
  // Layer by layer, with what `after` does in between, until it returns false.
  template <class F> bool record_layers(Commands&, F&& after);
  void record_logits_of_batch(Commands&);
  // Of a step that is submitted at once: all of it.
  void record_step(Commands&);
  RecordingKey step_key() const;
  bool sample_here(std::span<const size_t> which, std::span<const backends::RowRequest>,
                   std::span<backends::RowResult>);

  GpuModel model_;
  executor::Pool& pool_;
  std::unique_ptr<backends::Backend> sampler_, gate_;
  RowSampler row_sampler_;
  bool is_fast_;
  std::string name_;
  Pages pages_;
  RecurrentStates states_;
  Commands commands_;
  Recordings steps_, samplings_;
  // A step that was put together, to be done together with its samples.
  Commands* waiting_ = nullptr;
  Staging staging_;
  Batch batch_;
  DeviceBatch device_batch_;
  Scratch scratch_;
  Memory residual_, normed_, logits_;  // logits_: of the latest step, [rows][vocab]
  Memory given_;                       // a residual stream that another device computed: [rows][hidden]
  uint64_t x_in_ = 0;                  // of the first layer
  Memory host_logits_;
  std::vector<int> first_row_;  // of each run
  // Of the step that has been submitted: the GPU may still read them.
  std::vector<backends::AdapterRef> adapters_;
  backends::Logits found_;
  std::exception_ptr failed_;  // of a page or a state that could not be copied
};

}  // namespace anneal::vulkan
