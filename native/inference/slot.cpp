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
  const int32_t token = thinking_->forced(state_.outputs());
  if (token < 0 || !matcher_) return token;
  grammar::Matcher ahead(*matcher_);
  return ahead.accept(token) ? token : -1;
}

int32_t Slot::find_forced() {
  try {
    if (const int32_t token = end_of_thoughts(); token >= 0 || !matcher_) return token;
    if (may_stop()) return -1;
    const int32_t token = matcher_->forced();
    return token >= 0 && token < vocab_ && state_.permits(token) ? token : -1;
  } catch (const grammar::GrammarError&) {
    return -1;
  }
}

bool Slot::prepare(grammar::Turn& turn) noexcept {
  if (is_prepared()) return true;
  try {
    sole_ = forced();
    if (sole_ < 0) {
      mask_ = matcher_->mask(turn);
      if (!mask_) return false;
      stops_ = may_stop();
    }
    readiness_ = Readiness::ready;
  } catch (const grammar::GrammarError&) {
    // Of this choice only: the others of the step go on.
    readiness_ = Readiness::refused;
  } catch (...) {
    readiness_ = Readiness::failed;
  }
  return true;
}

bool Slot::ask(int output, backends::RowRequest& request) {
  if (matcher_) {
    grammar::Turn whole(grammar::Turn::kWhole);
    prepare(whole);
    if (readiness_ == Readiness::refused) return false;
    if (readiness_ == Readiness::failed) {
      readiness_ = Readiness::none;
      throw std::bad_alloc();
    }
  }
  request.draw = &state_;
  request.output = output;
  request.given = matcher_ ? sole_ : forced();
  if (!matcher_ || sole_ >= 0) return true;
  const auto with_stops = [&](grammar::Mask& mask) {
    if (stops_)
      for (int32_t id : stop_ids_) mask[size_t(id) / 32] |= 1u << (id % 32);
  };
  request.mask = mask_->data();
  if (stops_) {
    own_mask_ = *mask_;
    with_stops(own_mask_);
    request.mask = own_mask_.data();
  }
  if (!state_.outputs().empty() || thought_ids_.empty()) return true;
  answer_mask_ = *mask_;
  for (int32_t id : thought_ids_) answer_mask_[size_t(id) / 32] &= ~(1u << (id % 32));
  // An answer may begin as thoughts do, where these are spelled in several tokens.
  if (std::all_of(answer_mask_.begin(), answer_mask_.end(), [](uint32_t word) { return word == 0; }))
    answer_mask_ = *mask_;
  with_stops(answer_mask_);
  request.likeliest = thought_ids_;
  request.other_mask = answer_mask_.data();
  return true;
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
  state_.accept(token);
  return true;
}

void Slot::look_up(std::vector<int32_t> prompt) {
  prompt.insert(prompt.end(), state_.outputs().begin(), state_.outputs().end());
  lookup_.emplace(std::move(prompt));
}

std::span<const int32_t> Slot::draft(int most, double row_cost, int others) {
  if (!lookup_ || most <= 0) return {};
  const auto draft = lookup_->draft();
  return draft.first(size_t(lookup_->worthwhile(most, row_cost, others)));
}

bool Slot::keep(int32_t token, grammar::Turn& turn) {
  try {
    if (matcher_ && !matcher_->accept(token)) return false;
  } catch (const grammar::GrammarError&) {
    return false;
  }
  if (kept_.empty()) thinking_before_ = thinking_;
  forget();
  state_.accept(token);
  kept_.push_back(token);
  if (!matcher_ || (!matcher_->finished() && prepare(turn) && readiness_ == Readiness::ready)) return true;
  take_back(1);
  return false;
}

void Slot::take_back() { take_back(kept_.size()); }

void Slot::take_back(size_t count) {
  if (count == 0) return;
  forget();
  state_.take_back(int(count));
  if (matcher_) matcher_->rewind(count);
  // What it had been told of the others it is told again.
  thinking_ = thinking_before_;
  kept_.resize(kept_.size() - count);
}

void Slot::accept(int32_t token, int max_forced) {
  forget();
  given.clear();
  kept = int(kept_.size());
  while (token >= 0 && take(token)) {
    // Looked up now, while what was just touched is at hand; the next step asks for it as well.
    token = forced();
    if (int(given.size()) > max_forced) break;
  }
  if (lookup_) {
    kept_.insert(kept_.end(), given.begin(), given.end());
    lookup_->append(kept_);
  }
  kept_.clear();
}

}  // namespace anneal::inference
