#include "automaton.h"

#include <algorithm>
#include <numeric>

#include "span_set.h"

namespace anneal::grammar {

namespace {

// ---- minimisation

// A partition of 0..n-1 refined by marking elements and splitting every set into its marked and its other elements.
class Partition {
 public:
  explicit Partition(int32_t n) : elements_(n), place_(n), set_(n, 0), first_{0}, past_{n}, marked_{0} {
    std::iota(elements_.begin(), elements_.end(), 0);
    std::iota(place_.begin(), place_.end(), 0);
  }
  // Sets are given by `key`, which is below `keys`: equal keys, equal sets.
  template <class Key> Partition(int32_t n, int32_t keys, Key&& key) : Partition(n) {
    first_.clear(), past_.clear(), marked_.clear();
    std::vector<int32_t> at(size_t(keys) + 1, 0), set(size_t(keys), 0);
    for (int32_t i = 0; i < n; ++i) ++at[key(i) + 1];
    for (int32_t k = 0; k < keys; ++k) {
      if (at[k + 1] > 0) {
        set[k] = sets();
        first_.push_back(at[k]), past_.push_back(at[k] + at[k + 1]), marked_.push_back(0);
      }
      at[k + 1] += at[k];
    }
    for (int32_t i = 0; i < n; ++i) {
      const int32_t k = key(i), place = at[k]++;
      elements_[place] = i, place_[i] = place, set_[i] = set[k];
    }
  }

  int32_t sets() const { return int32_t(first_.size()); }
  int32_t set(int32_t element) const { return set_[element]; }
  std::span<const int32_t> members(int32_t set) const { return {elements_.data() + first_[set], size_t(past_[set] - first_[set])}; }

  void mark(int32_t element) {
    const int32_t set = set_[element], from = place_[element], to = first_[set] + marked_[set];
    if (from < to) return;
    elements_[from] = elements_[to];
    place_[elements_[from]] = from;
    elements_[to] = element;
    place_[element] = to;
    if (marked_[set]++ == 0) touched_.push_back(set);
  }

  void split() {
    for (; !touched_.empty(); touched_.pop_back()) {
      const int32_t set = touched_.back(), middle = first_[set] + marked_[set];
      const int32_t marked = marked_[set];
      marked_[set] = 0;
      if (middle == past_[set]) continue;
      // The smaller part becomes the new set: every element is moved O(log n) times.
      if (marked <= past_[set] - middle) {
        first_.push_back(first_[set]), past_.push_back(middle);
        first_[set] = middle;
      } else {
        first_.push_back(middle), past_.push_back(past_[set]);
        past_[set] = middle;
      }
      marked_.push_back(0);
      const int32_t fresh = sets() - 1;
      for (int32_t i = first_[fresh]; i < past_[fresh]; ++i) set_[elements_[i]] = fresh;
    }
  }

