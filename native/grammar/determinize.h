// From nondeterministic automata to minimal deterministic ones, by the subset construction.
#pragma once
#include "automaton.h"
#include "budgets.h"

namespace anneal::grammar {

// Nondeterministic, with silent steps. One state accepts, named when it is made deterministic.
class Nfa {
 public:
  explicit Nfa(Spending& spending) : spending_(spending) { heads_.reserve(64), arcs_.reserve(64); }
  int32_t state() {
    heads_.push_back(-1);
    return int32_t(heads_.size()) - 1;
  }
  void bytes(int32_t from, uint8_t lo, uint8_t hi, int32_t to) { arc(from, {Arc::bytes, lo, hi, 0, to, -1}); }
  void symbol(int32_t from, int32_t symbol, int32_t to) { arc(from, {Arc::special, 0, 0, symbol, to, -1}); }
  void skip(int32_t from, int32_t to) { arc(from, {Arc::skip, 0, 0, 0, to, -1}); }

  struct Arc {
    enum Kind : uint8_t { bytes, special, skip } kind;
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

}  // namespace anneal::grammar
