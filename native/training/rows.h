// Rows of a training pass as callers give them, what a pass says of them, and the gradients that come back.
#pragma once
#include <cstdint>
#include <vector>

#include "../backends/backend.h"

namespace anneal::training {

struct Row {
  std::vector<int32_t> tokens;         // [count]
  std::vector<uint8_t> trained;        // [count]; empty: every token but the last predicts one
  std::vector<float> temperatures;     // [count], or empty: 1
  int prefix = -1, prefix_length = 0;  // continues so many tokens of an earlier row
};

// Throws model::InvalidInput. Fills in `trained`.
void check(std::vector<Row>&, const model::ModelSpec&);

// Per row, [count]: entry t is about token t + 1.
struct RowValues {
  std::vector<std::vector<float>> logprobs, entropies;
};

// Gradients that a pass cannot take: the row and its entry, each -1 where that is not one but the whole.
struct InvalidGradient {
  const char* field;
  int64_t row, entry;
  std::string problem;
};

// dL by logprob and entropy of every entry; no entropies at all: zeros.
struct RowGradients {
  std::vector<std::vector<float>> logprobs, entropies;
};

}  // namespace anneal::training
