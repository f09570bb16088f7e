// Turns a row of logits into a token: masks, bias, penalties, temperature, min-p, top-k, top-p, and a draw from a
// counter-based generator.
#pragma once
#include "../../sampling/sampling_state.h"
#include "kernels/kernels.h"

namespace anneal::cpu {

using sampling::RowLogprobs;
using sampling::Sampled;
using sampling::SamplingState;

// Memory of whoever runs samplers, one at a time, over a vocabulary of the given size.
struct SamplerScratch {
  std::vector<float> row, maxima;
  std::vector<double> masses;
  std::vector<int32_t> ids;
  void size(int vocab);
};

// Draws the next token from logits [vocab]. `position` is the index of the output token being drawn: draws depend on
// (seed, choice, position) only. Bit i % 32 of word i / 32 of `mask` permits token i; null: all. The state is not
// changed.
Sampled sample(const Kernels& kernels, const SamplingState& state, const float* logits, int position,
               const uint32_t* mask, SamplerScratch& scratch);
// As if `token` had been drawn: what to report of a row whose token is known beforehand.
Sampled given(const Kernels& kernels, const SamplingState& state, const float* logits, int32_t token,
              SamplerScratch& scratch);
RowLogprobs row_logprobs(const Kernels& kernels, const float* logits, int vocab, int32_t token, int top,
                         SamplerScratch& scratch);

}  // namespace anneal::cpu
