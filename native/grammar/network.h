// A grammar as automata that call one another: one deterministic automaton per rule, over bytes, tokens and calls of
// rules. With a stack of return states this is a pushdown automaton.
//
// What holds of every network: each state reaches its rule's acceptance, each rule matches something (so whatever stack
// is reached can be completed), and no rule calls itself, directly or through others, before a byte was read.
#pragma once
#include "automaton.h"
#include "budgets.h"
#include "expressions.h"

namespace anneal::grammar {

struct CallEdge {
  int32_t rule, to;  // `to`: where the caller goes on
};
struct TokenEdge {
  int32_t token, to;
};

class Network {
 public:
  // Two states that belong to no rule: the output is complete; the rule a mask was asked of has ended.
  static constexpr int32_t kDone = 0, kExit = 1;

  struct State {
    uint32_t edges, calls, tokens;  // ends, as in Automaton
    bool accepts;
    bool last;  // accepts, and nothing leads on
  };
  struct Rule {
    int32_t start;  // state
    int32_t order;  // a rule comes before those it can call without reading a byte
  };

  int32_t size() const { return int32_t(states_.size()); }
  int32_t rules() const { return int32_t(rules_.size()); }
  const State& operator[](int32_t state) const { return states_[size_t(state)]; }
  const Rule& rule(int32_t rule) const { return rules_[size_t(rule)]; }
  int32_t start_rule() const { return 0; }
  // Rules by `order`.
  int32_t rule_at(int32_t order) const { return by_order_[size_t(order)]; }
  std::span<const ByteEdge> edges(int32_t s) const {
    return {edges_.data() + begin(s, &State::edges), edges_.data() + states_[size_t(s)].edges};
  }
  std::span<const CallEdge> calls(int32_t s) const {
    return {calls_.data() + begin(s, &State::calls), calls_.data() + states_[size_t(s)].calls};
  }
  std::span<const TokenEdge> tokens(int32_t s) const {
    return {tokens_.data() + begin(s, &State::tokens), tokens_.data() + states_[size_t(s)].tokens};
  }
  bool has_tokens() const { return !tokens_.empty(); }
  // Where a state goes on without a byte: after an item of an array whose items differ, if it is equal to no earlier
  // one; after the bracket that opens such an array. -1: nowhere.
  bool has_marks() const { return !item_ends_.empty(); }
  int32_t item_end(int32_t s) const { return item_ends_.empty() ? -1 : item_ends_[size_t(s)]; }
  int32_t opening(int32_t s) const { return openings_.empty() ? -1 : openings_[size_t(s)]; }
  size_t memory() const {
    return states_.size() * sizeof(State) + edges_.size() * sizeof(ByteEdge) + calls_.size() * 8 + tokens_.size() * 8 +
           rules_.size() * 12 + (item_ends_.size() + openings_.size()) * 4;
  }

 private:
  friend class NetworkBuilder;
  uint32_t begin(int32_t s, uint32_t State::*end) const { return s == 0 ? 0 : states_[size_t(s) - 1].*end; }
  std::vector<State> states_;
  std::vector<ByteEdge> edges_;
  std::vector<CallEdge> calls_;
  std::vector<TokenEdge> tokens_;
  std::vector<Rule> rules_;
  std::vector<int32_t> by_order_;
  std::vector<int32_t> item_ends_, openings_;  // by state; empty: no array's items must differ
};

// Throws GrammarError "grammar_too_complex", "grammar_left_recursive" or "grammar_empty".
Network build_network(Program program, Spending& spending);

}  // namespace anneal::grammar
