#include "text_reach.h"

#include <algorithm>
#include <array>
#include <bit>
#include <unordered_set>

#include "slices.h"
#include "utf8.h"

namespace anneal::grammar {

namespace {

// States that are looked at for one reach; past them it is as long as it was seen to be.
constexpr size_t kMaxVisits = 2048;

// About how many tokens are lost with the groups.
int weight(Groups groups) {
  return std::popcount(groups) + 16 * std::popcount(Groups(groups & (kLower | kUpper | kBeyondAscii))) +
         4 * std::popcount(Groups(groups & (kSpace | kDigit)));
}

void add(std::vector<int32_t>& states, int32_t state) {
  if (std::find(states.begin(), states.end(), state) == states.end()) states.push_back(state);
}

}  // namespace

const TextReach& TextReaches::of(int32_t state) {
  const auto known = known_.find(state);
  if (known != known_.end()) return known->second;
  bytes_ += sizeof(TextReach) + 40;
  return known_.emplace(state, find(state)).first->second;
}

TextReach TextReaches::find(int32_t state) {
  Groups groups = steps(state).live;
  TextReach reach;
  while (groups != 0 && !follow(state, groups, reach)) reach = {};
  return groups == 0 ? TextReach{} : reach;
}

// The reach with these groups. False: some of them go no further than others, and are taken out.
bool TextReaches::follow(int32_t state, Groups& groups, TextReach& reach) {
  reach.groups = groups;
  std::vector<int32_t> before, level{state},
      next;  // where texts of `chars` characters lead, and one less, and one more
  std::unordered_set<int32_t> seen{state};
  bool unclear = false;
  for (reach.chars = 0;; ++reach.chars) {
    Groups missing = 0, lasting = 0;
    bool all_dead = true;
    for (int32_t s : level) {
      const Steps& here = steps(s);
      missing |= groups & ~here.live;
      lasting |= groups & here.live;
      all_dead = all_dead && (here.some & groups) == 0;
      unclear = unclear || (here.unclear & groups) != 0;
    }
    reach.ends = reach.ends || unclear;
    if (missing != 0) {
      // Either those go that may not follow here, or those that lead here, as a backslash does; or this is the end.
      Groups leading = 0;
      for (int32_t s : before)
        for (auto& [to, by] : steps(s).to)
          if (groups & ~steps(to).live) leading |= by & groups;
      const auto kept = Groups(groups & ~(weight(leading) < weight(missing) ? leading : missing));
      if (lasting != 0 && kept != 0) {
        groups = kept;
        return false;
      }
      reach.exact = all_dead && !unclear;
      return true;
    }
    if (reach.chars == Slices::kMaxChars || seen.size() > kMaxVisits) return true;
    next.clear();
    bool fresh = false;
    for (int32_t s : level)
      for (auto& [to, by] : steps(s).to)
        if (by & groups) {
          next.push_back(to);
          if (seen.insert(to).second) fresh = true;
        }
    std::sort(next.begin(), next.end());
    next.erase(std::unique(next.begin(), next.end()), next.end());
    for (int32_t s : next) reach.ends = reach.ends || network_[s].accepts;
    if (!fresh) {
      reach.chars = Slices::kAnyLength;
      return true;
    }
    before.swap(level);
    level.swap(next);
  }
}

const TextReaches::Steps& TextReaches::steps(int32_t state) {
  const auto [it, is_new] = steps_.try_emplace(state);
  Steps& steps = it->second;
  if (!is_new) return steps;
  steps = own_steps(state);
  // What follows an item of an array is not looked at.
  if (network_.item_end(state) >= 0 || network_.opening(state) >= 0) steps.unclear = Groups(~0);
  // Where a rule is called for one character, what follows is known as well.
  for (auto& call : network_.calls(state)) {
    const int32_t start = network_.rule(call.rule).start;
    const Steps inner = own_steps(start);
    Groups clear = network_.calls(start).empty() ? inner.live : Groups(0);
    for (auto& [to, by] : inner.to)
      if (!network_[to].last) clear &= Groups(~by);
    if (clear != 0) steps.lead(call.to, clear);
    steps.live |= clear, steps.some |= inner.some;
    steps.unclear |= Groups(network_.calls(start).empty() ? inner.some & ~clear : ~0);
  }
  bytes_ += sizeof(Steps) + 40 + steps.to.capacity() * sizeof(steps.to[0]);
  return steps;
}

void TextReaches::Steps::lead(int32_t state, Groups by) {
  auto known = std::ranges::find(to, state, &std::pair<int32_t, Groups>::first);
  if (known == to.end()) known = to.insert(known, {state, 0});
  known->second |= by;
}

TextReaches::Steps TextReaches::own_steps(int32_t state) const {
  Steps steps;
  std::array<int32_t, 128> to;
  to.fill(-1);
  for (auto& edge : network_.edges(state))
    for (int byte = edge.lo; byte <= std::min<int>(edge.hi, 127); ++byte) to[size_t(byte)] = edge.to;
  Groups dead = 0;
  for (int byte = 0; byte < 128; ++byte) (to[size_t(byte)] < 0 ? dead : steps.some) |= group_of(uint8_t(byte));
  steps.live = steps.some & Groups(~dead);
  for (int byte = 0; byte < 128; ++byte)
    if (const Groups group = group_of(uint8_t(byte)) & steps.live) steps.lead(to[size_t(byte)], group);
  add_beyond_ascii(state, steps);
  return steps;
}

void TextReaches::add_beyond_ascii(int32_t state, Steps& steps) const {
  static const auto kSequences = [] {
    std::vector<Utf8Sequence> sequences;
    utf8_sequences(0x80, 0xD7FF, sequences);
    utf8_sequences(0xE000, 0x10FFFF, sequences);
    return sequences;
  }();
  const auto edges = network_.edges(state);
  if (edges.empty() || edges.back().hi < 0x80) return;
  steps.some |= kBeyondAscii;
  std::vector<int32_t> targets, now, next;
  for (auto& sequence : kSequences) {
    now.assign(1, state);
    for (int i = 0; i < sequence.length; ++i) {
      const auto [lo, hi] = sequence.bytes[size_t(i)];
      next.clear();
      for (int32_t s : now) {
        int at = lo;
        for (auto& edge : network_.edges(s)) {
          if (edge.hi < at) continue;
          if (edge.lo > at || at > hi) break;
          add(next, edge.to);
          at = int(edge.hi) + 1;
        }
        if (at <= hi) return;
      }
      now.swap(next);
    }
    for (int32_t target : now) add(targets, target);
  }
  steps.live |= kBeyondAscii;
  for (int32_t target : targets) steps.lead(target, kBeyondAscii);
}

}  // namespace anneal::grammar
