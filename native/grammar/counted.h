// The texts of an automaton that are so many items, such as characters of a string: its product with a repetition,
// without the automaton of the repetition.
#pragma once
#include "automaton.h"
#include "budgets.h"

namespace anneal::grammar {

// Whether it is known of each item where it ends as soon as it is read, as none begins with another, and how long it is
// at most.
bool is_countable(const Automaton& item);

// What `a` accepts of `min` to `max` (-1: any number) items, which are countable. Without symbols.
Automaton counted(const Automaton& a, const Automaton& item, int32_t min, int32_t max, Spending& spending);

}  // namespace anneal::grammar
