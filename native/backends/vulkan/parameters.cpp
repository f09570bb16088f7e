#include "parameters.h"

#include <cmath>

#include "../../model/adapter_start.h"

namespace anneal::vulkan {
namespace {

constexpr int64_t kLanes = 16, kBlock = 4096, kPiece = 1 << 16;  // of floats: rows are padded, sums are taken by
constexpr int kMaxGroups = 4096;                                 // of elementwise work

int64_t groups_of(int64_t n) { return std::min<int64_t>(kMaxGroups, (n + 255) / 256); }

}  // namespace

AdapterParameters::AdapterParameters(const GpuModel& m, executor::Pool& pool, const LoraSpec& spec, uint64_t seed,
                                     const backends::AdapterValues* values)
    : model_(m),
      pool_(pool),
      spec_(spec),
      places_(m.spec, spec),
      tensors_(adapter_tensors(m.spec, spec)),
      staging_(m.gpu) {
  m.gpu->count_as_spare(spare_);
  int64_t blocks = 0;
  for (const TensorShape& t : tensors_) {
    const Place place{size_, t.rows, t.cols, round_up(t.cols, kLanes)};
    parameters_.push_back(place);
    size_ += place.rows * place.ld;
    blocks += (place.rows * place.ld + kBlock - 1) / kBlock;
  }
  MemoryPlan plan(m.gpu, "training an adapter of rank " + std::to_string(spec.rank));
  for (Memory* memory : {&value_, &gradient_, &pending_, &moment1_, &moment2_}) plan.add(*memory, size_ * 4);
  plan.add(sums_, blocks * 4, Memory::Place::readback);
  for (const auto place : {Memory::Place::upload, Memory::Place::readback}) staging_.plan(plan, place);
  // The version that is used, and the next one, which is there before a step begins.
  plan.add(2 * adapter_version_bytes(m, spec));
  plan.take();
  for (Memory* memory : {&value_, &gradient_, &moment1_, &moment2_}) staging_.zero(*memory);

  int next = 0;
  std::vector<float> start;
  for (int l = 0; l < m.layers(); l++)
    for (int module : modules_of(m.spec.layers[size_t(l)])) {
      if (!spec.targets[module]) continue;
      const int a = next;
      next += 2;
      if (values) {
        for (int b = 0; b < 2; b++)
          write(a + b, Part::value,
                {(*values)(l, parts_of(module).first, b), size_t(tensors_[size_t(a + b)].elements())});
        continue;
      }
      const int inputs = module_shape(m.spec, l, module).inputs;
      start.resize(size_t(spec.rank) * inputs);
      start_adapter(seed, l, module, inputs, 0, spec.rank, start.data(), inputs);
      write(a, Part::value, start);
    }
  refresh();
}

const Memory& AdapterParameters::part(Part which) const {
  switch (which) {
    case Part::value: return value_;
    case Part::gradient: return gradient_;
    case Part::moment1: return moment1_;
    default: return moment2_;
  }
}

void AdapterParameters::read(int tensor, Part which, std::span<float> to) const {
  if (which == Part::gradient && !has_gradient_) {
    std::fill(to.begin(), to.end(), 0.0f);
    return;
  }
  const Place& p = parameters_[size_t(tensor)];
  std::vector<float> rows(size_t(p.rows * p.ld));
  staging_.read(part(which), p.offset * 4, rows.data(), int64_t(rows.size()) * 4);
  for (int64_t r = 0; r < p.rows; r++)
    std::memcpy(&to[size_t(r * p.cols)], &rows[size_t(r * p.ld)], size_t(p.cols) * 4);
}

void AdapterParameters::write(int tensor, Part which, std::span<const float> from) {
  const Place& p = parameters_[size_t(tensor)];
  std::vector<float> rows(size_t(p.rows * p.ld), 0.0f);
  for (int64_t r = 0; r < p.rows; r++)
    std::memcpy(&rows[size_t(r * p.ld)], &from[size_t(r * p.cols)], size_t(p.cols) * 4);
  staging_.write(part(which), p.offset * 4, rows.data(), int64_t(rows.size()) * 4);
}

void AdapterParameters::refresh() {
  Commands commands(model_.gpu);
  publish(commands, take_adapter_version(model_, spec_));
}

void AdapterParameters::publish(Commands& commands, std::shared_ptr<AdapterVersion> version) {
  const auto masters = [&](int layer, int p, bool b) { return rows_of(value_, layer, p, b); };
  record_adapter_version(commands, model_, spec_, masters, staging_, *version);
  if (!pool_.each(1, [&](int64_t, int) { commands.run(); })) throw executor::Aborted();
  version_ = std::move(version);
}

void AdapterParameters::begin(Commands& commands) {
  commands.zero(pending_, 0, pending_.bytes());
  commands.barrier();
}

FloatRows AdapterParameters::rows_of(const Memory& memory, int layer, int p, bool b) const {
  const AdapterPlace place = places_.of(layer, p, b);
  const Place& parameter = parameters_[place.tensor];
  const int64_t at = parameter.offset + place.element / parameter.cols * parameter.ld;
  return {memory.address() + uint64_t(at) * 4, int(parameter.ld)};
}

Gradient AdapterParameters::gradient(int layer, int p, bool b) const {
  if (!spec_.adapts(model_.spec.layers[size_t(layer)], p)) return {};
  return rows_of(pending_, layer, p, b);
}

void AdapterParameters::commit() {
  if (has_gradient_) {
    const struct {
      uint64_t y, x;
      int32_t n, padding;
    } parameters{pending_.address(), gradient_.address(), int32_t(size_), 0};
    Commands commands(model_.gpu);
    commands.dispatch(model_.gpu->pipeline(Shader::kAdd), parameters, groups_of(size_));
    commands.run();
  }
  std::swap(gradient_, pending_);
  has_gradient_ = true;
}

double AdapterParameters::add_squares(double norm) {
  Commands commands(model_.gpu);
  if (!has_gradient_) commands.zero(gradient_, 0, gradient_.bytes());
  commands.barrier();
  int64_t block = 0;
  for (const Place& p : parameters_) {
    const int64_t n = p.rows * p.ld, blocks = (n + kBlock - 1) / kBlock;
    const struct {
      uint64_t x, sums;
      int32_t n, padding;
    } parameters{gradient_.address() + uint64_t(p.offset) * 4, sums_.address() + uint64_t(block) * 4, int32_t(n), 0};
    commands.dispatch(model_.gpu->pipeline(Shader::kSumSquares), parameters, blocks);
    block += blocks;
  }
  if (!pool_.each(1, [&](int64_t, int) { commands.run(); })) throw executor::Aborted();
  // As the processor adds them: blocks to pieces, and these to the norm.
  const float* sum = sums_.mapped<float>();
  for (const Place& p : parameters_)
    for (int64_t from = 0, n = p.rows * p.ld; from < n; from += kPiece) {
      double piece = 0;
      for (int64_t b = from; b < std::min(n, from + kPiece); b += kBlock) piece += double(*sum++);
      norm += piece;
    }
  return norm;
}

void AdapterParameters::step(const backends::OptimizerSettings& s, double norm) {
  // What could be refused comes first: then nothing has been changed.
  auto next = take_adapter_version(model_, spec_);
  Commands commands(model_.gpu);
  const int64_t steps = steps_ + 1;
  const double lr = s.learning_rate, beta1 = s.beta1, beta2 = s.beta2, weight_decay = s.weight_decay;
  const double bias1 = float(1 - std::pow(beta1, double(steps))), bias2 = float(1 - std::pow(beta2, double(steps)));
  const struct {
    uint64_t w, g, m, v;
    int32_t n;
    float scale, decay, eps, toward, beta2, fresh, rate, inverse_root, padding;
  } parameters{value_.address(),
               gradient_.address(),
               moment1_.address(),
               moment2_.address(),
               int32_t(size_),
               s.max_grad_norm > 0 ? float(std::min(1.0, s.max_grad_norm / (norm + 1e-6))) : 1.0f,
               float(1 - lr * weight_decay),
               float(double(s.eps)),
               float(1 - beta1),
               float(beta2),
               float(1 - beta2),
               float(-lr / bias1),
               float(1 / std::sqrt(bias2)),
               0};
  commands.dispatch(model_.gpu->pipeline(Shader::kAdamw), parameters, groups_of(size_));
  commands.barrier();
  publish(commands, std::move(next));
  steps_ = steps;
  zero_grad();
}

}  // namespace anneal::vulkan
