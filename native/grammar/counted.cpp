#include "counted.h"

#include <algorithm>
#include <numeric>

#include "minimal.h"
#include "span_set.h"

namespace anneal::grammar {

namespace {

// States, each before those it leads to; fewer than there are where a cycle leads back.
std::vector<int32_t> rising(const Automaton& a) {
  std::vector<int32_t> order, waiting(size_t(a.size()), 0);
  for (int32_t s = 0; s < a.size(); ++s)
    for (auto& edge : a.edges(s)) ++waiting[size_t(edge.to)];
  if (waiting[0] == 0) order.push_back(0);
  for (size_t i = 0; i < order.size(); ++i)
    for (auto& edge : a.edges(order[i]))
      if (--waiting[size_t(edge.to)] == 0) order.push_back(edge.to);
  return order;
}

// The product with items without end, before they are counted. Places inside an item come before those that it leads to
// there, and after those between two items; the first one is the start.
struct Places {
  struct Step {
    uint8_t lo, hi;
    int32_t to;
  };
  std::vector<Step> steps;
  std::vector<uint32_t> past;  // where the steps of each place end
  std::vector<uint8_t> ends;   // whether a text of `a` may end there
  int32_t between = 0;         // places between two items: an item has ended where a step leads to one of them

  int32_t size() const { return int32_t(past.size()); }
  std::span<const Step> at(int32_t place) const {
    const uint32_t from = place == 0 ? 0 : past[size_t(place) - 1];
    return {steps.data() + from, past[size_t(place)] - from};
  }
};

Places places_of(const Automaton& a, const Automaton& item, Spending& spending) {
  const auto order = rising(item);
  std::vector<int32_t> rank(order.size());
  for (size_t i = 0; i < order.size(); ++i) rank[size_t(order[i])] = int32_t(i);
  struct Found {
    int32_t state, inside;  // of `a`; of the item, 0 between two
    uint32_t past;
  };
  SpanSet pairs;
  std::vector<Found> found;
  std::vector<Places::Step> steps;
  const auto place = [&](int32_t state, int32_t inside) {
    const uint64_t word[] = {uint64_t(uint32_t(state)) << 32 | uint32_t(inside)};
    const size_t before = pairs.size();
    const uint32_t number = pairs.intern(word);
    if (pairs.size() > before) found.push_back({state, inside, 0}), spending.bytes(64);
    return int32_t(number);
  };
  place(0, 0);
  for (size_t i = 0; i < found.size(); ++i) {
    const auto [state, inside, _] = found[i];
    const auto items = item.edges(inside);
    size_t next = 0;
    for (auto& edge : a.edges(state)) {
      while (next < items.size() && items[next].hi < edge.lo) ++next;
      for (size_t k = next; k < items.size() && items[k].lo <= edge.hi; ++k) {
        spending.tick();
        const int32_t to = item.accepts(items[k].to) ? 0 : items[k].to;
        steps.push_back({std::max(edge.lo, items[k].lo), std::min(edge.hi, items[k].hi), place(edge.to, to)});
      }
    }
    found[i].past = uint32_t(steps.size());
  }
  std::vector<int32_t> sorted(found.size()), number(found.size());
  std::iota(sorted.begin(), sorted.end(), 0);
  std::ranges::stable_sort(sorted, {}, [&](int32_t i) { return rank[size_t(found[size_t(i)].inside)]; });
  for (size_t i = 0; i < sorted.size(); ++i) number[size_t(sorted[i])] = int32_t(i);
  Places out;
  for (int32_t i : sorted) {
    const bool between = found[size_t(i)].inside == 0;
    out.between += between;
    out.ends.push_back(between && a.accepts(found[size_t(i)].state));
    for (uint32_t k = i == 0 ? 0 : found[size_t(i) - 1].past; k < found[size_t(i)].past; ++k)
      out.steps.push_back({steps[k].lo, steps[k].hi, number[size_t(steps[k].to)]});
    out.past.push_back(uint32_t(out.steps.size()));
  }
  return out;
}

class Counting {
 public:
  Counting(const Places& places, int32_t min, int32_t max, Spending& spending)
      : places_(places), min_(min), last_(max < 0 ? min : max), bounded_(max >= 0), spending_(spending) {
    find_reach();
    const int64_t cells = (int64_t(last_) + 1) * places_.size();
    spending_.bytes(cells * 4);
    numbers_.assign(size_t(cells), kDead);
  }

  Automaton run() {
    for (int32_t count = last_; count >= 0; --count)
      // Above the last count the same places come again, where there is no bound.
      while (find_alive(count) && count == last_ && !bounded_) continue;
    return numbers_[cell(0, 0)] == kDead ? Automaton() : put_together();
  }

