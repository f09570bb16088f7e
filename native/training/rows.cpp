#include "rows.h"

#include "../model/invalid_input.h"

namespace anneal::training {

using model::InvalidInput;

namespace {

constexpr int64_t kMaxPassTokens = int64_t(1) << 24;
// Logits divided by these stay far from the limits of float32.
constexpr float kMinTemperature = 1e-6f, kMaxTemperature = 1e6f;

void check_row(size_t i, Row& row, const std::vector<Row>& rows, const model::ModelSpec& m) {
  const size_t count = row.tokens.size();
  if (count == 0) throw InvalidInput{i, "tokens", -1, "must not be empty"};
  for (size_t t = 0; t < count; ++t)
    if (row.tokens[t] < 0 || row.tokens[t] >= m.vocab)
      throw InvalidInput{i, "tokens", int64_t(t),
                         "is " + std::to_string(row.tokens[t]) + "; token ids are 0 to " + std::to_string(m.vocab - 1)};
  if (row.trained.empty()) row.trained.assign(count, 1);
  if (row.trained.size() != count) throw InvalidInput{i, "trained", -1, "must be as long as tokens"};
  row.trained.back() = 0;
  if (!row.temperatures.empty() && row.temperatures.size() != count)
    throw InvalidInput{i, "temperatures", -1, "must be as long as tokens"};
  for (size_t t = 0; t < row.temperatures.size(); ++t)
    if (!(row.temperatures[t] >= kMinTemperature && row.temperatures[t] <= kMaxTemperature))
      throw InvalidInput{i, "temperatures", int64_t(t), "must be between 1e-6 and 1e6"};
  if (row.prefix >= 0) {
    if (size_t(row.prefix) >= i) throw InvalidInput{i, "prefix", -1, "must be the index of an earlier row"};
    const Row& shared = rows[size_t(row.prefix)];
    if (shared.prefix >= 0) throw InvalidInput{i, "prefix", -1, "must be a row without a prefix of its own"};
    if (row.prefix_length < 1 || size_t(row.prefix_length) > shared.tokens.size())
      throw InvalidInput{i, "prefixLength", -1,
                         "must be a whole number from 1 to " + std::to_string(shared.tokens.size())};
  }
  if (row.prefix_length + int64_t(count) > m.max_positions)
    throw InvalidInput{i, "tokens", -1, "reach past the model's " + std::to_string(m.max_positions) + " positions"};
}

}  // namespace

void check(std::vector<Row>& rows, const model::ModelSpec& m) {
  int64_t tokens = 0;
  for (size_t i = 0; i < rows.size(); ++i) {
    check_row(i, rows[i], rows, m);
    tokens += int64_t(rows[i].tokens.size());
    if (tokens > kMaxPassTokens)
      throw InvalidInput{i, "tokens", -1,
                         "are more than " + std::to_string(kMaxPassTokens) + " in this pass: use several passes"};
  }
}

}  // namespace anneal::training
