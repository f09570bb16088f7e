#include "minimal.h"

#include <algorithm>
#include <numeric>

namespace anneal::grammar {

namespace {

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
  std::span<const int32_t> members(int32_t set) const {
    return {elements_.data() + first_[set], size_t(past_[set] - first_[set])};
  }

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

// Those of `states`, which lead to one another only, that reach acceptance.
std::vector<int32_t> useful_states(const Automaton& a, const std::vector<int32_t>& states) {
  // Incoming edges as lists.
  std::vector<int32_t> heads(a.size(), -1), from, next;
  const auto incoming = [&](int32_t s, int32_t to) {
    from.push_back(s), next.push_back(heads[to]);
    heads[to] = int32_t(from.size()) - 1;
  };
  std::vector<bool> useful(a.size(), false);
  std::vector<int32_t> work;
  for (int32_t s : states) {
    for (auto& e : a.edges(s)) incoming(s, e.to);
    for (auto& e : a.symbols(s)) incoming(s, e.to);
    if (a.accepts(s)) useful[s] = true, work.push_back(s);
  }
  while (!work.empty()) {
    const int32_t s = work.back();
    work.pop_back();
    for (int32_t i = heads[s]; i >= 0; i = next[i])
      if (!useful[from[i]]) useful[from[i]] = true, work.push_back(from[i]);
  }
  std::vector<int32_t> kept;
  for (int32_t s : states)
    if (useful[s]) kept.push_back(s);
  return kept;
}

// Blocks of equal states among these, which reach acceptance and lead to one another only, apart from states that do
// not reach it: Valmari and Lehtinen's refinement of states and transitions together, O(m log m) for partial automata
// with m transitions.
Partition refined(const Automaton& a, const std::vector<int32_t>& kept, Spending& spending) {
  const auto n = int32_t(kept.size());
  std::vector<int32_t> number(a.size(), -1);
  for (int32_t i = 0; i < n; ++i) number[kept[i]] = i;

  // Bytes that no edge tells apart are one label.
  bool cut[257] = {};
  for (int32_t s : kept)
    for (auto& e : a.edges(s)) cut[e.lo] = cut[int(e.hi) + 1] = true;
  int32_t label_of[257];
  for (int32_t b = 0, label = 0; b <= 256; ++b) label_of[b] = label += cut[b];
  // Symbols are labels after those.
  std::vector<int32_t> symbols;
  for (int32_t s : kept)
    for (auto& e : a.symbols(s)) symbols.push_back(e.symbol);
  std::sort(symbols.begin(), symbols.end());
  symbols.erase(std::unique(symbols.begin(), symbols.end()), symbols.end());
  const int32_t bytes = label_of[256] + 1, labels = bytes + int32_t(symbols.size());
  const auto label_of_symbol = [&](int32_t symbol) {
    return bytes + int32_t(std::lower_bound(symbols.begin(), symbols.end(), symbol) - symbols.begin());
  };
  struct Transition {
    int32_t from, label, to;
  };
  std::vector<Transition> transitions;
  for (int32_t i = 0; i < n; ++i) {
    spending.tick();
    for (auto& e : a.edges(kept[i]))
      if (number[e.to] >= 0)
        for (int32_t label = label_of[e.lo]; label <= label_of[e.hi]; ++label)
          transitions.push_back({i, label, number[e.to]});
    for (auto& e : a.symbols(kept[i]))
      if (number[e.to] >= 0) transitions.push_back({i, label_of_symbol(e.symbol), number[e.to]});
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
  return blocks;
}

// The automaton of blocks of states, numbered as a breadth-first visit meets them. `block` of a state that goes: -1.
// `order`, `block_number`: scratch.
template <class Block>
void renumber(const Automaton& a, int32_t blocks, Block&& block, std::vector<int32_t>& order,
              std::vector<int32_t>& block_number, Automaton& out) {
  out.clear();
  out.expect(blocks, std::min(a.edge_count(), size_t(blocks) * 2));
  order.clear(), block_number.assign(size_t(blocks), -1);
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
    for (auto& e : a.symbols(s))
      if (block(e.to) >= 0) out.symbol_edge(e.symbol, visit(e.to));
    out.close_state(a.accepts(s));
  }
}

}  // namespace

Automaton trimmed(const Automaton& a) {
  std::vector<int32_t> all(a.size());
  std::iota(all.begin(), all.end(), 0);
  const auto kept = useful_states(a, all);
  if (kept.empty() || kept[0] != 0) return {};
  std::vector<int32_t> number(a.size(), -1);
  for (size_t i = 0; i < kept.size(); ++i) number[kept[i]] = int32_t(i);
  std::vector<int32_t> order, block_number;
  Automaton out;
  renumber(a, int32_t(kept.size()), [&](int32_t s) { return number[s]; }, order, block_number, out);
  return out;
}

int32_t Minimizer::block_of(const Automaton& a, int32_t s) {
  words_.assign(1, 0);
  for (auto& e : a.edges(s)) {
    if (block_[e.to] < 0) continue;
    const uint64_t word = uint64_t(e.lo) << 40 | uint64_t(e.hi) << 32 | uint32_t(block_[e.to]);
    const uint64_t last = words_.back();
    // Neighbours that lead to one block are one.
    if (words_.size() > 1 && uint32_t(last) == uint32_t(word) && uint8_t(last >> 32) + 1 == e.lo)
      words_.back() = (last & ~(uint64_t(0xFF) << 32)) | uint64_t(e.hi) << 32;
    else
      words_.push_back(word);
  }
  words_[0] = uint64_t(words_.size()) << 1 | a.accepts(s);
  for (auto& e : a.symbols(s))
    if (block_[e.to] >= 0) words_.push_back(uint64_t(uint32_t(e.symbol)) << 32 | uint32_t(block_[e.to]));
  if (words_.size() == 1 && !a.accepts(s)) return -1;
  spending_.tick();
  spending_.bytes(int64_t(words_.size()) * 8 + 32);
  return int32_t(blocks_.intern(words_));
}

void Minimizer::run(const Automaton& a, Automaton& out) {
  const int32_t n = a.size();
  if (n == 0) return out.clear();
  // States that no cycle leads to, each before those it leads to itself.
  ahead_.clear(), waiting_.assign(size_t(n), 0);
  const auto each_next = [&](int32_t s, auto&& use) {
    for (auto& e : a.edges(s)) use(e.to);
    for (auto& e : a.symbols(s)) use(e.to);
  };
  for (int32_t s = 0; s < n; ++s) each_next(s, [&](int32_t to) { ++waiting_[to]; });
  if (waiting_[0] == 0) ahead_.push_back(0);
  for (size_t i = 0; i < ahead_.size(); ++i)
    each_next(ahead_[i], [&](int32_t to) {
      if (--waiting_[to] == 0) ahead_.push_back(to);
    });

  block_.assign(size_t(n), -1);
  blocks_.clear();
  if (int32_t(ahead_.size()) < n) {
    std::vector<int32_t> others;
    for (int32_t s = 0; s < n; ++s)
      if (waiting_[s] > 0) others.push_back(s);
    others = useful_states(a, others);
    if (!others.empty()) {
      const Partition parts = refined(a, others, spending_);
      for (size_t i = 0; i < others.size(); ++i) block_[others[i]] = parts.set(int32_t(i));
      // Different blocks have different descriptions, so that each gets the number it has.
      for (int32_t part = 0; part < parts.sets(); ++part) block_of(a, others[parts.members(part)[0]]);
    }
  }
  for (size_t i = ahead_.size(); i-- > 0;) block_[ahead_[i]] = block_of(a, ahead_[i]);
  if (block_[0] < 0) return out.clear();
  if (int32_t(blocks_.size()) == n)
    out = a;
  else
    renumber(a, int32_t(blocks_.size()), [&](int32_t s) { return block_[s]; }, order_, number_, out);
}

}  // namespace anneal::grammar
