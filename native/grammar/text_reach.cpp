#include "text_reach.h"

#include <algorithm>
#include <array>
#include <bit>
#include <span>
#include <unordered_set>
#include <utility>

#include "utf8.h"

namespace anneal::grammar {

namespace {

// States that are looked at for one reach; past them it is as long as it was seen to be.
constexpr size_t kMaxVisits = 2048;
// Rules that a state calls, and those call, which are looked at for its reach.
constexpr int kMaxRules = 16;

// About how many tokens are lost with the groups.
int weight(Groups groups) {
  return std::popcount(groups) + 16 * std::popcount(Groups(groups & (kLower | kUpper | kBeyondAscii))) +
         4 * std::popcount(Groups(groups & (kSpace | kDigit)));
}

// The bytes of all characters beyond ASCII as a tree, whose equal parts are one.
class BytesBeyondAscii {
 public:
  struct Branch {
    uint8_t lo, hi;
    Groups groups;  // of the characters there
    int32_t to;     // a node; -1: the character ends
    bool operator==(const Branch&) const = default;
  };

  BytesBeyondAscii() {
    std::vector<Part> parts;
    const auto add = [&](int32_t first, int32_t last, Groups group) {
      std::vector<Utf8Sequence> sequences;
      if (first <= last) utf8_sequences(first, last, sequences);
      for (auto& sequence : sequences) parts.push_back({sequence, group});
    };
    int32_t next = 0x80;
    const auto others = [&](int32_t end) {
      add(next, std::min(end, 0xD800) - 1, kBeyondAscii);
      add(std::max(next, 0xE000), end - 1, kBeyondAscii);
    };
    for (auto& [first, last] : kSpacesBeyondAscii) {
      others(first);
      add(first, last, kSpaceBeyondAscii);
      next = last + 1;
    }
    others(0x110000);
    root_ = node(parts, 0);
  }

  int32_t root() const { return root_; }
  const std::vector<Branch>& operator[](int32_t node) const { return nodes_[size_t(node)]; }

 private:
  struct Part {
    Utf8Sequence sequence;
    Groups group;
  };
  // Parts rise, and those that differ in a byte share none of its range.
  int32_t node(std::span<const Part> parts, size_t depth) {
    std::vector<Branch> branches;
    for (size_t i = 0, end = 0; i < parts.size(); i = end) {
      const auto [lo, hi] = parts[i].sequence.bytes[depth];
      Groups groups = 0;
      for (; end < parts.size() && parts[end].sequence.bytes[depth].lo == lo; ++end) groups |= parts[end].group;
      const bool is_last = size_t(parts[i].sequence.length) == depth + 1;
      branches.push_back({lo, hi, groups, is_last ? -1 : node(parts.subspan(i, end - i), depth + 1)});
    }
    const auto known = std::ranges::find(nodes_, branches);
    if (known != nodes_.end()) return int32_t(known - nodes_.begin());
    nodes_.push_back(std::move(branches));
    return int32_t(nodes_.size()) - 1;
  }

  std::vector<std::vector<Branch>> nodes_;
  int32_t root_;
};

}  // namespace

const TextReach& TextReaches::of(int32_t state) {
  rules_left_ = kMaxRules;
  return known(state);
}

const TextReach& TextReaches::known(int32_t state) {
  const auto known = known_.find(state);
  if (known != known_.end()) return known->second;
  bytes_ += sizeof(TextReach) + 40;
  const TextReach found = find(state);
  return known_.emplace(state, found).first->second;
}

// Its own, or that of a rule it calls: whatever that one takes may follow here as well.
TextReach TextReaches::find(int32_t state) {
  TextReach reach = own_reach(state);
  for (auto& call : network_.calls(state)) {
    if (rules_left_ == 0) break;
    --rules_left_;
    const TextReach called = known(network_.rule(call.rule).start);
    if (called.tokens <= reach.tokens) continue;
    reach = called;
    reach.exact = reach.ends = false;
  }
  return reach;
}

TextReach TextReaches::own_reach(int32_t state) {
  Groups groups = steps(state).live;
  TextReach reach;
  while (groups != 0 && !follow(state, groups, reach)) reach = {};
  if (groups == 0) return {};
  // Few limits, so that few slices are made.
  if (!reach.exact && reach.chars < Slices::kMaxChars) reach.chars = int(std::bit_floor(unsigned(reach.chars)));
  reach.tokens = slices_.count(reach.groups, reach.chars);
  return reach;
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

TextReaches::Steps TextReaches::own_steps(int32_t state) {
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

void TextReaches::add_beyond_ascii(int32_t state, Steps& steps) {
  constexpr auto kAreEqual = [](const ByteEdge& a, const ByteEdge& b) {
    return std::max<int>(a.lo, 0x80) == std::max<int>(b.lo, 0x80) && a.hi == b.hi && a.to == b.to;
  };
  auto edges = network_.edges(state);
  while (!edges.empty() && edges.front().hi < 0x80) edges = edges.subspan(1);
  if (edges.empty()) return;
  auto& [known, live, to] = beyond_ascii_;
  if (!std::ranges::equal(edges, known, kAreEqual)) {
    known.assign(edges.begin(), edges.end());
    to.clear();
    live = follow_beyond_ascii(state, to);
  }
  steps.some |= kBeyondAscii | kSpaceBeyondAscii;
  steps.live |= live;
  for (auto& [end, groups] : to)
    if (groups & live) steps.lead(end, groups & live);
}

// The groups all of whose characters may follow, and where some of these lead.
Groups TextReaches::follow_beyond_ascii(int32_t state, std::vector<std::pair<int32_t, Groups>>& to) const {
  static const BytesBeyondAscii bytes;
  constexpr Groups kBoth = kBeyondAscii | kSpaceBeyondAscii;
  Groups dead = 0;
  std::vector<std::pair<int32_t, int32_t>> reached{{bytes.root(), state}};  // nodes and states
  const auto reach = [&](const BytesBeyondAscii::Branch& branch, int32_t next) {
    if (branch.to >= 0) {
      if (const std::pair both{branch.to, next}; std::ranges::find(reached, both) == reached.end())
        reached.push_back(both);
    } else if (const std::pair end{next, branch.groups}; std::ranges::find(to, end) == to.end()) {
      to.push_back(end);
    }
  };
  for (size_t i = 0; i < reached.size() && dead != kBoth; ++i) {
    const auto [node, from] = reached[i];
    for (auto& branch : bytes[node]) {
      int at = branch.lo;
      for (auto& edge : network_.edges(from)) {
        if (edge.hi < at) continue;
        if (edge.lo > at || at > branch.hi) break;
        reach(branch, edge.to);
        at = int(edge.hi) + 1;
      }
      if (at <= branch.hi) dead |= branch.groups;
    }
  }
  return Groups(kBoth & ~dead);
}

}  // namespace anneal::grammar