 private:
  static constexpr size_t kNowhere = SIZE_MAX;
  static constexpr int32_t kDead = -2, kAlive = -1;

  // Where as many items may follow as can, how many have ended makes no difference: such cells are one.
  size_t cell(int32_t count, int32_t place) const {
    if (count >= min_) count = std::max(count, last_ - reach_[size_t(place)]);
    return size_t(count) * size_t(places_.size()) + size_t(place);
  }
  // The living cell that a step leads to from a place where so many items have ended.
  size_t after(int32_t count, int32_t to) const {
    if (to < places_.between && count < last_)
      ++count;
    else if (to < places_.between && bounded_)
      return kNowhere;
    const size_t next = cell(count, to);
    return numbers_[next] == kDead ? kNowhere : next;
  }
  // How many items may end from each place on, at most.
  void find_reach() {
    const auto n = size_t(places_.size());
    reach_.assign(n, last_);
    std::vector<int32_t> waiting(n), ready;
    std::vector<std::vector<int32_t>> before(n);
    for (size_t place = 0; place < n; ++place) {
      const auto steps = places_.at(int32_t(place));
      spending_.bytes(int64_t(steps.size()) * 4 + 32);
      for (auto& step : steps) before[size_t(step.to)].push_back(int32_t(place));
      if ((waiting[place] = int32_t(steps.size())) == 0) ready.push_back(int32_t(place));
    }
    // Those that a cycle is reached from stay without bound.
    while (!ready.empty()) {
      const int32_t place = ready.back();
      ready.pop_back();
      int64_t reach = 0;
      for (auto& step : places_.at(place))
        reach = std::max<int64_t>(reach, int64_t(reach_[size_t(step.to)]) + (step.to < places_.between));
      reach_[size_t(place)] = int32_t(std::min<int64_t>(reach, last_));
      for (int32_t from : before[size_t(place)])
        if (--waiting[size_t(from)] == 0) ready.push_back(from);
    }
  }

  bool may_end(int32_t count, int32_t place) const { return places_.ends[size_t(place)] && count >= min_; }

  // Marks the places from which an end is reached when so many items have ended; whether there were new ones.
  bool find_alive(int32_t count) {
    bool fresh = false;
    for (int32_t place = places_.size() - 1; place >= 0; --place) {
      spending_.tick();
      const size_t own = size_t(count) * size_t(places_.size()) + size_t(place);
      if (cell(count, place) != own) continue;
      int32_t& number = numbers_[own];
      const auto leads_on = [&](auto& step) { return after(count, step.to) != kNowhere; };
      if (number == kAlive || !(may_end(count, place) || std::ranges::any_of(places_.at(place), leads_on))) continue;
      number = kAlive;
      ++alive_;
      fresh = true;
    }
    return fresh;
  }

  // States in the order of a breadth-first visit.
  Automaton put_together() {
    Automaton out;
    struct Cell {
      int32_t count, place;
    };
    std::vector<Cell> order;
    out.expect(alive_, size_t(alive_));
    order.reserve(size_t(alive_));
    const auto visit = [&](size_t next, int32_t place) {
      if (numbers_[next] == kAlive) {
        numbers_[next] = int32_t(order.size());
        order.push_back({int32_t((next - size_t(place)) / size_t(places_.size())), place});
        spending_.states(1), spending_.bytes(24);
      }
      return numbers_[next];
    };
    visit(cell(0, 0), 0);
    for (size_t i = 0; i < order.size(); ++i) {
      const auto [count, place] = order[i];
      for (auto& step : places_.at(place)) {
        const size_t next = after(count, step.to);
        if (next == kNowhere) continue;
        out.edge(step.lo, step.hi, visit(next, step.to));
        spending_.bytes(sizeof(ByteEdge));
      }
      out.close_state(may_end(count, place));
    }
    return out;
  }

  const Places& places_;
  const int32_t min_, last_;  // items that are told from more of them
  const bool bounded_;
  Spending& spending_;
  std::vector<int32_t> reach_;    // by place
  std::vector<int32_t> numbers_;  // of the states, by count and place
  int32_t alive_ = 0;             // states
};

}  // namespace

bool is_countable(const Automaton& item) {
  if (item.size() == 0 || item.accepts(0) || item.has_symbols()) return false;
  for (int32_t s = 0; s < item.size(); ++s)
    if (item.accepts(s) && !item.edges(s).empty()) return false;
  return int32_t(rising(item).size()) == item.size();
}

Automaton counted(const Automaton& a, const Automaton& item, int32_t min, int32_t max, Spending& spending) {
  if (a.size() == 0) return {};
  auto out = Counting(places_of(a, item, spending), min, max, spending).run();
  if (out.size() > kNearlyMinimal) return out;
  return Minimizer(spending).run(out);
}

}  // namespace anneal::grammar
