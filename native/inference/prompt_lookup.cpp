#include "prompt_lookup.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace anneal::inference {

namespace {

constexpr int kCandidates = 8;  // earlier places looked at, the latest first
constexpr int kLongMatch = 32;  // beyond which matches are not told apart
constexpr double kMemory = 32;  // guesses after which a record has mostly forgotten
constexpr double kLearning = 0.1;

constexpr size_t kLeastEntries = 256;

// Of so many bits; the tokens themselves are compared wherever it is used.
size_t hash_of(const int32_t* tokens, int bits) {
  uint64_t hash = 0;
  for (int i = 0; i < PromptLookup::kMinMatch; ++i) hash = (hash ^ uint32_t(tokens[i])) * 0x9e3779b97f4a7c15;
  return size_t(hash >> (64 - bits));
}

}  // namespace

size_t PromptLookup::record_of(int match) {
  return match < kMinMatch ? 0 : match < 4 ? 1 : match < 6 ? 2 : match < 10 ? 3 : 4;
}

void PromptLookup::index() {
  if (latest_.size() < 2 * tokens_.size()) {
    latest_.assign(std::max(kLeastEntries, std::bit_ceil(4 * tokens_.size())), -1);
    before_.clear();
  }
  const int bits = std::countr_zero(latest_.size());
  while (before_.size() < tokens_.size()) {
    const auto at = int32_t(before_.size());
    if (at + 1 < kMinMatch) {
      before_.push_back(-1);
      continue;
    }
    int32_t& latest = latest_[hash_of(&tokens_[size_t(at + 1 - kMinMatch)], bits)];
    before_.push_back(std::exchange(latest, at));
  }
}

int PromptLookup::match_before(int32_t place) const {
  const int32_t last = int32_t(tokens_.size()) - 1, before = place - 1;
  int match = 0;
  while (match < kLongMatch && match <= before && tokens_[size_t(before - match)] == tokens_[size_t(last - match)])
    ++match;
  return match;
}

std::span<const int32_t> PromptLookup::draft() {
  index();
  draft_.clear();
  const auto count = int32_t(tokens_.size());
  if (place_ >= count) place_ = -1;
  match_ = place_ < 0 ? 0 : match_before(place_);
  int32_t at = count > 0 ? before_.back() : -1;
  for (int i = 0; at >= 0 && i < kCandidates; ++i, at = before_[size_t(at)])
    if (const int match = match_before(at + 1); match >= kMinMatch && match > match_) match_ = match, place_ = at + 1;
  if (place_ < 0) return draft_;
  // Where the guess runs into the end of what is known, it goes on repeating itself.
  for (int32_t i = place_; int(draft_.size()) < kMaxDraft; ++i)
    draft_.push_back(i < count ? tokens_[size_t(i)] : draft_[size_t(i - count)]);
  return draft_;
}

int PromptLookup::worthwhile(int most, double row_cost, int others) const {
  double tokens = 1, held = 1, best = 1 + others;
  int worth = 0;
  for (int n = 1; n <= std::min(most, int(draft_.size())); ++n) {
    const Record& record = records_[record_of(match_ + n - 1)];
    tokens += held *= record.held / record.tried;
    if (const double pace = (tokens + others) / (1 + row_cost * n); pace > best) best = pace, worth = n;
  }
  return worth;
}

void PromptLookup::append(std::span<const int32_t> tokens) {
  for (size_t i = 0; i < std::min(tokens.size(), draft_.size()); ++i) {
    Record& record = records_[record_of(match_ + int(i))];
    record.held *= 1 - 1 / kMemory, record.tried *= 1 - 1 / kMemory;
    record.tried += 1;
    if (tokens[i] != draft_[i]) break;
    record.held += 1;
  }
  draft_.clear();
  if (place_ >= 0) place_ += int32_t(tokens.size());
  tokens_.insert(tokens_.end(), tokens.begin(), tokens.end());
}

void RowCost::observe(int rows, int drafted, double seconds) {
  if (drafted == 0) {
    base_ = rows == base_rows_ ? base_ + kLearning * (seconds - base_) : seconds;
    base_rows_ = rows;
    // What was measured long ago may not hold any more.
    share_ += (kAssumed - share_) / 64;
  } else if (rows == base_rows_) {
    const double share = std::clamp((seconds / base_ - 1) / drafted, 0.01, 2.0);
    share_ += kLearning * (share - share_);
  }
}

}  // namespace anneal::inference
