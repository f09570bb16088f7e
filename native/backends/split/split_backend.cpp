#include "split_backend.h"

#include "../../model/adapter_start.h"
#include "../../model/tensors.h"

namespace anneal::split {

using backends::Run;

namespace {

// A version of an adapter, of either's layers.
struct SplitAdapter final : backends::Adapter {
  backends::AdapterRef first, second;
};

const SplitAdapter* parts_of(const backends::AdapterRef& adapter) {
  return static_cast<const SplitAdapter*>(adapter.get());
}

[[noreturn]] void refuse_training() {
  throw backends::UnusableDevice(
      "a model whose layers are split between a GPU and the processor is not trained: open it with device \"cpu\", or "
      "without gpuLayers");
}

// An adapter that begins here, is read, written and published. It has no gradients.
class SplitTrainable final : public backends::Trainable {
 public:
  SplitTrainable(const model::ModelSpec& whole, const model::LoraSpec& lora, std::unique_ptr<backends::Trainable> first,
                 std::unique_ptr<backends::Trainable> second)
      : first_(std::move(first)), second_(std::move(second)), tensors_(model::adapter_tensors(whole, lora)) {}

  void zero_grad() override {
    each([](backends::Trainable& t) { t.zero_grad(); });
  }
  double optim_step(const backends::OptimizerSettings&) override { refuse_training(); }
  backends::AdapterRef version() const override {
    auto parts = std::make_shared<SplitAdapter>();
    parts->first = first_->version(), parts->second = second_->version();
    return parts;
  }
  int64_t steps() const override { return first_->steps(); }
  void set_steps(int64_t steps) override {
    each([&](backends::Trainable& t) { t.set_steps(steps); });
  }
  const std::vector<model::TensorShape>& tensors() const override { return tensors_; }
  void read(int tensor, Part part, std::span<float> to) const override {
    const int own = int(first_->tensors().size());
    tensor < own ? first_->read(tensor, part, to) : second_->read(tensor - own, part, to);
  }
  void write(int tensor, Part part, std::span<const float> from) override {
    const int own = int(first_->tensors().size());
    tensor < own ? first_->write(tensor, part, from) : second_->write(tensor - own, part, from);
  }
  void refresh() override {
    each([](backends::Trainable& t) { t.refresh(); });
  }

 private:
  template <class F> void each(F&& f) { f(*first_), f(*second_); }
  std::unique_ptr<backends::Trainable> first_, second_;
  std::vector<model::TensorShape> tensors_;
};

}  // namespace

const backends::Logits* SplitBackend::step(std::span<const Run> runs) {
  front_.assign(runs.begin(), runs.end());
  behind_.assign(runs.begin(), runs.end());
  tables_.resize(std::max(tables_.size(), runs.size()));
  size_t rows = 0;
  for (const Run& run : runs) rows += size_t(std::max(0, run.count));
  residual_.resize(rows * size_t(spec_.hidden));
  float* residual = residual_.data();
  for (size_t i = 0; i < runs.size(); i++) {
    Run &front = front_[i], &behind = behind_[i];
    if (front.count <= 0) continue;
    front.logits = backends::WantedLogits::none, front.states = nullptr, front.state_count = 0;
    front.residual_out = residual;
    behind.residual_in = residual;
    residual += int64_t(front.count) * spec_.hidden;
    if (const SplitAdapter* parts = parts_of(runs[i].adapter))
      front.adapter = parts->first, behind.adapter = parts->second;
    front.block_count = (front.position + front.count - 1) / backends::kPage + 1;
    std::vector<int32_t>& table = tables_[i];
    table.clear();
    for (int g = 0; g < groups(); g++)
      for (int b = 0; b < front.block_count; b++) table.push_back(runs[i].blocks[b] * groups() + g);
    front.blocks = table.data();
  }
  if (!first_->step(front_)) return nullptr;
  return second_->step(behind_);
}

void SplitBackend::copy_page(int from, int to) {
  for (int g = 0; g < groups(); g++) first_->copy_page(from * groups() + g, to * groups() + g);
  second_->copy_page(from, to);
}

backends::AdapterRef SplitBackend::load_adapter(const model::LoraSpec& lora, const backends::AdapterValues& values) {
  auto parts = std::make_shared<SplitAdapter>();
  parts->first = first_->load_adapter(lora, values);
  if (!parts->first) return nullptr;
  parts->second = second_->load_adapter(
      lora, [&](int layer, int projection, bool b) { return values(first_layers() + layer, projection, b); });
  if (!parts->second) return nullptr;
  return parts;
}

std::unique_ptr<backends::Trainable> SplitBackend::train_adapter(const model::LoraSpec& lora, uint64_t seed,
                                                                 const backends::AdapterValues* values) {
  const int skipped = first_layers();
  std::vector<float> start;
  // As the whole model's layers begin, which have other numbers.
  const backends::AdapterValues behind = [&](int layer, int projection, bool b) -> const float* {
    if (values) return (*values)(skipped + layer, projection, b);
    const int module = model::module_of(spec_.layers[size_t(skipped + layer)], projection);
    const model::ProjectionShape shape = model::module_shape(spec_, skipped + layer, module);
    start.assign(size_t(lora.rank) * size_t(b ? shape.outputs : shape.inputs), 0.0f);
    if (!b) model::start_adapter(seed, skipped + layer, module, shape.inputs, 0, lora.rank, start.data(), shape.inputs);
    return start.data();
  };
  auto first = first_->train_adapter(lora, seed, values);
  return std::make_unique<SplitTrainable>(spec_, lora, std::move(first), second_->train_adapter(lora, seed, &behind));
}

std::unique_ptr<backends::Trainable> SplitBackend::train_weights() { refuse_training(); }

std::unique_ptr<backends::TrainPass> SplitBackend::forward(std::span<const backends::TrainRow>, backends::Trainable*,
                                                           const backends::AdapterRef&, const backends::PassOptions&) {
  refuse_training();
}

}  // namespace anneal::split
