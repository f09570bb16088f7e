// What the expressions of a program can match, and how many states they take: so it is known which rules take the place
// of their calls.
#pragma once
#include <functional>

#include "expressions.h"

namespace anneal::grammar {

// Of nodes that the start rule uses, but for what stands inside intersections and complements.
class ExpressionWeights {
 public:
  // `states_of`: size of the automaton of a set of characters, an intersection or a complement.
  ExpressionWeights(const Program& program, Spending& spending, std::function<int32_t(int32_t)> states_of);

  // Matches "".
  bool nullable(int32_t node) const { return nullable_[size_t(node)]; }
  // Matches something.
  bool productive(int32_t node) const { return productive_[size_t(node)]; }
  // A rule's: small and flat enough to take the place of its calls.
  bool inlined(int32_t node) const { return inlined_[size_t(node)]; }
  // States that the node takes in its rule's automaton, about.
  int64_t weight(int32_t node) const { return weight_[size_t(node)]; }
  int64_t repeated(int32_t node, int64_t count) const;
  // Repeats so many different characters that it is free text.
  bool is_wide(int32_t node) const;

 private:
  void find_used();
  std::vector<int32_t> settled() const;
  bool matches_empty(int32_t node) const;
  bool matches_something(int32_t node) const;
  void weigh(int32_t node, std::vector<bool>& weighed);
  int64_t lone_characters(int32_t node) const;

  const Program& program_;
  const Expressions& e_;
  Spending& spending_;
  std::function<int32_t(int32_t)> states_of_;
  std::vector<int32_t> used_;  // each after its operands
  std::vector<bool> nullable_, productive_, inlined_;
  std::vector<int64_t> weight_, breadth_;
  std::vector<int32_t> height_;
};

}  // namespace anneal::grammar
