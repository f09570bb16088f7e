#include "slot.h"

#include <algorithm>
#include <new>

namespace anneal::inference {

int32_t Slot::forced() {
  if (!matcher_ && !thinking_) return -1;
  if (!forced_) forced_ = find_forced();
  return *forced_;
}

// Whatever else is asked of the tokens, but for the grammar: thoughts do not end inside a character.
int32_t Slot::end_of_thoughts() {
  if (!thinking_) return -1;
  const int32_t token = thinking_->forced(sampler_.all_outputs());
  if (token < 0 || !matcher_) return token;
  grammar::Matcher ahead(*matcher_);
  return ahead.accept(token) ? token : -1;
}

int32_t Slot::find_forced() {
  try {
    if (const int32_t token = end_of_thoughts(); token >= 0 || !matcher_) return token;
    if (may_stop()) return -1;
    const int32_t token = matcher_->forced();
    return token >= 0 && token < vocab_ && sampler_.permits(token) ? token : -1;
  } catch (const grammar::GrammarError&) {
    return -1;
  }
}

bool Slot::wants_to_think(const float* logits) const {
  const auto likeliest = int32_t(std::max_element(logits, logits + vocab_) - logits);
  return std::binary_search(thought_ids_.begin(), thought_ids_.end(), likeliest);
}

void Slot::prepare() noexcept {
  if (!matcher_ || readiness_ != Readiness::none) return;
  try {
    sole_ = forced();
    if (sole_ < 0) {
      mask_ = matcher_->mask();
      stops_ = may_stop();
    }
    readiness_ = Readiness::ready;
  } catch (const grammar::GrammarError&) {
    // Of this choice only: the others of the step go on.
    readiness_ = Readiness::refused;
  } catch (...) {
    readiness_ = Readiness::failed;
  }
}

Sampled Slot::sample(const Kernels& kernels, const float* logits, int position, SamplerScratch& scratch) {
  if (!matcher_) {
    const int32_t token = forced();
    return token >= 0 ? sampler_.given(kernels, logits, token, scratch) : sampler_.sample(kernels, logits, position, nullptr, scratch);
  }
  prepare();
  if (readiness_ == Readiness::refused) return {-1, 0, {}, {}};
  if (readiness_ == Readiness::failed) {
    readiness_ = Readiness::none;
    throw std::bad_alloc();
  }
  if (sole_ >= 0) return sampler_.given(kernels, logits, sole_, scratch);
  const bool answers = sampler_.outputs() == 0 && !thought_ids_.empty() && !wants_to_think(logits);
  if (!stops_ && !answers) return sampler_.sample(kernels, logits, position, mask_->data(), scratch);
  grammar::Mask own = *mask_;
  if (answers) {
    for (int32_t id : thought_ids_) own[size_t(id) / 32] &= ~(1u << (id % 32));
    // An answer may begin as thoughts do, where these are spelled in several tokens.
    if (std::all_of(own.begin(), own.end(), [](uint32_t word) { return word == 0; })) own = *mask_;
  }
  if (stops_)
    for (int32_t id : stop_ids_) own[size_t(id) / 32] |= 1u << (id % 32);
  return sampler_.sample(kernels, logits, position, own.data(), scratch);
}

void Slot::forget() {
  readiness_ = Readiness::none;
  forced_.reset();
  mask_.reset();
}

bool Slot::take(int32_t token) {
  forced_.reset();
  // What the mask permitted is accepted, unless following it costs too much; then nothing was drawn.
  if (matcher_) {
    try {
      const bool stops = std::binary_search(stop_ids_.begin(), stop_ids_.end(), token);
      if (!matcher_->accept(token) && !(stops && matcher_->end())) return false;
    } catch (const grammar::GrammarError&) {
      return false;
    }
  }
  given.push_back(token);
  sampler_.accept(token);
  return true;
}

void Slot::accept(int32_t token, int most) {
  forget();
  given.clear();
  while (token >= 0 && take(token)) {
    // Looked up now, while what was just touched is at hand; the next step asks for it as well.
    token = forced();
    if (int(given.size()) > most) return;
  }
}

void Slot::rewind(int outputs) {
  const int back = sampler_.outputs() - outputs;
  if (back <= 0) return;
  forget();
  sampler_.rewind(outputs);
  if (matcher_) matcher_->rewind(size_t(back));
}

}  // namespace anneal::inference
