#include "network.h"

#include <algorithm>
#include <array>
#include <optional>

#include "counted.h"
#include "determinize.h"
#include "expression_weights.h"
#include "known_automata.h"
#include "product.h"
#include "utf8.h"

namespace anneal::grammar {

namespace {

constexpr int64_t kUnrolled = 192;   // a counted repeat of more weight calls its item, so that a count costs one state
constexpr int32_t kCounted = 8;      // so many items are counted beside an automaton, rather than by one of their own
constexpr uint32_t kManyWords = 64;  // a choice of so many words is an automaton of its own where it is repeated
constexpr int32_t kMarkSymbols = INT32_MIN;  // this and the next: the marks of Op::mark
constexpr int64_t kKept = 24;                // automata of rules of more weight are worth looking up

}  // namespace

// Rules keep their calls, because a mask belongs to the states of one rule: text bodies, which are expensive to mask,
// have the same automaton in every grammar. For the same reason free text inside a rule becomes a rule of its own.
class NetworkBuilder {
 public:
  NetworkBuilder(Program program, Spending& spending)
      : program_(std::move(program)),
        e_(program_.expressions),
        spending_(spending),
        determinizer_(spending),
        rule_(spending),
        parts_(size_t(e_.size())),
        weights_(program_, spending, [this](int32_t node) { return part(node).size(); }),
        callee_of_(size_t(e_.size()), -1) {}

  Network run() {
    const int32_t root = program_.rules[size_t(program_.start)];
    if (!weights_.productive(root))
      throw GrammarError("grammar_empty", "the grammar matches nothing",
                         "rules[" + std::to_string(program_.start) + "]");
    callee(root, program_.start);
    // Each may add to them.
    for (size_t i = 0; i < callees_.size(); ++i) make_rule(callees_[i].node, callees_[i].owner);
    put_together();
    add_marks();
    order_rules();
    return std::move(net_);
  }

 private:
  struct Callee {
    int32_t node;
    int32_t owner;  // the rule of the program that it stands in, for messages
  };

  // ---- automata of parts

  using Shared = std::shared_ptr<const Automaton>;

  const Automaton& fragment(int32_t chars) {
    if (!parts_[size_t(chars)])
      parts_[size_t(chars)] = kept(spelled_out('c', chars).key, [&] { return new_fragment(chars); });
    return *parts_[size_t(chars)];
  }