 private:
  std::vector<int32_t> elements_, place_, set_, first_, past_, marked_, touched_;
};

// Every state is reached from the start and reaches acceptance; others go, with the edges to them. Returns the old numbers of what stays.
std::vector<int32_t> useful_states(const Automaton& a) {
  const int32_t n = a.size();
  // Incoming edges as lists.
  std::vector<int32_t> heads(n, -1), from, next;
  const auto incoming = [&](int32_t s, int32_t to) {
    from.push_back(s), next.push_back(heads[to]);
    heads[to] = int32_t(from.size()) - 1;
  };
  for (int32_t s = 0; s < n; ++s) {
    for (auto& e : a.edges(s)) incoming(s, e.to);
    for (auto& e : a.marks(s)) incoming(s, e.to);
  }
  std::vector<bool> useful(n, false);
  std::vector<int32_t> work;
  for (int32_t s = 0; s < n; ++s)
    if (a.accepts(s)) useful[s] = true, work.push_back(s);
  while (!work.empty()) {
    const int32_t s = work.back();
    work.pop_back();
    for (int32_t i = heads[s]; i >= 0; i = next[i])
      if (!useful[from[i]]) useful[from[i]] = true, work.push_back(from[i]);
  }
  if (n == 0 || !useful[0]) return {};
  std::vector<int32_t> kept;
  for (int32_t s = 0; s < n; ++s)
    if (useful[s]) kept.push_back(s);
  return kept;
}

// The automaton of blocks of states, numbered as a breadth-first visit meets them. `block` of a state that goes: -1.
template <class Block> Automaton renumbered(const Automaton& a, int32_t blocks, Block&& block) {
  Automaton out;
  std::vector<int32_t> order, block_number(blocks, -1);
  const auto visit = [&](int32_t old) {
    int32_t& known = block_number[block(old)];
    if (known < 0) known = int32_t(order.size()), order.push_back(old);
    return known;
  };
  visit(0);
  for (size_t i = 0; i < order.size(); ++i) {
    const int32_t s = order[i];
    for (auto& e : a.edges(s))
      if (block(e.to) >= 0) out.edge(e.lo, e.hi, visit(e.to));
    for (auto& e : a.marks(s))
      if (block(e.to) >= 0) out.mark(e.symbol, visit(e.to));
    out.close_state(a.accepts(s));
  }
  return out;
}

// Only states that are of use; equal ones stay apart.
Automaton trimmed(const Automaton& a) {
  const auto kept = useful_states(a);
  if (kept.empty()) return {};
  std::vector<int32_t> number(a.size(), -1);
  for (size_t i = 0; i < kept.size(); ++i) number[kept[i]] = int32_t(i);
  return renumbered(a, int32_t(kept.size()), [&](int32_t s) { return number[s]; });
}

// Valmari and Lehtinen's refinement of states and transitions together: O(m log m) for partial automata with m transitions.
Automaton minimal(const Automaton& a, Spending& spending) {
  const auto kept = useful_states(a);
  const auto n = int32_t(kept.size());
  Automaton out;
  if (n == 0) return out;
  std::vector<int32_t> number(a.size(), -1);
  for (int32_t i = 0; i < n; ++i) number[kept[i]] = i;

  // Bytes that no edge tells apart are one label.
  bool cut[257] = {};
  for (int32_t s : kept)
    for (auto& e : a.edges(s)) cut[e.lo] = cut[int(e.hi) + 1] = true;
  int32_t label_of[257];
  for (int32_t b = 0, label = 0; b <= 256; ++b) label_of[b] = label += cut[b];
  // Marks are labels after those.
  std::vector<int32_t> symbols;
  for (int32_t s : kept)
    for (auto& e : a.marks(s)) symbols.push_back(e.symbol);
  std::sort(symbols.begin(), symbols.end());
  symbols.erase(std::unique(symbols.begin(), symbols.end()), symbols.end());
  const int32_t bytes = label_of[256] + 1, labels = bytes + int32_t(symbols.size());
  const auto label_of_mark = [&](int32_t symbol) { return bytes + int32_t(std::lower_bound(symbols.begin(), symbols.end(), symbol) - symbols.begin()); };
  struct Transition {
    int32_t from, label, to;
  };
  std::vector<Transition> transitions;
  for (int32_t i = 0; i < n; ++i) {
    spending.tick();
    for (auto& e : a.edges(kept[i]))
      if (number[e.to] >= 0)
        for (int32_t label = label_of[e.lo]; label <= label_of[e.hi]; ++label) transitions.push_back({i, label, number[e.to]});
    for (auto& e : a.marks(kept[i]))
      if (number[e.to] >= 0) transitions.push_back({i, label_of_mark(e.symbol), number[e.to]});
  }
  const auto m = int32_t(transitions.size());
  spending.bytes(int64_t(m) * 40);

  Partition blocks(n);
  for (int32_t i = 0; i < n; ++i)
    if (a.accepts(kept[i])) blocks.mark(i);
  blocks.split();
  Partition cords(m, labels, [&](int32_t t) { return transitions[t].label; });
  std::vector<int32_t> begin(n + 1, 0), incoming(m);
  for (auto& t : transitions) ++begin[t.to + 1];
  for (int32_t i = 0; i < n; ++i) begin[i + 1] += begin[i];
  {
    auto at = begin;
    for (int32_t t = 0; t < m; ++t) incoming[at[transitions[t].to]++] = t;
  }
  if (m > 0)
    for (int32_t b = 1, c = 0; c < cords.sets(); ++c) {
      for (int32_t t : cords.members(c)) blocks.mark(transitions[t].from);
      blocks.split();
      spending.tick();
      for (; b < blocks.sets(); ++b) {
        // Marking moves elements of cords only.
        for (int32_t state : blocks.members(b))
          for (int32_t i = begin[state]; i < begin[state + 1]; ++i) cords.mark(incoming[i]);
        cords.split();
      }
    }

  // One member stands for its block.
  return renumbered(a, blocks.sets(), [&](int32_t s) { return number[s] < 0 ? -1 : blocks.set(number[s]); });
}

// ---- determinisation

class Subsets {
 public:
  Subsets(const Nfa& nfa, int32_t accept, Spending& spending) : nfa_(nfa), accept_(accept), spending_(spending), seen_(size_t(nfa.size()), 0) {}

