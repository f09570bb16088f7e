// How long a model may think: once the thoughts of an output are as many tokens as they may be, the tokens that close
// them are forced.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace anneal::sampling {

class ThinkingBudget {
 public:
  // `open`, `close`: the tokens that begin and end thoughts, neither empty. `used`: tokens of thoughts that the prompt
  // ends in; -1: it has none that are open. `several`: thoughts may be opened again, and count together.
  ThinkingBudget(int max_tokens, int used, std::vector<int32_t> open, std::vector<int32_t> close, bool several = false)
      : max_tokens_(max_tokens), used_(used), open_(std::move(open)), close_(std::move(close)), several_(several) {}

  // The token that must follow these outputs; -1: any may. Outputs that were given to the last call are not looked at
  // again.
  int32_t forced(std::span<const int32_t> outputs) {
    for (; seen_ < outputs.size() && !closed_; seen_++) {
      const auto so_far = outputs.first(seen_ + 1);
      if (!thinks()) {
        if (ends_with(so_far, open_)) from_ = so_far.size();
      } else if (so_far.size() >= start() + close_.size() && ends_with(so_far, close_)) {
        closed_ = !several_;
        ended_ += std::max(used_, 0) + int64_t(so_far.size() - close_.size() - start());
        if (several_) {
          used_ = -1;
          from_ = kNone;
        }
      }
    }
    if (closed_ || !thinks()) return -1;
    const auto thoughts = outputs.subspan(start());
    const int64_t beyond = ended_ + std::max(used_, 0) + int64_t(thoughts.size()) - max_tokens_;
    if (beyond < 0) return -1;
    // What has been forced already counts as closing, not as thought.
    for (size_t k = std::min({close_.size() - 1, thoughts.size(), size_t(beyond)}); k > 0; k--)
      if (ends_with(thoughts, std::span(close_).first(k))) return close_[k];
    return close_[0];
  }

 private:
  static constexpr size_t kNone = SIZE_MAX;
  static bool ends_with(std::span<const int32_t> tokens, std::span<const int32_t> end) {
    return tokens.size() >= end.size() && std::equal(end.begin(), end.end(), tokens.end() - end.size());
  }
  bool thinks() const { return used_ >= 0 || from_ != kNone; }
  size_t start() const { return from_ == kNone ? 0 : from_; }

  int max_tokens_, used_;
  std::vector<int32_t> open_, close_;
  bool several_;
  int64_t ended_ = 0;    // tokens of thoughts that have been closed
  size_t seen_ = 0;      // outputs looked at
  size_t from_ = kNone;  // the first output that is a thought, where the outputs opened them
  bool closed_ = false;
};

}  // namespace anneal::sampling
