#include "split_backend.h"

#include "../../model/adapter_start.h"
#include "../../model/tensors.h"
#include "../parts.h"
#include "parts_of_model.h"

namespace anneal::split {

using backends::Run;

namespace {

// A version of an adapter, of either's layers.
struct SplitAdapter final : backends::Adapter {
  backends::AdapterRef first, second;
  int64_t bytes() const override { return first->bytes() + second->bytes(); }
};

const SplitAdapter* parts_of(const backends::AdapterRef& adapter) {
  return static_cast<const SplitAdapter*>(adapter.get());
}

class SplitTrainable final : public backends::PartTrainable {
 public:
  SplitTrainable(const model::ModelSpec& whole, const model::LoraSpec& lora, std::unique_ptr<backends::Trainable> first,
                 std::unique_ptr<backends::Trainable> second)
      : first_(std::move(first)), second_(std::move(second)), tensors_(model::adapter_tensors(whole, lora)) {}

  backends::Trainable* first() const { return first_.get(); }
  backends::Trainable* second() const { return second_.get(); }

  void zero_grad() override { first_->zero_grad(), second_->zero_grad(); }
  double add_squares(double sum) override { return part(second_).add_squares(part(first_).add_squares(sum)); }
  void step(const backends::OptimizerSettings& settings, double norm) override {
    // The one whose memory may not suffice first: then neither has changed.
    part(second_).step(settings, norm), part(first_).step(settings, norm);
  }
  backends::AdapterRef version() const override {
    auto parts = std::make_shared<SplitAdapter>();
    parts->first = first_->version(), parts->second = second_->version();
    return parts;
  }
  int64_t steps() const override { return first_->steps(); }
  void set_steps(int64_t steps) override { first_->set_steps(steps), second_->set_steps(steps); }
  void rest() override { first_->rest(), second_->rest(); }
  const std::vector<model::TensorShape>& tensors() const override { return tensors_; }
  void read(int tensor, Part part, std::span<float> to) const override {
    const int own = int(first_->tensors().size());
    tensor < own ? first_->read(tensor, part, to) : second_->read(tensor - own, part, to);
  }
  void write(int tensor, Part part, std::span<const float> from) override {
    const int own = int(first_->tensors().size());
    tensor < own ? first_->write(tensor, part, from) : second_->write(tensor - own, part, from);
  }
  void refresh() override { first_->refresh(), second_->refresh(); }

 private:
  static backends::PartTrainable& part(const std::unique_ptr<backends::Trainable>& trainable) {
    return static_cast<backends::PartTrainable&>(*trainable);
  }
  std::unique_ptr<backends::Trainable> first_, second_;
  std::vector<model::TensorShape> tensors_;
};

class SplitPass final : public backends::TrainPass {
 public:
  SplitPass(std::unique_ptr<TrainPass> first, std::unique_ptr<TrainPass> second, size_t residual)
      : first_(std::move(first)), second_(std::move(second)), gradient_(residual) {}

  std::span<const float> logprobs(int row) const override { return second_->logprobs(row); }
  std::span<const float> entropies(int row) const override { return second_->entropies(row); }
  int64_t bytes() const override { return first_->bytes() + second_->bytes(); }
  bool backward(RowGradients by_logprob, RowGradients by_entropy) override {
    if (!second_->backward(by_logprob, by_entropy)) return false;
    part(second_).read_residual_gradient(gradient_.data());
    part(first_).give_residual_gradient(gradient_.data());
    const std::vector<std::span<const float>> nothing(by_logprob.size());
    if (!first_->backward(nothing, {})) return false;
    part(second_).commit();
    return true;
  }

 private:
  static backends::PartPass& part(const std::unique_ptr<TrainPass>& pass) {
    return static_cast<backends::PartPass&>(*pass);
  }
  std::unique_ptr<TrainPass> first_, second_;
  std::vector<float> gradient_;  // of the residual stream between them
};

}  // namespace

std::vector<std::string> SplitBackend::gate_activations(const backends::GateText& text) {
  std::vector<float> residual(text.tokens.size() * size_t(spec_.hidden));
  std::vector<std::string> names = first_->gate_activations({text.tokens, residual.data(), nullptr});
  for (const std::string& name : second_->gate_activations({text.tokens, nullptr, residual.data()}))
    names.push_back(name_in_whole(spec_, first_layers(), name));
  return names;
}

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

std::unique_ptr<backends::Trainable> SplitBackend::train_weights() { return second_->train_weights(); }

std::unique_ptr<backends::TrainPass> SplitBackend::forward(std::span<const backends::TrainRow> rows,
                                                           backends::Trainable* trainable,
                                                           const backends::AdapterRef& adapter,
                                                           const backends::PassOptions& options) {
  const auto* both = static_cast<const SplitTrainable*>(trainable);
  const SplitAdapter* parts = parts_of(adapter);
  // Predictions are made behind the last layer.
  std::vector<backends::TrainRow> front(rows.begin(), rows.end());
  size_t tokens = 0, longest = 0;
  for (const backends::TrainRow& row : rows)
    tokens += row.tokens.size(), longest = std::max(longest, row.tokens.size());
  const std::vector<uint8_t> none(longest);
  for (backends::TrainRow& row : front) row.trained = std::span(none).first(row.tokens.size());
  backends::PassOptions own = options;
  own.entropy_gradient = false;
  auto first = first_->forward(front, both ? both->first() : nullptr, parts ? parts->first : nullptr, own);
  if (!first) return nullptr;

  std::vector<float> residual(tokens * size_t(spec_.hidden));
  static_cast<backends::PartPass&>(*first).read_residual(residual.data());
  auto second = static_cast<backends::PartBackend&>(*second_).forward_behind(
      rows, both ? both->second() : nullptr, parts ? parts->second : nullptr, options, residual.data());
  if (!second) return nullptr;
  return std::make_unique<SplitPass>(std::move(first), std::move(second), residual.size());
}

}  // namespace anneal::split
