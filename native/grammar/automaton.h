// Finite automata over bytes: from nondeterministic to minimal deterministic ones, and their products.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "budgets.h"

namespace anneal::grammar {

struct ByteEdge {
  uint8_t lo, hi;
  int32_t to;
};

// Any symbol that is not a byte: rules to call, and tokens.
struct MarkEdge {
  int32_t symbol, to;
};

// Deterministic. State 0 is the start; from every state an accepting one is reached; no states at all: nothing is
// accepted.
class Automaton {
 public:
  struct State {
    uint32_t edges, marks;  // where its edges end; they begin where those of the state before end
    bool accepts;
  };
  int32_t size() const { return int32_t(states_.size()); }
  bool accepts(int32_t state) const { return states_[size_t(state)].accepts; }
  std::span<const ByteEdge> edges(int32_t state) const {  // sorted, disjoint
    const uint32_t from = state == 0 ? 0 : states_[size_t(state) - 1].edges;
    return {edges_.data() + from, states_[size_t(state)].edges - from};
  }
  std::span<const MarkEdge> marks(int32_t state) const {  // sorted, one per symbol
    const uint32_t from = state == 0 ? 0 : states_[size_t(state) - 1].marks;
    return {marks_.data() + from, states_[size_t(state)].marks - from};
  }

  size_t edge_count() const { return edges_.size(); }
  bool has_marks() const { return !marks_.empty(); }
  size_t memory() const {
    return states_.capacity() * sizeof(State) + edges_.capacity() * sizeof(ByteEdge) +
           marks_.capacity() * sizeof(MarkEdge);
  }

  // Building. About so many states are to come.
  void expect(int32_t states) { states_.reserve(size_t(states)), edges_.reserve(size_t(states)); }
  // Edges of the state that close_state() will end.
  void edge(uint8_t lo, uint8_t hi, int32_t to) {
    const size_t from = states_.empty() ? 0 : states_.back().edges;
    if (edges_.size() > from && edges_.back().to == to && int(edges_.back().hi) + 1 == lo)
      edges_.back().hi = hi;
    else
      edges_.push_back({lo, hi, to});
  }
  void mark(int32_t symbol, int32_t to) { marks_.push_back({symbol, to}); }
  void close_state(bool accepts) { states_.push_back({uint32_t(edges_.size()), uint32_t(marks_.size()), accepts}); }

 private:
  std::vector<State> states_;
  std::vector<ByteEdge> edges_;
  std::vector<MarkEdge> marks_;
};

// Nondeterministic, with silent steps. One state accepts, named when it is made deterministic.
class Nfa {
 public:
  explicit Nfa(Spending& spending) : spending_(spending) { heads_.reserve(64), arcs_.reserve(64); }
  int32_t state() {
    heads_.push_back(-1);
    return int32_t(heads_.size()) - 1;
  }
  void bytes(int32_t from, uint8_t lo, uint8_t hi, int32_t to) { arc(from, {Arc::bytes, lo, hi, 0, to, -1}); }
  void mark(int32_t from, int32_t symbol, int32_t to) { arc(from, {Arc::mark, 0, 0, symbol, to, -1}); }
  void skip(int32_t from, int32_t to) { arc(from, {Arc::skip, 0, 0, 0, to, -1}); }

  struct Arc {
    enum Kind : uint8_t { bytes, mark, skip } kind;
    uint8_t lo, hi;
    int32_t symbol, to, next;
  };
  int32_t size() const { return int32_t(heads_.size()); }
  int32_t head(int32_t state) const { return heads_[size_t(state)]; }
  const Arc& operator[](int32_t arc) const { return arcs_[size_t(arc)]; }

 private:
  void arc(int32_t from, Arc arc) {
    spending_.bytes(sizeof(Arc) + 8);
    spending_.tick();
    arc.next = heads_[size_t(from)];
    heads_[size_t(from)] = int32_t(arcs_.size());
    arcs_.push_back(arc);
  }
  Spending& spending_;
  std::vector<int32_t> heads_;  // first arc of each state; -1: none
  std::vector<Arc> arcs_;
};

// Minimal and numbered in the order of a breadth-first visit: equal languages give equal automata.
Automaton deterministic(const Nfa& nfa, int32_t start, int32_t accept, Spending& spending);

// What both accept; what the first accepts and the second does not. Without marks.
Automaton intersection(const Automaton& a, const Automaton& b, Spending& spending);
Automaton difference(const Automaton& a, const Automaton& b, Spending& spending);

}  // namespace anneal::grammar