  // One character of `ranges` (low and high of each in turn), in UTF-8.
  static void characters(Nfa& nfa, std::span<const int32_t> ranges, int32_t from, int32_t to) {
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

  Automaton new_fragment(int32_t chars) {
    Nfa nfa(spending_);
    const int32_t start = nfa.state(), accept = nfa.state();
    characters(nfa, e_.operands(chars), start, accept);
    return determinizer_.run(nfa, start, accept);
  }

  const Automaton& part(int32_t node) { return e_[node].op == Op::chars ? fragment(node) : regular(node); }

  // Of an intersection or a complement, or of an operand of one.
  const Automaton& regular(int32_t node) { return *shared_regular(node); }

  Shared shared_regular(int32_t node) {
    if (!parts_[size_t(node)])
      parts_[size_t(node)] = kept(spelled_out('p', node).key, [&] { return new_regular(node); });
    return parts_[size_t(node)];
  }

  Automaton new_regular(int32_t node) {
    if (e_[node].op == Op::both) return new_both(node);
    if (e_[node].op == Op::negate) return difference(text(), regular(e_.operands(node)[0]), spending_);
    Nfa nfa(spending_);
    const int32_t start = nfa.state(), accept = nfa.state();
    expand(nfa, node, start, accept, true, nullptr);
    return determinizer_.run(nfa, start, accept);
  }

  // Items of an intersection, and of those inside it.
  void flatten(int32_t node, std::vector<int32_t>& items) const {
    if (e_[node].op != Op::both) return items.push_back(node);
    for (int32_t item : e_.operands(node)) flatten(item, items);
  }

  // How often a node must come.
  struct Count {
    int32_t node, min, max;
  };

  // From text, what is negated is taken away: that needs no complement. What is counted comes last.
  Automaton new_both(int32_t node) {
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
  bool is_counted(int32_t item, std::optional<Count>& count) {
    if (!is_long(item)) return false;
    const auto [min, max] = std::pair(e_[item].a, e_[item].b);
    const int32_t repeated = e_.operands(item)[0];
    if (!count && is_countable(part(repeated))) count = Count{repeated, 0, -1};
    if (!count || count->node != repeated) return false;
    count->min = std::max(count->min, min);
    count->max = count->max < 0 || max < 0 ? std::max(count->max, max) : std::min(count->max, max);
    return true;
  }

  bool is_long(int32_t node) const { return e_[node].op == Op::repeat && copies(node) >= kCounted; }
  int32_t copies(int32_t node) const { return std::max(e_[node].a, e_[node].b); }

  // ---- automata of earlier grammars

  struct SpelledOut {
    std::string key;
    std::vector<int32_t> nodes;  // what the expression is made of, by the numbers that the key gives them
  };

  // The whole of a regular expression, `kind` of automaton that is made of it first: equal keys, equal automata.
  SpelledOut spelled_out(char kind, int32_t root) {
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

  template <class Make> Shared kept(const std::string& key, Make&& make) {
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
  Automaton text() {
    Nfa nfa(spending_);
    const int32_t start = nfa.state();
    characters(nfa, std::array{0, 0xD7FF, 0xE000, 0x10FFFF}, start, start);
    return determinizer_.run(nfa, start, start);
  }

  // ---- rules

  int32_t callee(int32_t node, int32_t owner) {
    int32_t& known = callee_of_[size_t(node)];
    if (known < 0) {
      known = int32_t(callees_.size());
      callees_.push_back({node, owner});
      spending_.rules(int64_t(callees_.size()));
      spending_.bytes(64);
    }
    return known;
  }

  void call(Nfa& nfa, int32_t node, int32_t from, int32_t to, int32_t owner) {
    if (weights_.nullable(node)) nfa.skip(from, to);
    if (weights_.productive(node)) nfa.symbol(from, callee(node, owner), to);
  }

  void embed(Nfa& nfa, const Automaton& part, int32_t from, int32_t to) {
    if (part.size() == 0) return;
    const int32_t base = nfa.size();
    for (int32_t s = 0; s < part.size(); ++s) nfa.state();
    nfa.skip(from, base);
    for (int32_t s = 0; s < part.size(); ++s) {
      for (auto& edge : part.edges(s)) nfa.bytes(base + s, edge.lo, edge.hi, base + edge.to);
      if (part.accepts(s)) nfa.skip(base + s, to);
    }
  }

  // Adds the node between two states, with no arc into the first and none out of the second. `owner` null: a regular
  // part, without calls. `top`: the node is a whole rule.
  void expand(Nfa& nfa, int32_t node, int32_t from, int32_t to, bool top, const int32_t* owner) {
    const Node n = e_[node];
    if (owner && !weights_.productive(node)) return;
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
          expand(nfa, items[i], from, next, false, owner);
          from = next;
        }
        return;
      }
      case Op::alt:
        for (int32_t item : e_.operands(node)) expand(nfa, item, from, to, false, owner);
        return;
      case Op::repeat: return expand_repeat(nfa, node, from, to, top, owner);
      case Op::rule: {
        const int32_t target = program_.rules[size_t(n.a)];
        if (weights_.inlined(target)) return expand(nfa, target, from, to, false, owner);
        return call(nfa, target, from, to, n.a);
      }
      case Op::both:
      case Op::negate:
        if (owner && !top) return call(nfa, node, from, to, *owner);
        return embed(nfa, regular(node), from, to);
    }
  }

  void expand_repeat(Nfa& nfa, int32_t node, int32_t from, int32_t to, bool top, const int32_t* owner) {
    const Node n = e_[node];
    const int32_t item = e_.operands(node)[0];
    if (owner && !top && weights_.is_wide(node)) return call(nfa, node, from, to, *owner);
    const int32_t copies = n.b < 0 ? n.a : n.b;
    const bool calls = owner && copies > 2 && weights_.weight(item) > 1 && weights_.repeated(item, copies) > kUnrolled;
    // Where a word may end and another begin, words that are not yet told apart by their first letters would meet all
    // others.
    const bool words = !calls && (n.b < 0 || n.b > 1) && are_many_words(item);
    const auto add = [&](int32_t a, int32_t b) {
      if (calls) return call(nfa, item, a, b, *owner);
      if (words) return embed(nfa, regular(item), a, b);
      expand(nfa, item, a, b, false, owner);
    };
    if (owner && !weights_.productive(item)) return nfa.skip(from, to);  // matches "" only
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

  bool are_many_words(int32_t node) const {
    const auto is_word = [&](int32_t item) { return e_[item].op == Op::bytes; };
    return e_[node].op == Op::alt && e_[node].count >= kManyWords && std::ranges::all_of(e_.operands(node), is_word);
  }

  void make_rule(int32_t node, int32_t owner) {
    const bool whole = e_[node].op == Op::both || e_[node].op == Op::negate;
    if (whole || (e_[node].regular && weights_.weight(node) >= kKept)) {
      const Shared automaton = whole ? shared_regular(node) : kept_rule_automaton(node, owner);
      rules_.push_back({automaton, 0, automaton->size()});
      return;
    }
    make_deterministic(node, owner, made_);
    rules_.push_back({nullptr, others_.size(), made_.size()});
    others_.append(made_);
  }

  // Kept with the numbers that the key gives to what it calls.
  Shared kept_rule_automaton(int32_t node, int32_t owner) {
    auto& known = KnownAutomata::instance();
    const auto [key, nodes] = spelled_out('r', node);
    if (const auto found = known.find(key)) {
      spending_.pay(found->cost);
      return with_symbols(found->automaton, [&](int32_t symbol) { return callee(nodes[size_t(symbol)], owner); });
    }
    const auto before = spending_.spent();
    const auto made = std::make_shared<Automaton>();
    make_deterministic(node, owner, *made);
    for (size_t i = 0; i < nodes.size(); ++i) numbers_[size_t(nodes[i])] = int32_t(i);
    known.keep(key, {with_symbols(made, [&](int32_t symbol) { return numbers_[size_t(callees_[size_t(symbol)].node)]; }),
                     spending_.spent() - before});
    for (int32_t one : nodes) numbers_[size_t(one)] = -1;
    return made;
  }

  template <class Symbol> static Shared with_symbols(const Shared& from, Symbol&& symbol) {
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

  void make_deterministic(int32_t node, int32_t owner, Automaton& out) {
    rule_.clear();
    const int32_t start = rule_.state(), accept = rule_.state();
    expand(rule_, node, start, accept, true, &owner);
    determinizer_.run(rule_, start, accept, out);
  }

  // It is kept long after it is made, and may be large: it gets the memory that it needs.
  void put_together() {
    size_t states = 2, edges = others_.edge_count();
    for (auto& rule : rules_) {
      states += size_t(rule.size);
      if (rule.automaton) edges += rule.automaton->edge_count();
    }
    net_.states_.reserve(states), net_.edges_.reserve(edges), net_.rules_.reserve(rules_.size());
    // States 0 and 1; neither leads anywhere.
    net_.states_ = {{0, 0, 0, true, false}, {0, 0, 0, true, false}};
    for (auto& rule : rules_) add_rule(rule.automaton ? *rule.automaton : others_, rule.first, rule.size);
    net_.calls_.shrink_to_fit();
  }

  void add_rule(const Automaton& automaton, int32_t first, int32_t size) {
    const int32_t base = net_.size();
    net_.rules_.push_back({base, 0});
    for (int32_t s = 0; s < size; ++s) {
      const auto edges = automaton.edges(first + s);
      const auto symbols = automaton.symbols(first + s);
      for (auto& edge : edges) net_.edges_.push_back({edge.lo, edge.hi, base + edge.to});
      for (auto& edge : symbols) {
        if (edge.symbol < kMarkSymbols + kMarks)
          marks_.push_back({edge.symbol - kMarkSymbols, base + s, base + edge.to});
        else if (edge.symbol < 0)
          net_.tokens_.push_back({~edge.symbol, base + edge.to});
        else
          net_.calls_.push_back({edge.symbol, base + edge.to});
      }
      const bool accepts = automaton.accepts(first + s), leads_on = !edges.empty() || !symbols.empty();
      net_.states_.push_back({uint32_t(net_.edges_.size()), uint32_t(net_.calls_.size()), uint32_t(net_.tokens_.size()),
                              accepts, accepts && !leads_on});
    }
  }

  void add_marks() {
    if (marks_.empty()) return;
    net_.item_ends_.assign(net_.states_.size(), -1), net_.openings_.assign(net_.states_.size(), -1);
    for (const auto& [mark, state, to] : marks_)
      (mark == kItemEnd ? net_.item_ends_ : net_.openings_)[size_t(state)] = to;
  }

  // A cycle among calls from start states is left recursion. (A callee that can match "" is stepped over in the
  // caller's own automaton, so that calls hidden behind it stand at the start as well.)
  void order_rules() {
    const auto n = size_t(net_.rules());
    enum : uint8_t { fresh, open, ended };
    std::vector<uint8_t> state(n, fresh);
    struct Frame {
      int32_t rule;
      size_t next;
    };
    std::vector<Frame> path;
    std::vector<int32_t> done;
    for (int32_t root = 0; root < int32_t(n); ++root) {
      if (state[size_t(root)] != fresh) continue;
      state[size_t(root)] = open;
      path.push_back({root, 0});
      while (!path.empty()) {
        auto& [rule, next] = path.back();
        const auto calls = net_.calls(net_.rules_[size_t(rule)].start);
        if (next == calls.size()) {
          state[size_t(rule)] = ended;
          done.push_back(rule);
          path.pop_back();
          continue;
        }
        const int32_t called = calls[next++].rule;
        if (state[size_t(called)] == open) {
          const auto owner = std::to_string(callees_[size_t(called)].owner);
          throw GrammarError(
              "grammar_left_recursive",
              "rule " + owner + " can call itself before it has read anything: begin it with something else",
              "rules[" + owner + "]");
        }
        if (state[size_t(called)] == fresh) state[size_t(called)] = open, path.push_back({called, 0});
      }
    }
    net_.by_order_.assign(done.rbegin(), done.rend());
    for (size_t i = 0; i < n; ++i) net_.rules_[size_t(net_.by_order_[i])].order = int32_t(i);
  }

  Program program_;
  Expressions& e_;
  Spending& spending_;
  Determinizer determinizer_;
  Nfa rule_;                      // scratch of make_deterministic()
  Automaton made_;                // scratch of make_rule()
  std::vector<Shared> parts_;     // by node
  std::vector<int32_t> numbers_;  // scratch of spelled_out()
  ExpressionWeights weights_;     // made of parts
  std::vector<Callee> callees_;
  std::vector<int32_t> callee_of_;  // by node; -1: none
  struct Rule {
    Shared automaton;  // null: one of `others_`
    int32_t first, size;
  };
  std::vector<Rule> rules_;  // by callee
  Automaton others_;         // of all rules that no other grammar has had, one after the other
  struct Marked {
    int32_t mark, state, to;
  };
  std::vector<Marked> marks_;
  Network net_;
};

Network build_network(Program program, Spending& spending) {
  return NetworkBuilder(std::move(program), spending).run();
}

}  // namespace anneal::grammar