  Automaton run(int32_t start) {
    add(start);
    number();
    for (uint32_t i = 0; i < sets_.size(); ++i) state(i);
    return std::move(out_);
  }

 private:
  struct Step {
    uint8_t lo, hi;
    int32_t to;
  };

  // Collects the states that silent steps reach; of these only such with arcs of their own, or the accepting one, matter.
  void add(int32_t state) {
    if (seen_[size_t(state)] == round_) return;
    seen_[size_t(state)] = round_;
    work_.push_back(state);
    while (!work_.empty()) {
      const int32_t s = work_.back();
      work_.pop_back();
      spending_.tick();
      bool matters = s == accept_;
      for (int32_t i = nfa_.head(s); i >= 0; i = nfa_[i].next) {
        if (nfa_[i].kind != Nfa::Arc::skip) {
          matters = true;
        } else if (seen_[size_t(nfa_[i].to)] != round_) {
          seen_[size_t(nfa_[i].to)] = round_;
          work_.push_back(nfa_[i].to);
        }
      }
      if (matters) set_.push_back(uint64_t(s));
    }
  }

  int32_t number() {
    std::sort(set_.begin(), set_.end());
    const size_t before = sets_.size();
    const uint32_t result = sets_.intern(set_);
    if (sets_.size() > before) {
      spending_.states(1);
      spending_.bytes(int64_t(set_.size()) * 8 + 64);
    }
    set_.clear();
    ++round_;
    return int32_t(result);
  }

  void state(uint32_t set) {
    steps_.clear(), marks_.clear();
    bool accepts = false;
    for (uint64_t s : sets_.at(set)) {
      accepts |= int32_t(s) == accept_;
      for (int32_t i = nfa_.head(int32_t(s)); i >= 0; i = nfa_[i].next) {
        const auto& arc = nfa_[i];
        if (arc.kind == Nfa::Arc::bytes) steps_.push_back({arc.lo, arc.hi, arc.to});
        if (arc.kind == Nfa::Arc::mark) marks_.push_back({arc.symbol, arc.to});
      }
    }
    std::sort(steps_.begin(), steps_.end(), [](auto& a, auto& b) { return a.lo < b.lo; });
    // `live_` holds the steps that cover the byte range being looked at.
    live_.clear();
    int lo = 0;
    for (size_t next = 0; next < steps_.size() || !live_.empty();) {
      if (live_.empty()) lo = steps_[next].lo;
      for (; next < steps_.size() && steps_[next].lo == lo; ++next) live_.push_back(steps_[next]);
      int hi = next < steps_.size() ? steps_[next].lo - 1 : 255;
      for (auto& s : live_) hi = std::min(hi, int(s.hi));
      for (auto& s : live_) add(s.to);
      out_.edge(uint8_t(lo), uint8_t(hi), number());
      spending_.bytes(sizeof(ByteEdge));
      lo = hi + 1;
      std::erase_if(live_, [&](auto& s) { return s.hi < lo; });
    }
    std::sort(marks_.begin(), marks_.end(), [](auto& a, auto& b) { return a.symbol < b.symbol; });
    for (size_t i = 0; i < marks_.size();) {
      const int32_t symbol = marks_[i].symbol;
      for (; i < marks_.size() && marks_[i].symbol == symbol; ++i) add(marks_[i].to);
      out_.mark(symbol, number());
      spending_.bytes(sizeof(MarkEdge));
    }
    out_.close_state(accepts);
  }

