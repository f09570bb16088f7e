// Products of automata.
#pragma once
#include "automaton.h"
#include "budgets.h"

namespace anneal::grammar {

// What both accept; what the first accepts and the second does not. Without symbols.
Automaton intersection(const Automaton& a, const Automaton& b, Spending& spending);
Automaton difference(const Automaton& a, const Automaton& b, Spending& spending);

}  // namespace anneal::grammar
