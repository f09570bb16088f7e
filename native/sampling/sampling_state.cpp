#include "sampling_state.h"

namespace anneal::sampling {

int32_t SamplingParams::set_bias(const std::vector<int32_t>& ids, const std::vector<float>& values) {
  std::vector<std::pair<int32_t, float>> bias;
  for (size_t i = 0; i < ids.size(); ++i) bias.emplace_back(ids[i], std::clamp(values[i], -100.0f, 100.0f));
  std::sort(bias.begin(), bias.end());
  bias_ids.clear(), bias_values.clear();
  for (const auto& [id, value] : bias) {
    if (!bias_ids.empty() && bias_ids.back() == id) return id;
    bias_ids.push_back(id), bias_values.push_back(value);
  }
  return -1;
}

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
  if (penalises()) see(token).count++;
}

void SamplingState::take_back(int count) {
  for (; count > 0; --count) {
    const int32_t token = outputs_.back();
    outputs_.pop_back();
    // What they were the first to bring stands last.
    if (Seen* seen = penalises() ? &see(token) : nullptr; seen && --seen->count == 0 && !seen->in_prompt)
      seen_.pop_back(), seen_at_.erase(token);
  }
}

bool SamplingState::edits_logits() const {
  const SamplingParams& p = params_;
  return p.restrict_allowed || !p.bad_words.empty() || too_few() || !p.bias_ids.empty() || penalises();
}

bool SamplingState::permits(int32_t token) const {
  if (params_.restrict_allowed && !(allowed_[token >> 5] >> (token & 31) & 1)) return false;
  if (too_few() && std::binary_search(params_.end_ids.begin(), params_.end_ids.end(), token)) return false;
  bool permitted = true;
  bad_words([&](int32_t id) { permitted &= id != token; });
  return permitted;
}

}  // namespace anneal::sampling
