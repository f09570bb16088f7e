#include "trainer.h"

#include "../executor/pool.h"
#include "../model/invalid_input.h"

namespace anneal::training {

using executor::Aborted;
using Part = backends::Trainable::Part;

namespace {

RowValues values_of(const backends::TrainPass& pass, size_t rows) {
  RowValues values;
  for (size_t i = 0; i < rows; ++i) {
    const auto logprobs = pass.logprobs(int(i)), entropies = pass.entropies(int(i));
    values.logprobs.emplace_back(logprobs.begin(), logprobs.end());
    values.entropies.emplace_back(entropies.begin(), entropies.end());
  }
  return values;
}

std::vector<backends::TrainRow> described(const std::vector<Row>& rows) {
  std::vector<backends::TrainRow> list;
  for (const Row& row : rows)
    list.push_back({row.tokens, row.trained, row.temperatures, row.prefix, row.prefix_length});
  return list;
}

}  // namespace

void Pass::check(const RowGradients& gradients) const {
  if (made_at_ != *changes_) throw model::Conflict("the weights have changed since this pass: make a new one");
  const auto check_list = [&](const std::vector<std::vector<float>>& list, const char* field) {
    if (list.size() != rows_.size()) throw InvalidGradient{field, -1, -1, "must have one array for each row"};
    for (size_t i = 0; i < list.size(); ++i) {
      if (list[i].size() != rows_[i].tokens.size())
        throw InvalidGradient{field, int64_t(i), -1, "must be as long as the row's logprobs"};
      // What was not asked for has no activations; the last entry of a row predicts nothing.
      for (size_t t = 0; t < list[i].size(); ++t)
        if (list[i][t] != 0 && !rows_[i].trained[t])
          throw InvalidGradient{field, int64_t(i), int64_t(t), "must be 0: this entry is not trained"};
    }
  };
  check_list(gradients.logprobs, "dLogprobs");
  if (gradients.entropies.empty()) return;
  if (!options_.entropy_gradient) throw InvalidGradient{"dEntropies", -1, -1, "needs a pass made with entropyGradient"};
  check_list(gradients.entropies, "dEntropies");
}

void Pass::backward(const RowGradients& gradients) {
  const std::vector<std::span<const float>> logprobs(gradients.logprobs.begin(), gradients.logprobs.end());
  const std::vector<std::span<const float>> entropies(gradients.entropies.begin(), gradients.entropies.end());
  const auto kept = std::move(kept_);
  if (!kept->backward(logprobs, entropies)) throw Aborted();
}

std::unique_ptr<backends::TrainPass> Trainer::run(const std::vector<Row>& rows, backends::Trainable* trainable,
                                                  const backends::AdapterRef& adapter,
                                                  const backends::PassOptions& options) {
  auto pass = backend_.forward(described(rows), trainable, adapter, options);
  if (!pass) throw Aborted();
  return pass;
}

RowValues Trainer::forward(Pass& pass) {
  pass.kept_ = run(pass.rows_, trainable_.get(), nullptr, pass.options_);
  return values_of(*pass.kept_, pass.rows_.size());
}

RowValues Trainer::evaluate(const std::vector<Row>& rows, const backends::AdapterRef& adapter,
                            const backends::PassOptions& options) {
  return values_of(*run(rows, nullptr, adapter, options), rows.size());
}

Trainer::Memory Trainer::memory(const std::vector<std::vector<Row>>& trained,
                                const std::vector<std::vector<Row>>& evaluated, const backends::PassOptions& options) {
  const auto describe = [](const std::vector<std::vector<Row>>& passes) {
    std::vector<std::vector<backends::TrainRow>> list;
    for (const std::vector<Row>& rows : passes) list.push_back(described(rows));
    return list;
  };
  return {backend_.pass_bytes(describe(trained), describe(evaluated), trainable_.get(), options), trainable_->bytes()};
}

std::vector<std::vector<float>> Trainer::read(Part part, size_t first, size_t count) const {
  std::vector<std::vector<float>> values;
  for (size_t i = first; i < first + count; ++i) {
    values.emplace_back(size_t(trainable_->tensors()[i].elements()));
    trainable_->read(int(i), part, values.back());
  }
  return values;
}

void Trainer::hold(HeldState& to) const {
  const auto& tensors = trainable_->tensors();
  int64_t size = 0;
  for (const auto& tensor : tensors) size += tensor.elements();
  for (const Part part : {Part::value, Part::moment1, Part::moment2}) {
    auto& values = to[part];
    values.resize(size_t(size));
    float* place = values.data();
    for (size_t i = 0; i < tensors.size(); place += tensors[i++].elements())
      trainable_->read(int(i), part, {place, size_t(tensors[i].elements())});
  }
}

void Trainer::write(Part part, const std::vector<std::vector<float>>& values, int64_t steps) {
  for (size_t i = 0; i < values.size(); ++i) trainable_->write(int(i), part, values[i]);
  if (part == Part::value) trainable_->refresh();
  if (steps >= 0) trainable_->set_steps(steps);
}

}  // namespace anneal::training
