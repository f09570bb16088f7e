#include "sampling_state.h"

namespace anneal::sampling {

SamplingState::SamplingState(SamplingParams params, int vocab) : vocab_(vocab) {
  if (params.repetition_penalty != 1)
    for (int32_t id : params.prompt)
      if (id >= 0 && id < vocab) see(id).in_prompt = true;
  if (params.restrict_allowed) {
    allowed_.resize((vocab + 31) / 32);
    for (int32_t id : params.allowed_ids) allowed_[id >> 5] |= 1u << (id & 31);
  }
  params.allowed_ids = {};
  params.prompt = {};
  params_ = std::move(params);
}

SamplingState::Seen& SamplingState::see(int32_t id) {
  const auto [at, fresh] = seen_at_.try_emplace(id, int(seen_.size()));
  if (fresh) seen_.push_back({id, false, 0});
  return seen_[at->second];
}

void SamplingState::accept(int32_t token) {
  outputs_.push_back(token);
  see(token).count++;
}

bool SamplingState::edits_logits() const {
  const SamplingParams& p = params_;
  return p.restrict_allowed || !p.bad_words.empty() || too_few() || !p.bias_ids.empty() || p.repetition_penalty != 1 ||
         p.frequency_penalty != 0 || p.presence_penalty != 0;
}

bool SamplingState::permits(int32_t token) const {
  if (params_.restrict_allowed && !(allowed_[token >> 5] >> (token & 31) & 1)) return false;
  if (too_few() && std::binary_search(params_.end_ids.begin(), params_.end_ids.end(), token)) return false;
  bool permitted = true;
  bad_words([&](int32_t id) { permitted &= id != token; });
  return permitted;
}

}  // namespace anneal::sampling
