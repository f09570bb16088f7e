#include "trainer.h"

#include "../executor/pool.h"

namespace anneal::training {

using executor::Aborted;

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

}  // namespace

void Pass::check(const RowGradients& gradients) const {
  const auto check_list = [&](const std::vector<std::vector<float>>& list, const char* field) {
    for (size_t i = 0; i < list.size(); ++i) {
      if (list[i].size() != rows_[i].tokens.size())
        throw InvalidGradient{field, i, -1, "must be as long as the row's logprobs"};
      // What was not asked for has no activations; the last entry of a row predicts nothing.
      for (size_t t = 0; t < list[i].size(); ++t)
        if (list[i][t] != 0 && !rows_[i].trained[t])
          throw InvalidGradient{field, i, int64_t(t), "must be 0: this entry is not trained"};
    }
  };
  check_list(gradients.logprobs, "dLogprobs");
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
  std::vector<backends::TrainRow> described;
  for (const Row& row : rows)
    described.push_back({row.tokens, row.trained, row.temperatures, row.prefix, row.prefix_length});
  auto pass = backend_.forward(described, trainable, adapter, options);
  if (!pass) throw Aborted();
  return pass;
}

RowValues Trainer::forward(Pass& pass) {
  pass.kept_ = run(pass.rows_, trainable_.get(), nullptr, pass.options_);
  return values_of(*pass.kept_, pass.rows_.size());
}

RowValues Trainer::evaluate(const std::vector<Row>& rows, const backends::AdapterRef& adapter) {
  return values_of(*run(rows, nullptr, adapter, {}), rows.size());
}

}  // namespace anneal::training
