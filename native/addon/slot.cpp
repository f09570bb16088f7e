#include "slot.h"

#include <algorithm>

namespace anneal {

int32_t Slot::forced() {
  if (!matcher_) return -1;
  try {
    if (may_stop()) return -1;
    const int32_t token = matcher_->forced();
    return token >= 0 && token < vocab_ && sampler_.permits(token) ? token : -1;
  } catch (const grammar::GrammarError&) {
    return -1;
  }
}

Sampled Slot::sample(const Kernels& kernels, const float* logits, int position, SamplerScratch& scratch) {
  if (!matcher_) return sampler_.sample(kernels, logits, position, nullptr, scratch);
  if (const int32_t token = forced(); token >= 0) return sampler_.given(kernels, logits, token, scratch);
  try {
    const auto mask = matcher_->mask();
    if (!may_stop()) return sampler_.sample(kernels, logits, position, mask->data(), scratch);
    grammar::Mask wider = *mask;
    for (int32_t id : stop_ids_) wider[size_t(id) / 32] |= 1u << (id % 32);
    return sampler_.sample(kernels, logits, position, wider.data(), scratch);
  } catch (const grammar::GrammarError&) {
    // Of this choice only: the others of the step go on.
    return {-1, 0, {}, {}};
  }
}

bool Slot::take(int32_t token) {
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
  given.clear();
  for (; token >= 0 && take(token) && int(given.size()) <= most; token = forced());
}

void Slot::rewind(int outputs) {
  const int back = sampler_.outputs() - outputs;
  if (back <= 0) return;
  sampler_.rewind(outputs);
  if (matcher_) matcher_->rewind(size_t(back));
}

}  // namespace anneal
