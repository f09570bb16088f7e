#include "automaton_maker.h"

#include <algorithm>
#include <array>

#include "counted.h"
#include "known_automata.h"
#include "product.h"
#include "utf8.h"

namespace anneal::grammar {

namespace {

constexpr int64_t kUnrolled = 192;   // a counted repeat of more weight calls its item, so that a count costs one state
constexpr int32_t kCounted = 8;      // so many items are counted beside an automaton, rather than by one of their own
constexpr uint32_t kManyWords = 64;  // a choice of so many words is an automaton of its own where it is repeated
constexpr int64_t kKept = 24;        // automata of rules of more weight are worth looking up

// One character of `ranges` (low and high of each in turn), in UTF-8.
void characters(Nfa& nfa, std::span<const int32_t> ranges, int32_t from, int32_t to) {
  std::vector<Utf8Sequence> sequences;
  for (size_t i = 0; i < ranges.size(); i += 2) utf8_sequences(ranges[i], ranges[i + 1], sequences);
  for (auto& sequence : sequences) {
    int32_t at = from;
    for (int i = 0; i < sequence.length; ++i) {
      const int32_t next = i + 1 == sequence.length ? to : nfa.state();
      nfa.bytes(at, sequence.bytes[size_t(i)].lo, sequence.bytes[size_t(i)].hi, next);
      at = next;
    }
  }
}

}  // namespace

// ---- automata of parts

const Automaton& AutomatonMaker::fragment(int32_t chars) {
  Shared& made = parts_.made[size_t(chars)];
  if (!made) made = kept(spelled_out('c', chars).key, [&] { return new_fragment(chars); });
  return *made;
}

Automaton AutomatonMaker::new_fragment(int32_t chars) {
  Nfa nfa(spending_);
  const int32_t start = nfa.state(), accept = nfa.state();
  characters(nfa, e_.operands(chars), start, accept);
  return determinizer_.run(nfa, start, accept);
}

const Automaton& AutomatonMaker::part(int32_t node) {
  return e_[node].op == Op::chars ? fragment(node) : regular(node);
}

AutomatonMaker::Shared AutomatonMaker::shared_regular(int32_t node) {
  Shared& made = parts_.made[size_t(node)];
  if (!made) made = kept(spelled_out('p', node).key, [&] { return new_regular(node); });
  return made;
}

Automaton AutomatonMaker::new_regular(int32_t node) {
  if (e_[node].op == Op::both) return new_both(node);
  if (e_[node].op == Op::negate) return difference(text(), regular(e_.operands(node)[0]), spending_);
  Nfa nfa(spending_);
  const int32_t start = nfa.state(), accept = nfa.state();
  expand(nfa, node, start, accept, true, nullptr);
  return determinizer_.run(nfa, start, accept);
}

// Items of an intersection, and of those inside it.
void AutomatonMaker::flatten(int32_t node, std::vector<int32_t>& items) const {
  if (e_[node].op != Op::both) return items.push_back(node);
  for (int32_t item : e_.operands(node)) flatten(item, items);
}

// From text, what is negated is taken away: that needs no complement. What is counted comes last.
Automaton AutomatonMaker::new_both(int32_t node) {
  std::vector<int32_t> items, kept, removed;
  flatten(node, items);
  const bool is_text =
      std::ranges::any_of(items, [&](int32_t item) { return e_[item].text && e_[item].op != Op::negate; });
  std::optional<Count> count;
  // The least count is one automaton with what it counts, if there is no other.
  std::ranges::stable_sort(items, {}, [&](int32_t item) { return is_long(item) ? copies(item) : 0; });
  for (int32_t item : items) {
    if (is_text && e_[item].op == Op::negate)
      removed.push_back(item);
    else if (kept.empty() || !is_counted(item, count))
      kept.push_back(item);
  }
  Automaton result = regular(kept[0]);
  for (size_t i = 1; i < kept.size(); ++i) result = intersection(result, regular(kept[i]), spending_);
  for (int32_t item : removed) result = difference(result, regular(e_.operands(item)[0]), spending_);
  if (!count) return result;
  if (count->max >= 0 && count->max < count->min) return {};
  return counted(result, part(count->node), count->min, count->max, spending_);
}

// Takes the item for part of the count, if it is a long repeat of what is counted, or the first one.
bool AutomatonMaker::is_counted(int32_t item, std::optional<Count>& count) {
  if (!is_long(item)) return false;
  const auto [min, max] = std::pair(e_[item].a, e_[item].b);
  const int32_t repeated = e_.operands(item)[0];
  if (!count && is_countable(part(repeated))) count = Count{repeated, 0, -1};
  if (!count || count->node != repeated) return false;
  count->min = std::max(count->min, min);
  count->max = count->max < 0 || max < 0 ? std::max(count->max, max) : std::min(count->max, max);
  return true;
}

bool AutomatonMaker::is_long(int32_t node) const { return e_[node].op == Op::repeat && copies(node) >= kCounted; }
// ---- automata of earlier grammars

// The whole of a regular expression, `kind` of automaton that is made of it first: equal keys, equal automata.
AutomatonMaker::SpelledOut AutomatonMaker::spelled_out(char kind, int32_t root) {
  SpelledOut out{std::string(1, kind), {}};
  const auto word = [&](int32_t x) { out.key.append(reinterpret_cast<const char*>(&x), sizeof x); };
  numbers_.resize(size_t(e_.size()), -1);
  // After its operands.
  std::vector<std::pair<int32_t, size_t>> path{{root, 0}};
  while (!path.empty()) {
    const int32_t node = path.back().first;
    size_t& next = path.back().second;
    const Node& n = e_[node];
    const auto operands = e_.operands(node);
    const bool leaf = !e_.has_operand_nodes(node);
    if (!leaf && next < operands.size()) {
      const int32_t item = operands[next++];
      if (numbers_[size_t(item)] < 0) path.emplace_back(item, 0);
      continue;
    }
    path.pop_back();
    if (numbers_[size_t(node)] >= 0) continue;
    spending_.tick();
    word(int32_t(n.op)), word(n.a), word(n.b), word(int32_t(operands.size()));
    for (int32_t x : operands) word(leaf ? x : numbers_[size_t(x)]);
    numbers_[size_t(node)] = int32_t(out.nodes.size());
    out.nodes.push_back(node);
  }
  for (int32_t node : out.nodes) numbers_[size_t(node)] = -1;
  return out;
}

template <class Make> AutomatonMaker::Shared AutomatonMaker::kept(const std::string& key, Make&& make) {
  auto& known = KnownAutomata::instance();
  if (const auto found = known.find(key)) {
    spending_.pay(found->cost);
    return found->automaton;
  }
  const auto before = spending_.spent();
  const auto made = std::make_shared<const Automaton>(make());
  known.keep(key, {made, spending_.spent() - before});
  return made;
}

// All valid UTF-8.
Automaton AutomatonMaker::text() {
  Nfa nfa(spending_);
  const int32_t start = nfa.state();
  characters(nfa, std::array{0, 0xD7FF, 0xE000, 0x10FFFF}, start, start);
  return determinizer_.run(nfa, start, start);
}

// ---- rules

AutomatonMaker::Rule AutomatonMaker::rule(int32_t node, const ExpressionWeights& weights) {
  const bool whole = e_[node].op == Op::both || e_[node].op == Op::negate;
  if (whole || (e_[node].regular && weights.weight(node) >= kKept)) {
    Shared automaton = whole ? shared_regular(node) : kept_rule(node, weights);
    const int32_t size = automaton->size();
    return {std::move(automaton), 0, size};
  }
  make_deterministic(node, weights, made_);
  others_.append(made_);
  return {nullptr, others_.size() - made_.size(), made_.size()};
}

// Kept with the numbers that the key gives to what it calls.
AutomatonMaker::Shared AutomatonMaker::kept_rule(int32_t node, const ExpressionWeights& weights) {
  auto& known = KnownAutomata::instance();
  const auto [key, nodes] = spelled_out('r', node);
  if (const auto found = known.find(key)) {
    spending_.pay(found->cost);
    return with_symbols(found->automaton, [&](int32_t number) { return nodes[size_t(number)]; });
  }
  const auto before = spending_.spent();
  const auto made = std::make_shared<Automaton>();
  make_deterministic(node, weights, *made);
  for (size_t i = 0; i < nodes.size(); ++i) numbers_[size_t(nodes[i])] = int32_t(i);
  known.keep(
      key, {with_symbols(made, [&](int32_t called) { return numbers_[size_t(called)]; }), spending_.spent() - before});
  for (int32_t one : nodes) numbers_[size_t(one)] = -1;
  return made;
}

template <class Symbol> AutomatonMaker::Shared AutomatonMaker::with_symbols(const Shared& from, Symbol&& symbol) {
  if (!from->has_symbols()) return from;
  auto out = std::make_shared<Automaton>();
  std::vector<SymbolEdge> symbols;
  for (int32_t s = 0; s < from->size(); ++s) {
    for (auto& edge : from->edges(s)) out->edge(edge.lo, edge.hi, edge.to);
    symbols.clear();
    for (auto& edge : from->symbols(s)) symbols.push_back({symbol(edge.symbol), edge.to});
    std::sort(symbols.begin(), symbols.end(), [](auto& a, auto& b) { return a.symbol < b.symbol; });
    for (auto& edge : symbols) out->symbol_edge(edge.symbol, edge.to);
    out->close_state(from->accepts(s));
  }
  return out;
}

void AutomatonMaker::make_deterministic(int32_t node, const ExpressionWeights& weights, Automaton& out) {
  rule_.clear();
  const int32_t start = rule_.state(), accept = rule_.state();
  expand(rule_, node, start, accept, true, &weights);
  determinizer_.run(rule_, start, accept, out);
}

void AutomatonMaker::call(Nfa& nfa, int32_t node, int32_t from, int32_t to, const ExpressionWeights& weights) {
  if (weights.nullable(node)) nfa.skip(from, to);
  if (weights.productive(node)) nfa.symbol(from, node, to);
}

void AutomatonMaker::embed(Nfa& nfa, const Automaton& part, int32_t from, int32_t to) {
  if (part.size() == 0) return;
  const int32_t base = nfa.size();
  for (int32_t s = 0; s < part.size(); ++s) nfa.state();
  nfa.skip(from, base);
  for (int32_t s = 0; s < part.size(); ++s) {
    for (auto& edge : part.edges(s)) nfa.bytes(base + s, edge.lo, edge.hi, base + edge.to);
    if (part.accepts(s)) nfa.skip(base + s, to);
  }
}

// Rules ask for these while others are made.
void AutomatonMaker::embed_words(Nfa& nfa, int32_t node, int32_t from, int32_t to) {
  std::unique_lock lock(parts_.words);
  const Shared words = shared_regular(node);
  lock.unlock();
  embed(nfa, *words, from, to);
}

// Adds the node between two states, with no arc into the first and none out of the second. `weights` null: a regular
// part, without calls. `top`: the node is a whole rule.
void AutomatonMaker::expand(Nfa& nfa, int32_t node, int32_t from, int32_t to, bool top,
                            const ExpressionWeights* weights) {
  const Node n = e_[node];
  if (weights && !weights->productive(node)) return;
  switch (n.op) {
    case Op::empty: nfa.skip(from, to); return;
    case Op::never:
    case Op::same: return;
    case Op::chars: {
      const auto ranges = e_.operands(node);
      if (ranges.back() >= 0x80) return embed(nfa, fragment(node), from, to);
      for (size_t i = 0; i < ranges.size(); i += 2) nfa.bytes(from, uint8_t(ranges[i]), uint8_t(ranges[i + 1]), to);
      return;
    }
    case Op::bytes: {
      const auto bytes = e_.operands(node);
      for (size_t i = 0; i < bytes.size(); ++i) {
        const int32_t next = i + 1 == bytes.size() ? to : nfa.state();
        nfa.bytes(from, uint8_t(bytes[i]), uint8_t(bytes[i]), next);
        from = next;
      }
      return;
    }
    case Op::token: nfa.symbol(from, ~n.a, to); return;
    case Op::mark: nfa.symbol(from, kMarkSymbols + n.a, to); return;
    case Op::seq: {
      const auto items = e_.operands(node);
      for (size_t i = 0; i < items.size(); ++i) {
        const int32_t next = i + 1 == items.size() ? to : nfa.state();
        expand(nfa, items[i], from, next, false, weights);
        from = next;
      }
      return;
    }
    case Op::alt:
      for (int32_t item : e_.operands(node)) expand(nfa, item, from, to, false, weights);
      return;
    case Op::repeat: return expand_repeat(nfa, node, from, to, top, weights);
    case Op::rule: {
      const int32_t target = program_.rules[size_t(n.a)];
      if (weights->inlined(target)) return expand(nfa, target, from, to, false, weights);
      return call(nfa, target, from, to, *weights);
    }
    case Op::both:
    case Op::negate:
      if (weights && !top) return call(nfa, node, from, to, *weights);
      return embed(nfa, regular(node), from, to);
  }
}

void AutomatonMaker::expand_repeat(Nfa& nfa, int32_t node, int32_t from, int32_t to, bool top,
                                   const ExpressionWeights* weights) {
  const Node n = e_[node];
  const int32_t item = e_.operands(node)[0];
  if (weights && !top && weights->is_wide(node)) return call(nfa, node, from, to, *weights);
  const int32_t copies = n.b < 0 ? n.a : n.b;
  const bool calls = weights && copies > 2 && weights->weight(item) > 1 && weights->repeated(item, copies) > kUnrolled;
  // Where a word may end and another begin, words that are not yet told apart by their first letters would meet all
  // others.
  const bool words = !calls && (n.b < 0 || n.b > 1) && are_many_words(item);
  const auto add = [&](int32_t a, int32_t b) {
    if (calls) return call(nfa, item, a, b, *weights);
    if (words) return embed_words(nfa, item, a, b);
    expand(nfa, item, a, b, false, weights);
  };
  if (weights && !weights->productive(item)) return nfa.skip(from, to);  // matches "" only
  int32_t at = nfa.state();
  nfa.skip(from, at);
  for (int32_t i = 0; i < copies; ++i) {
    if (i >= n.a) nfa.skip(at, to);
    const int32_t next = nfa.state();
    spending_.tick();
    spending_.bytes(4);
    add(at, next);
    at = next;
  }
  nfa.skip(at, to);
  if (n.b < 0) {
    const int32_t end = nfa.state();
    add(at, end);
    nfa.skip(end, at);
  }
}

bool AutomatonMaker::are_many_words(int32_t node) const {
  const auto is_word = [&](int32_t item) { return e_[item].op == Op::bytes; };
  return e_[node].op == Op::alt && e_[node].count >= kManyWords && std::ranges::all_of(e_.operands(node), is_word);
}

}  // namespace anneal::grammar
