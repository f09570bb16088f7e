// Automata of the expressions of a program: of regular ones, which other automata are made of, and of whole rules.
#pragma once
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "automaton.h"
#include "budgets.h"
#include "determinize.h"
#include "expression_weights.h"
#include "expressions.h"

namespace anneal::grammar {

// What all makers of a program share.
struct ExpressionParts {
  explicit ExpressionParts(const Program& of) : program(of), made(size_t(of.expressions.size())) {}
  const Program& program;
  std::vector<std::shared_ptr<const Automaton>> made;  // of regular expressions, by node
  std::mutex words;  // held while one of choices of words is looked for: the only ones that rules add
};

// Symbols of a rule's automaton: this and the next are the marks of Op::mark, others below 0 tokens (~id), and from 0
// on they are nodes that are called.
constexpr int32_t kMarkSymbols = INT32_MIN;

// One for each thread: keeps its memory from one automaton to the next.
class AutomatonMaker {
 public:
  using Shared = std::shared_ptr<const Automaton>;

  AutomatonMaker(ExpressionParts& parts, Spending& spending)
      : parts_(parts),
        program_(parts.program),
        e_(parts.program.expressions),
        spending_(spending),
        determinizer_(spending),
        rule_(spending) {}

  // Of a set of characters, an intersection, a complement or an operand of one. Not while other makers make rules.
  const Automaton& part(int32_t node);

  struct Rule {
    Shared automaton;  // null: states of others()
    int32_t first, size;
  };
  // Of an expression that stands for itself; weights of all that the program uses.
  Rule rule(int32_t node, const ExpressionWeights& weights);
  // The rules that no other grammar has had, one after the other; where their edges lead is counted from the first
  // state of each.
  const Automaton& others() const { return others_; }

 private:
  // How often a node must come.
  struct Count {
    int32_t node, min, max;
  };
  struct SpelledOut {
    std::string key;
    std::vector<int32_t> nodes;  // what the expression is made of, by the numbers that the key gives them
  };

  const Automaton& fragment(int32_t chars);
  Automaton new_fragment(int32_t chars);
  const Automaton& regular(int32_t node) { return *shared_regular(node); }
  Shared shared_regular(int32_t node);
  Automaton new_regular(int32_t node);
  Automaton new_both(int32_t node);
  void flatten(int32_t node, std::vector<int32_t>& items) const;
  bool is_counted(int32_t item, std::optional<Count>& count);
  bool is_long(int32_t node) const;
  int32_t copies(int32_t node) const { return std::max(e_[node].a, e_[node].b); }
  Automaton text();

  SpelledOut spelled_out(char kind, int32_t root);
  template <class Make> Shared kept(const std::string& key, Make&& make);
  template <class Symbol> static Shared with_symbols(const Shared& from, Symbol&& symbol);
  Shared kept_rule(int32_t node, const ExpressionWeights& weights);
  void make_deterministic(int32_t node, const ExpressionWeights& weights, Automaton& out);

  void call(Nfa& nfa, int32_t node, int32_t from, int32_t to, const ExpressionWeights& weights);
  void embed(Nfa& nfa, const Automaton& part, int32_t from, int32_t to);
  void embed_words(Nfa& nfa, int32_t node, int32_t from, int32_t to);
  void expand(Nfa& nfa, int32_t node, int32_t from, int32_t to, bool top, const ExpressionWeights* weights);
  void expand_repeat(Nfa& nfa, int32_t node, int32_t from, int32_t to, bool top, const ExpressionWeights* weights);
  bool are_many_words(int32_t node) const;

  ExpressionParts& parts_;
  const Program& program_;
  const Expressions& e_;
  Spending& spending_;
  Determinizer determinizer_;
  Nfa rule_;                      // scratch of make_deterministic()
  Automaton made_;                // scratch of rule()
  std::vector<int32_t> numbers_;  // scratch of spelled_out()
  Automaton others_;
};

}  // namespace anneal::grammar
