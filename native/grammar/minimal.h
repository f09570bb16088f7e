// Deterministic automata without states that make no difference.
#pragma once
#include "automaton.h"
#include "budgets.h"

namespace anneal::grammar {

// Both for automata whose states are numbered in the order in which a breadth-first visit meets them, and so is the
// result.

// Of equal states one: equal languages give equal automata.
Automaton minimal(Automaton automaton, Spending& spending);
// Only without the states that do not reach acceptance.
Automaton trimmed(const Automaton& automaton);

}  // namespace anneal::grammar
