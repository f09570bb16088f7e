// Turns a row of logits into a token: masks, bias, penalties, temperature, min-p, top-k, top-p, and a draw from a
// counter-based generator. One Sampler holds the state of one choice of one request.
//
// Order (greedy stops after the penalties): grammar mask, allowed ids, bad words, min_tokens, logit bias, penalties
// (repetition, frequency, presence), temperature, min-p, top-k, top-p, draw. Ties go to the lowest id.
#pragma once
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "../backends/cpu/kernels/kernels.h"

namespace anneal::sampling {

using cpu::Kernels;

struct SamplingParams {
  float temperature = 1;              // 0: greedy
  float top_p = 1;
  int top_k = 0;                      // 0: off
  float min_p = 0;
  float repetition_penalty = 1, frequency_penalty = 0, presence_penalty = 0;
  uint64_t seed = 0;
  uint32_t choice = 0;                // index of the choice: its own stream of draws
  int min_tokens = 0;                 // until then `end_ids` are masked
  std::vector<int32_t> end_ids;       // sorted
  std::vector<int32_t> bias_ids;      // sorted, unique
  std::vector<float> bias_values;     // clamped to [-100, 100]
  std::vector<int32_t> allowed_ids;   // sorted, unique; empty with `restrict_allowed` false: no restriction
  bool restrict_allowed = false;
  std::vector<std::vector<int32_t>> bad_words;
  std::vector<int32_t> prompt;        // for the repetition penalty
  int top_logprobs = -1;              // how many of the most likely tokens to report; -1: none
  std::vector<int32_t> logprob_ids;   // report the token drawn and these instead
};

struct Sampled {
  int32_t token;                      // -1: no token is permitted
  float logprob;                      // raw log softmax of the model's logits, before everything above
  std::vector<int32_t> top_ids;       // falling probability, ties by lower id; or as logprob_ids say
  std::vector<float> top_logprobs;
  // Log softmax of the model's logits divided by the temperature, for training at it; NaN where nothing is reported, or the temperature
  // is 0 or 1.
  float temperature_logprob = std::numeric_limits<float>::quiet_NaN();
};

// Memory of whoever runs samplers, one at a time, over a vocabulary of the given size.
struct SamplerScratch {
  std::vector<float> row, maxima;
  std::vector<double> masses;
  std::vector<int32_t> ids;
  void size(int vocab);
};

class Sampler {
 public:
  Sampler(SamplingParams params, int vocab);
  ~Sampler();
  // Draws the next token from logits [vocab]. `position` is the index of the output token being drawn: draws depend on
  // (seed, choice, position) only. `grammar_mask` bit i of word i / 32 permits token i; null: no grammar.
  // The drawn token is not recorded: call accept().
  Sampled sample(const Kernels& kernels, const float* logits, int position, const uint32_t* grammar_mask, SamplerScratch& scratch);
  // As if `token` had been drawn: what to report of a row whose token is known beforehand.
  Sampled given(const Kernels& kernels, const float* logits, int32_t token, SamplerScratch& scratch) const;
  // Whether allowed ids, bad words and min_tokens leave the next token to be `token`.
  bool permits(int32_t token) const;
  void accept(int32_t token);         // appends to the output history
  void rewind(int outputs);           // forgets outputs after the first `outputs`
  int outputs() const;
  std::span<const int32_t> all_outputs() const;
  const SamplingParams& params() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

// Raw log probabilities of a prompt token and the k most likely tokens of its row.
struct RowLogprobs {
  float logprob;
  int32_t rank;                       // tokens with logprob >= this one's; 1 is the best
  std::vector<int32_t> top_ids;
  std::vector<float> top_logprobs;
};
RowLogprobs row_logprobs(const Kernels& kernels, const float* logits, int vocab, int32_t token, int top, SamplerScratch& scratch);

}  // namespace anneal::sampling