  const Nfa& nfa_;
  const int32_t accept_;
  Spending& spending_;
  std::vector<uint32_t> seen_;
  uint32_t round_ = 1;
  std::vector<int32_t> work_;
  std::vector<uint64_t> set_;
  std::vector<Step> steps_, live_;
  std::vector<MarkEdge> marks_;
  SpanSet sets_;
  Automaton out_;
};

// ---- products

// Products this large come of long counts, which keep nearly all pairs apart: to look for equal ones costs more than it saves.
constexpr int32_t kNearlyMinimal = 20'000;

// Pairs of states; `subtract`: the second may be -1, which accepts nothing.
Automaton product(const Automaton& a, const Automaton& b, bool subtract, Spending& spending) {
  Automaton out;
  if (a.size() == 0 || (b.size() == 0 && !subtract)) return out;
  SpanSet pairs;
  const auto pair = [&](int32_t p, int32_t q) {
    const uint64_t word[] = {uint64_t(uint32_t(p)) << 32 | uint32_t(q)};
    const size_t before = pairs.size();
    const uint32_t number = pairs.intern(word);
    if (pairs.size() > before) spending.states(1), spending.bytes(64);
    return int32_t(number);
  };
  pair(0, b.size() == 0 ? -1 : 0);
  for (uint32_t i = 0; i < pairs.size(); ++i) {
    const uint64_t word = pairs.at(i)[0];
    const auto p = int32_t(word >> 32), q = int32_t(uint32_t(word));
    const auto others = q < 0 ? std::span<const ByteEdge>() : b.edges(q);
    size_t j = 0;
    for (auto& e : a.edges(p)) {
      int lo = e.lo;
      while (j < others.size() && others[j].hi < lo) ++j;
      for (size_t k = j; lo <= e.hi;) {
        while (k < others.size() && others[k].hi < lo) ++k;
        const bool inside = k < others.size() && others[k].lo <= lo;
        const int end = inside ? std::min(others[k].hi, e.hi) : k < others.size() ? std::min(int(others[k].lo) - 1, int(e.hi)) : e.hi;
        if (inside) out.edge(uint8_t(lo), uint8_t(end), pair(e.to, others[k].to));
        else if (subtract) out.edge(uint8_t(lo), uint8_t(end), pair(e.to, -1));
        spending.bytes(sizeof(ByteEdge));
        lo = end + 1;
      }
    }
    const bool second = q >= 0 && b.accepts(q);
    out.close_state(a.accepts(p) && second != subtract);
  }
  return out.size() > kNearlyMinimal ? trimmed(out) : minimal(out, spending);
}

}  // namespace

Automaton deterministic(const Nfa& nfa, int32_t start, int32_t accept, Spending& spending) {
  return minimal(Subsets(nfa, accept, spending).run(start), spending);
}

Automaton intersection(const Automaton& a, const Automaton& b, Spending& spending) { return product(a, b, false, spending); }
Automaton difference(const Automaton& a, const Automaton& b, Spending& spending) { return product(a, b, true, spending); }

}  // namespace anneal::grammar
