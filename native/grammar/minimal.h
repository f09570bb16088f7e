// Deterministic automata without states that make no difference.
#pragma once
#include "automaton.h"
#include "budgets.h"
#include "span_set.h"

namespace anneal::grammar {

// For automata whose states are numbered in the order in which a breadth-first visit meets them, and so is the
// result.

// Of equal states one: equal languages give equal automata. Keeps its memory from one automaton to the next.
class Minimizer {
 public:
  explicit Minimizer(Spending& spending) : spending_(spending) {}
  void run(const Automaton& automaton, Automaton& out);
  Automaton run(const Automaton& automaton) {
    Automaton out;
    run(automaton, out);
    return out;
  }

 private:
  int32_t block_of(const Automaton& automaton, int32_t state);

  Spending& spending_;
  std::vector<int32_t> ahead_, waiting_;
  std::vector<int32_t> block_;  // of equal states; -1: does not reach acceptance
  SpanSet blocks_;              // by what their states accept and where they lead
  std::vector<uint64_t> words_;
  std::vector<int32_t> order_, number_;
};

// Only without the states that do not reach acceptance.
Automaton trimmed(const Automaton& automaton);
// Automata this large come of long counts, which keep nearly all states apart: to look for equal ones costs more than
// it saves.
constexpr int32_t kNearlyMinimal = 20'000;

}  // namespace anneal::grammar
