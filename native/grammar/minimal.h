// Deterministic automata without states that make no difference.
#pragma once
#include "automaton.h"
#include "budgets.h"

namespace anneal::grammar {

// For automata whose states are numbered in the order in which a breadth-first visit meets them, and so is the
// result.

// Of equal states one: equal languages give equal automata.
Automaton minimal(Automaton automaton, Spending& spending);
// Only without the states that do not reach acceptance.
Automaton trimmed(const Automaton& automaton);
// Automata this large come of long counts, which keep nearly all states apart: to look for equal ones costs more than
// it saves.
constexpr int32_t kNearlyMinimal = 20'000;

}  // namespace anneal::grammar
