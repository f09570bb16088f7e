// Sampling state of one choice: its sampler, and what its grammar permits. The JavaScript thread numbers the draws as it queues them;
// everything else belongs to the dispatcher.
#pragma once
#include <memory>

#include "../grammar/matcher.h"
#include "../sampling/sampler.h"

namespace anneal {

class Slot {
 public:
  // `matcher` (or null) is the slot's own: whoever gave it has another.
  Slot(SamplingParams params, int vocab, std::unique_ptr<grammar::Matcher> matcher) : sampler_(std::move(params), vocab), matcher_(std::move(matcher)) {}

  // See Sampler::sample. Token -1 as well where the grammar permits nothing, or is too ambiguous to be followed further.
  Sampled sample(const Kernels& kernels, const float* logits, int position, SamplerScratch& scratch);
  void accept(int32_t token);
  // Forgets outputs after the first `outputs`.
  void rewind(int outputs);
  const SamplingParams& params() const { return sampler_.params(); }

  int64_t draws = 0;              // queued so far (JavaScript thread)
  int64_t latest = 0;             // the one that a step without tokens goes on from; 0: none (JavaScript thread)
  int64_t drawn = 0;              // the one that gave `last`: another than asked for means that one was aborted
  int32_t last = -1;              // -1: no token was permitted

 private:
  Sampler sampler_;
  std::unique_ptr<grammar::Matcher> matcher_;      // one step per output, after those it came with
};

}  // namespace anneal
