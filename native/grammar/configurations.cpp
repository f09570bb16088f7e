#include "configurations.h"

#include <algorithm>

namespace anneal::grammar {

namespace {

constexpr size_t kMostBytes = size_t(1) << 30;
constexpr uint64_t kRowWork = 64;  // steps that a row takes, and a set of items besides the items
constexpr uint64_t kSetWork = 8;
constexpr uint32_t kNowhere = 0;  // the frame below the two outermost ones; nothing returns to it

}  // namespace

Configurations::Configurations(const Network& network) : network_(network) {
  frames_.intern({});
  const uint64_t done = pack(Network::kDone, kNowhere), exit = pack(Network::kExit, kNowhere);
  outside_ = frames_.intern({&done, 1});
  unknown_ = frames_.intern({&exit, 1});
  put(pack(network.rule(network.start_rule()).start, outside_));
  start_ = close();
}

uint32_t Configurations::alone(int32_t state, std::span<const int32_t> returns) {
  uint32_t frame = unknown_;
  if (!returns.empty()) {
    std::vector<uint64_t> entries;
    for (int32_t to : returns) entries.push_back(pack(to, unknown_));
    frame = frames_.intern(entries);
  }
  // Not closed: that it may end its rule at once is not its own text.
  return one(state, frame);
}

uint32_t Configurations::one(int32_t state, uint32_t frame) {
  const uint64_t item = pack(state, frame);
  return number({&item, 1});
}

uint32_t Configurations::number(std::span<const uint64_t> items) {
  const uint32_t result = configurations_.intern(items);
  if (rows_.size() < configurations_.size()) {
    uint8_t ends = 0;
    for (uint64_t item : items)
      if (state_of(item) <= Network::kExit) ends |= uint8_t(1 << state_of(item));
    if (network_.has_marks())
      for (uint64_t item : items) {
        if (network_.item_end(state_of(item)) >= 0) ends |= kItemEnded;
        if (network_.opening(state_of(item)) >= 0) ends |= kOpened;
      }
    ends_.push_back(ends);
    rows_.emplace_back();
  }
  return result;
}

// ---- making a configuration

void Configurations::put(uint64_t item) {
  // Small sets are searched, large ones sorted when they are closed; in between an item may stand there twice.
  if (set_.size() < 32 && std::find(set_.begin(), set_.end(), item) != set_.end()) return;
  set_.push_back(item);
}

// Follows ended rules to where they return, and marks, and numbers the set.
uint32_t Configurations::close(bool is_duplicate) {
  size_t at = 0, sorted = 64;
  for (; at < set_.size(); ++at) {
    const int32_t state = state_of(set_[at]);
    if (state <= Network::kExit) continue;
    if (network_.has_marks()) {
      const uint32_t frame = frame_of(set_[at]);
      if (const int32_t to = network_.opening(state); to >= 0) put(pack(to, frame));
      if (const int32_t to = network_.item_end(state); to >= 0 && !is_duplicate) put(pack(to, frame));
    }
    if (!network_[state].accepts) {
      if (!network_.has_marks()) continue;
    } else {
      for (uint64_t entry : frames_.at(frame_of(set_[at]))) put(entry);
    }
    if (set_.size() > sorted) {
      // Duplicates among those not yet followed would be followed twice.
      std::sort(set_.begin(), set_.begin() + std::ptrdiff_t(at) + 1);
      std::vector<uint64_t> rest(set_.begin() + std::ptrdiff_t(at) + 1, set_.end()), fresh;
      std::sort(rest.begin(), rest.end());
      rest.erase(std::unique(rest.begin(), rest.end()), rest.end());
      std::set_difference(rest.begin(), rest.end(), set_.begin(), set_.begin() + std::ptrdiff_t(at) + 1,
                          std::back_inserter(fresh));
      set_.resize(at + 1);
      set_.insert(set_.end(), fresh.begin(), fresh.end());
      sorted = set_.size() * 2;
    }
  }
  std::erase_if(set_, [&](uint64_t item) { return state_of(item) > Network::kExit && network_[state_of(item)].last; });
  std::sort(set_.begin(), set_.end());
  work_ += kSetWork + 2 * set_.size();
  set_.erase(std::unique(set_.begin(), set_.end()), set_.end());
  const uint32_t result = number(set_);
  set_.clear();
  return result;
}

// active_: the items and, for the rules they call, their start states with new frames. Rules are taken in an order in
// which all callers at this place are known before the rule is; what returns from a new frame without reading is in the
// callers' automata already.
void Configurations::expand(uint32_t configuration) {
  constexpr auto kLeastFirst = [](const Call& a, const Call& b) { return b < a; };
  set_.clear();
  const auto items = configurations_.at(configuration);
  active_.assign(items.begin(), items.end());
  calls_.clear();
  const auto call = [&](uint64_t item) {
    for (auto& edge : network_.calls(state_of(item))) {
      const int32_t order = network_.rule(edge.rule).order;
      const auto want = [&](uint64_t entry) {
        calls_.push_back({order, entry});
        std::push_heap(calls_.begin(), calls_.end(), kLeastFirst);
      };
      // A call at the very end of a rule returns where the rule does: right recursion does not deepen the stack.
      if (network_[edge.to].last) {
        for (uint64_t entry : frames_.at(frame_of(item))) want(entry);
      } else {
        want(pack(edge.to, frame_of(item)));
      }
    }
  };
  for (uint64_t item : items) call(item);
  while (!calls_.empty()) {
    const int32_t order = calls_.front().order;
    while (!calls_.empty() && calls_.front().order == order) {
      if (set_.empty() || set_.back() != calls_.front().entry) set_.push_back(calls_.front().entry);
      std::pop_heap(calls_.begin(), calls_.end(), kLeastFirst);
      calls_.pop_back();
    }
    const uint64_t item = pack(network_.rule(network_.rule_at(order)).start, frames_.intern(set_));
    set_.clear();
    active_.push_back(item);
    call(item);
  }
}

void Configurations::fill(uint32_t configuration) {
  if (memory() > kMostBytes)
    throw GrammarError(
        "grammar_too_complex",
        "the output can be read by the grammar in too many ways to follow all of them: make the grammar less ambiguous",
        "grammar");
  expand(configuration);
  steps_.clear();
  bool cut[257] = {};
  for (uint64_t item : active_)
    for (auto& edge : network_.edges(state_of(item))) {
      steps_.push_back({edge.lo, edge.hi, pack(edge.to, frame_of(item))});
      cut[edge.lo] = cut[int(edge.hi) + 1] = true;
    }
  work_ += kRowWork + 2 * active_.size() + 2 * steps_.size();
  std::sort(steps_.begin(), steps_.end(), [](auto& a, auto& b) { return a.lo < b.lo; });
  auto row = std::make_unique<Row>();
  row->fill(kDead);
  std::vector<Step> live;
  size_t next = 0;
  for (int lo = 0; lo < 256;) {
    int hi = lo;
    while (hi < 255 && !cut[hi + 1]) ++hi;
    std::erase_if(live, [&](auto& s) { return s.hi < lo; });
    for (; next < steps_.size() && steps_[next].lo <= lo; ++next) live.push_back(steps_[next]);
    if (!live.empty()) {
      for (auto& s : live) put(s.to);
      std::fill(row->begin() + lo, row->begin() + hi + 1, close());
    }
    lo = hi + 1;
  }
  rows_[configuration] = std::move(row);
  ++filled_;
}

uint32_t Configurations::after_duplicate(uint32_t configuration, uint8_t byte) {
  const auto [known, is_new] = after_duplicates_.try_emplace(uint64_t(configuration) << 8 | byte, kDead);
  if (!is_new) return known->second;
  expand(configuration);
  set_.clear();
  for (uint64_t item : active_)
    for (auto& edge : network_.edges(state_of(item)))
      if (edge.lo <= byte && byte <= edge.hi) put(pack(edge.to, frame_of(item)));
  const uint32_t to = close(true);
  // What merely waits for its item to be another one leads nowhere.
  const auto leads_on = [&](uint64_t item) {
    const int32_t state = state_of(item);
    if (state <= Network::kExit) return true;
    return !network_.edges(state).empty() || !network_.calls(state).empty() || !network_.tokens(state).empty();
  };
  const auto items = configurations_.at(to);
  return known->second = std::any_of(items.begin(), items.end(), leads_on) ? to : kDead;
}

// ---- tokens

uint32_t Configurations::after_token(uint32_t configuration, int32_t token) {
  if (!network_.has_tokens()) return kDead;
  expand(configuration);
  bool any = false;
  for (uint64_t item : active_)
    for (auto& edge : network_.tokens(state_of(item)))
      if (edge.token == token) put(pack(edge.to, frame_of(item))), any = true;
  return any ? close() : kDead;
}

std::vector<int32_t> Configurations::tokens(uint32_t configuration) {
  std::vector<int32_t> result;
  if (!network_.has_tokens()) return result;
  expand(configuration);
  for (uint64_t item : active_)
    for (auto& edge : network_.tokens(state_of(item))) result.push_back(edge.token);
  std::sort(result.begin(), result.end());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

// ---- frames

std::vector<Configurations::Item> Configurations::items(uint32_t configuration) const {
  std::vector<Item> result;
  for (uint64_t item : configurations_.at(configuration)) result.push_back({state_of(item), frame_of(item)});
  return result;
}

uint32_t Configurations::returned(uint32_t frame) {
  set_.clear();
  for (uint64_t entry : frames_.at(frame)) put(entry);
  return close();
}

uint32_t Configurations::called(int32_t to, uint32_t frame) {
  if (network_[to].last) return frame;
  const uint64_t entry = pack(to, frame);
  return frames_.intern({&entry, 1});
}

std::optional<Configurations::Caller> Configurations::caller(uint32_t frame) const {
  const auto entries = frames_.at(frame);
  if (entries.empty()) return std::nullopt;
  Caller result{{}, frame_of(entries.front())};
  for (uint64_t entry : entries) {
    if (state_of(entry) <= Network::kExit || frame_of(entry) != result.frame) return std::nullopt;
    result.returns.push_back(state_of(entry));
  }
  return result;
}

uint32_t Configurations::united(uint32_t a, uint32_t b) {
  const auto more = configurations_.at(b);
  set_.assign(configurations_.at(a).begin(), configurations_.at(a).end());
  set_.insert(set_.end(), more.begin(), more.end());
  return close();
}

void Configurations::adopt(const Configurations& from, std::span<uint32_t> configurations) {
  std::vector<uint32_t> known(from.frames_.size(), kDead);
  for (uint32_t& configuration : configurations) {
    const auto items = from.configurations_.at(configuration);
    set_.clear();
    for (uint64_t item : items) set_.push_back(pack(state_of(item), copy_frame(from, frame_of(item), known)));
    std::sort(set_.begin(), set_.end());
    configuration = number(set_);
    set_.clear();
  }
}

// Frames are numbered after those below them, which may be many: not by recursion.
uint32_t Configurations::copy_frame(const Configurations& from, uint32_t frame, std::vector<uint32_t>& known) {
  std::vector<uint32_t> work{frame};
  while (!work.empty()) {
    const uint32_t f = work.back();
    if (known[f] != kDead) {
      work.pop_back();
      continue;
    }
    std::vector<uint64_t> entries;
    bool ready = true;
    for (uint64_t entry : from.frames_.at(f)) {
      const uint32_t below = known[frame_of(entry)];
      if (below == kDead)
        work.push_back(frame_of(entry)), ready = false;
      else
        entries.push_back(pack(state_of(entry), below));
    }
    if (!ready) continue;
    std::sort(entries.begin(), entries.end());
    known[f] = frames_.intern(entries);
    work.pop_back();
  }
  return known[frame];
}

}  // namespace anneal::grammar
