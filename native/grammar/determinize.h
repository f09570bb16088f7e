// From nondeterministic automata to minimal deterministic ones, by the subset construction.
#pragma once
#include "automaton.h"
#include "budgets.h"
#include "minimal.h"
#include "span_set.h"

namespace anneal::grammar {

// Nondeterministic, with silent steps. One state accepts, named when it is made deterministic.
class Nfa {
 public:
  explicit Nfa(Spending& spending) : spending_(spending) { heads_.reserve(64), arcs_.reserve(64); }
  int32_t state() {
    heads_.push_back({-1, -1});
    return int32_t(heads_.size()) - 1;
  }
  void bytes(int32_t from, uint8_t lo, uint8_t hi, int32_t to) { step(from, {false, lo, hi, 0, to, -1}); }
  void symbol(int32_t from, int32_t symbol, int32_t to) { step(from, {true, 0, 0, symbol, to, -1}); }
  void skip(int32_t from, int32_t to) { arc(heads_[size_t(from)].skips, {false, 0, 0, 0, to, -1}); }
  // Keeps the memory.
  void clear() { heads_.clear(), arcs_.clear(); }

  struct Arc {
    bool special;  // a symbol; else bytes, or nothing in a silent step
    uint8_t lo, hi;
    int32_t symbol, to, next;
  };
  struct Heads {
    int32_t steps, skips;  // first arcs of a state; -1: none
  };
  int32_t size() const { return int32_t(heads_.size()); }
  const Heads& heads(int32_t state) const { return heads_[size_t(state)]; }
  const Arc& operator[](int32_t arc) const { return arcs_[size_t(arc)]; }

 private:
  void step(int32_t from, Arc one) { arc(heads_[size_t(from)].steps, one); }
  void arc(int32_t& head, Arc one) {
    spending_.bytes(28);
    spending_.tick();
    one.next = head;
    head = int32_t(arcs_.size());
    arcs_.push_back(one);
  }
  Spending& spending_;
  std::vector<Heads> heads_;
  std::vector<Arc> arcs_;
};

// Keeps its memory from one automaton to the next.
class Determinizer {
 public:
  explicit Determinizer(Spending& spending) : spending_(spending), minimizer_(spending) {}

  // Minimal and numbered in the order of a breadth-first visit: equal languages give equal automata.
  void run(const Nfa& nfa, int32_t start, int32_t accept, Automaton& out);
  Automaton run(const Nfa& nfa, int32_t start, int32_t accept) {
    Automaton out;
    run(nfa, start, accept, out);
    return out;
  }

 private:
  struct Step {
    uint8_t lo, hi;
    int32_t to;
  };
  void add(int32_t state);
  int32_t number_of(int32_t state);
  int32_t number();
  void close(uint32_t set);
  void add_steps();

  Spending& spending_;
  Minimizer minimizer_;
  const Nfa* nfa_ = nullptr;
  int32_t accept_ = 0;
  std::vector<uint32_t> seen_;  // the round in which a state was met
  uint32_t round_ = 0;
  std::vector<int32_t> alone_;  // sets that one state comes to; -1: not known yet
  std::vector<int32_t> work_;
  std::vector<uint64_t> set_;
  std::vector<Step> steps_, live_;
  std::vector<SymbolEdge> symbols_;
  SpanSet sets_;
  Automaton out_;
};

}  // namespace anneal::grammar
