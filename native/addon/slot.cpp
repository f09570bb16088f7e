#include "slot.h"

namespace anneal {

Sampled Slot::sample(const Kernels& kernels, const float* logits, int position, SamplerScratch& scratch) {
  if (!matcher_) return sampler_.sample(kernels, logits, position, nullptr, scratch);
  std::shared_ptr<const grammar::Mask> mask;
  try {
    mask = matcher_->mask();
  } catch (const grammar::GrammarError&) {
    // Of this choice only: the others of the step go on.
    return {-1, 0, {}, {}};
  }
  return sampler_.sample(kernels, logits, position, mask->data(), scratch);
}

void Slot::accept(int32_t token) {
  // What the mask permitted is accepted, unless following it costs too much; then nothing was drawn.
  if (matcher_) {
    try {
      if (!matcher_->accept(token)) token = -1;
    } catch (const grammar::GrammarError&) {
      token = -1;
    }
  }
  last = token;
  if (token >= 0) sampler_.accept(token);
}

void Slot::rewind(int outputs) {
  const int back = sampler_.outputs() - outputs;
  if (back <= 0) return;
  sampler_.rewind(outputs);
  if (matcher_) matcher_->rewind(size_t(back));
}

}  // namespace anneal
