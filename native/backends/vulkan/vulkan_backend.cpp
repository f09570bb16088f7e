#include "vulkan_backend.h"

#include <algorithm>
#include <utility>

#include "train_pass.h"

namespace anneal::vulkan {

using backends::Run;
using backends::WantedLogits;

namespace {

// Steps of more rows are submitted layer by layer: what takes seconds, a driver ends.
constexpr int kRowsOfOneSubmission = 256;

}  // namespace

VulkanBackend::VulkanBackend(GpuModel model, executor::Pool& pool, backends::CacheSize cache,
                             std::unique_ptr<backends::Backend> sampler, std::unique_ptr<backends::Backend> gate)
    : model_(std::move(model)),
      pool_(pool),
      sampler_(std::move(sampler)),
      gate_(std::move(gate)),
      row_sampler_(model_.gpu, model_.spec.vocab),
      is_fast_(model_.fast),
      name_(model_.fast                      ? "vulkan-fast"
            : model_.gpu->arithmetic().exact ? "vulkan"
                                             : "vulkan-inexact"),
      pages_(model_, cache.pages),
      commands_(model_.gpu),
      steps_(model_.gpu),
      samplings_(model_.gpu),
      staging_(model_.gpu) {
  if (model_.spec.recurrent()) states_ = RecurrentStates(model_, cache.recurrent_states);
}

// Memory goes once the GPU reads it no more.
VulkanBackend::~VulkanBackend() {
  try {
    commands_.discard();
  } catch (const backends::DeviceLost&) {
    // Then it reads nothing.
  }
}

std::vector<std::string> VulkanBackend::gate_activations(const backends::GateText& text) {
  if (!gate_) return {};
  const std::vector<std::string> names = gate_->gate_activations(text);
  gate_.reset();
  keep_activations(model_.spec, *model_.weights, names);
  return names;
}

bool VulkanBackend::set_exact(bool exact) {
  if (!is_fast_) return false;
  model_.fast = !exact;
  return true;
}

bool VulkanBackend::run(Commands& commands) {
  return pool_.each(1, [&](int64_t, int) { commands.run(); });
}

const backends::Logits* VulkanBackend::step(std::span<const Run> runs) {
  if (failed_) std::rethrow_exception(failed_);
  found_.rows = 0;
  commands_.discard(), waiting_ = nullptr;  // of a step that failed
  batch_.clear();
  adapters_.clear();
  first_row_.assign(runs.size(), 0);
  bool states = false;
  for (size_t i = 0; i < runs.size(); i++) {
    const Run& r = runs[i];
    first_row_[i] = batch_.rows;
    if (r.count <= 0) continue;
    batch_.add(r.tokens, r.count, r.position, r.blocks, version_of(r.adapter), r.recurrent);
    if (r.adapter) adapters_.push_back(r.adapter);
    states |= r.state_count > 0;
    for (int row = batch_.rows - r.logit_rows(); row < batch_.rows; row++) batch_.logit_rows.push_back(row);
  }
  if (batch_.rows == 0) return &found_;

  const int rows = batch_.rows, wanted = int(batch_.logit_rows.size());
  reserve(runs);
  take_residual(runs);
  found_.rows = wanted;
  // Decoding does the same over and over.
  const bool decodes =
      wanted == rows && !states && rows <= kRowsOfOneSubmission && int(batch_.sequences.size()) == rows;
  if (decodes) {
    waiting_ = &steps_.of(step_key(), [&](Commands& commands) { record_step(commands); });
    return &found_;
  }
  if (!record_layers(commands_, [&] { return rows <= kRowsOfOneSubmission || run(commands_); })) return nullptr;
  if (states) read_states(runs);
  if (wanted == 0) return run(commands_) ? &found_ : nullptr;
  record_logits_of_batch(commands_);
  waiting_ = &commands_;
  return &found_;
}

void VulkanBackend::reserve(std::span<const Run> runs) {
  const GpuModel& m = model_;
  const int rows = batch_.rows, wanted = int(batch_.logit_rows.size());
  const std::string part = "a step of " + std::to_string(rows) + " tokens";
  m.gpu->require_rows(part, rows);
  MemoryPlan plan(m.gpu, part);
  device_batch_.plan(plan, model_, batch_);
  scratch_.plan(plan, m, rows, device_batch_.rank);
  plan.add(residual_, int64_t(rows) * m.spec.hidden * 4);
  plan.add(normed_, wanted * m.type.row_bytes(m.spec.hidden));
  plan.add(logits_, int64_t(wanted) * m.spec.vocab * 4);
  const auto any = [&](auto&& has) { return std::any_of(runs.begin(), runs.end(), has); };
  if (any([](const Run& run) { return run.residual_in != nullptr; }))
    plan.add(given_, int64_t(rows) * m.spec.hidden * 4, Memory::Place::upload);
  if (any([](const Run& run) { return run.state_count > 0; })) staging_.plan(plan, Memory::Place::readback);
  plan.take();
  device_batch_.write();
}

// Of runs that another device began, which all of a step are or none.
void VulkanBackend::take_residual(std::span<const Run> runs) {
  const int64_t row = int64_t(model_.spec.hidden) * 4;
  x_in_ = residual_.address();
  for (size_t i = 0; i < runs.size(); i++) {
    if (!runs[i].residual_in || runs[i].count <= 0) continue;
    x_in_ = given_.address();
    std::memcpy(given_.mapped<char>() + first_row_[i] * row, runs[i].residual_in, size_t(runs[i].count * row));
  }
}

template <class F> bool VulkanBackend::record_layers(Commands& commands, F&& after) {
  LayerActivations a = unkept_activations(scratch_, residual_.address());
  a.x_in = x_in_;
  if (x_in_ == residual_.address()) record_embedding(commands, model_, device_batch_, x_in_);
  for (int l = 0; l < model_.layers(); l++) {
    record_layer(commands, model_, device_batch_, pages_, states_, l, a, scratch_);
    a.x_in = residual_.address();
    if (!after()) return false;
  }
  return true;
}

void VulkanBackend::record_step(Commands& commands) {
  record_layers(commands, [] { return true; });
  record_logits_of_batch(commands);
}

RecordingKey VulkanBackend::step_key() const {
  RecordingKey key{model_.fast, x_in_, residual_.address(), normed_.address(), logits_.address()};
  device_batch_.add_key(model_, key);
  scratch_.add_key(key);
  return key;
}

void VulkanBackend::start() {
  if (!waiting_) return;
  if (waiting_ != &commands_) {
    // Submitted by itself, it is waited for by itself.
    commands_.submit(waiting_);
  } else {
    commands_.submit();
  }
  waiting_ = nullptr;
}

void VulkanBackend::read_states(std::span<const Run> runs) {
  const GpuModel& m = model_;
  const ElementType t = m.type;
  std::vector<char> rows;
  for (size_t i = 0; i < runs.size(); i++) {
    const int count = runs[i].state_count;
    if (count <= 0) continue;
    record_norm(commands_, m, residual_.address(), m.weights->final_norm, 0, first_row_[i] + runs[i].count - count,
                count, m.spec.hidden, scratch_.normed.address());
    commands_.barrier();
    commands_.run();
    rows.resize(size_t(count * t.row_bytes(m.spec.hidden)));
    staging_.read(scratch_.normed, 0, rows.data(), int64_t(rows.size()));
    for (int r = 0; r < count; r++)
      for (int j = 0; j < m.spec.hidden; j++) {
        const char* from = rows.data() + r * t.row_bytes(m.spec.hidden) + j * t.bytes();
        float& to = runs[i].states[int64_t(r) * m.spec.hidden + j];
        uint16_t bits;
        if (t.bf16)
          std::memcpy(&bits, from, 2), to = widened(bits);
        else
          std::memcpy(&to, from, 4);
      }
  }
}

void VulkanBackend::record_logits_of_batch(Commands& commands) {
  const GpuModel& m = model_;
  const int wanted = int(batch_.logit_rows.size());
  record_norm(commands, m, residual_.address(), m.weights->final_norm, device_batch_.logit_rows, 0, wanted,
              m.spec.hidden, normed_.address());
  commands.barrier();
  record_logits(commands, m, normed_.address(), wanted, logits_.address(), scratch_);
}

bool VulkanBackend::sample(const backends::Logits&, std::span<const backends::RowRequest> requests,
                           std::span<backends::RowResult> results) {
  Commands* const step = std::exchange(waiting_, nullptr);
  if (row_sampler_.write(requests)) {
    RecordingKey key{logits_.address()};
    row_sampler_.add_key(key);
    Commands& sampling = samplings_.of(key, [&](Commands& commands) {
      commands.barrier();  // behind the step
      row_sampler_.record(commands, logits_.address());
    });
    if (!pool_.each(1, [&](int64_t, int) { sampling.run(step); })) return false;
  } else if (step && !pool_.each(1, [&](int64_t, int) { commands_.run(step); })) {
    return false;
  }
  commands_.wait();
  adapters_.clear();
  const std::vector<size_t> left = row_sampler_.read(requests, results);
  return left.empty() || sample_here(left, requests, results);
}

bool VulkanBackend::sample_here(std::span<const size_t> which, std::span<const backends::RowRequest> requests,
                                std::span<backends::RowResult> results) {
  const int64_t row = int64_t(model_.spec.vocab) * 4;
  MemoryPlan plan(model_.gpu, "logits of " + std::to_string(which.size()) + " rows for the processor");
  plan.add(host_logits_, int64_t(which.size()) * row, Memory::Place::readback);
  plan.take();
  std::vector<backends::RowRequest> asked;
  for (const size_t i : which) {
    commands_.copy(logits_, requests[i].row * row, host_logits_, int64_t(asked.size()) * row, row);
    asked.push_back(requests[i]);
    asked.back().row = int(asked.size()) - 1;
  }
  if (!run(commands_)) return false;
  Run given{};
  given.count = int(asked.size()), given.logits = WantedLogits::all, given.given_logits = host_logits_.mapped<float>();
  std::vector<backends::RowResult> answers(asked.size());
  if (!sampler_->sample(*sampler_->step({&given, 1}), asked, answers)) return false;
  for (size_t j = 0; j < which.size(); j++) results[which[j]] = std::move(answers[j]);
  return true;
}

template <class F> void VulkanBackend::copy(F&& record) {
  commands_.discard();
  if (failed_) return;
  record();
  try {
    commands_.run();
  } catch (...) {
    failed_ = std::current_exception();
  }
}

void VulkanBackend::copy_page(int from, int to) {
  copy([&] {
    for (int l = 0; l < model_.layers(); l++)
      commands_.copy(pages_.of(l), from * pages_.page_bytes(l), pages_.of(l), to * pages_.page_bytes(l),
                     pages_.page_bytes(l));
  });
}

void VulkanBackend::copy_recurrent_state(int from, int to) {
  copy([&] { states_.copy(commands_, from, to); });
}

backends::AdapterRef VulkanBackend::load_adapter(const LoraSpec& lora, const backends::AdapterValues& values) {
  return make_adapter_version(model_, pool_, lora, values);
}

std::unique_ptr<backends::Trainable> VulkanBackend::train_adapter(const LoraSpec& lora, uint64_t seed,
                                                                  const backends::AdapterValues* values) {
  return std::make_unique<AdapterParameters>(model_, pool_, lora, seed, values);
}

std::unique_ptr<backends::Trainable> VulkanBackend::train_weights() {
  throw backends::UnusableDevice("all weights are trained on the cpu only: open the model with device \"cpu\"");
}

std::unique_ptr<backends::TrainPass> VulkanBackend::forward(std::span<const backends::TrainRow> rows,
                                                            backends::Trainable* trainable,
                                                            const backends::AdapterRef& adapter,
                                                            const backends::PassOptions& options) {
  return forward_behind(rows, trainable, adapter, options, nullptr);
}

std::unique_ptr<backends::TrainPass> VulkanBackend::forward_behind(std::span<const backends::TrainRow> rows,
                                                                   backends::Trainable* trainable,
                                                                   const backends::AdapterRef& adapter,
                                                                   const backends::PassOptions& options,
                                                                   const float* residual) {
  return train_forward(model_, pool_, rows, static_cast<AdapterParameters*>(trainable), adapter, options, residual);
}

}  // namespace anneal::vulkan
