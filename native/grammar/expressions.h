// A grammar in intermediate form: rules of expressions, decoded from the Int32 program that front ends hand over.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "budgets.h"

namespace anneal::grammar {

// The operation codes of a program, in prefix order: header [version = 1, start, rule count], then an expression per
// rule.
enum class Op : int32_t {
  empty = 0,    // matches ""
  never = 1,    // matches nothing
  chars = 2,    // n, lo, hi, ...: one code point of sorted, disjoint ranges
  bytes = 3,    // n, byte, ...
  token = 4,    // id: that one token, whatever its bytes
  seq = 5,      // n, expressions
  alt = 6,      // n, expressions
  repeat = 7,   // min, max (-1: unbounded), expression
  rule = 8,     // index
  both = 9,     // n, expressions: intersection of regular expressions
  negate = 10,  // expression: the valid UTF-8 strings that a regular expression does not match
  same = 11,  // number of an earlier expression; those of chars, seq, alt, repeat, both and negate are numbered as they
              // begin
  mark = 12,  // 0: an array whose items differ was opened; 1: an item of the innermost array has ended. Matches ""
};

enum Mark : int32_t { kOpening = 0, kItemEnd = 1, kMarks = 2 };

struct Node {
  Op op;
  int32_t a, b;           // repeat: min, max; rule: index; token: id; mark: Mark
  uint32_t first, count;  // operands: numbers of chars and bytes, nodes of the others
  bool regular;           // holds neither rule, token nor mark
  bool text;              // is known to match nothing but valid UTF-8
  uint64_t hash;          // of what it is made of, whatever else was made: orders the choices of alt
};

// Equal expressions are one node, and operands come before the node that holds them.
class Expressions {
 public:
  int32_t make(Op op, std::span<const int32_t> operands = {}, int32_t a = 0, int32_t b = 0);
  const Node& operator[](int32_t node) const { return nodes_[size_t(node)]; }
  std::span<const int32_t> operands(int32_t node) const {
    return {operands_.data() + nodes_[size_t(node)].first, nodes_[size_t(node)].count};
  }
  bool has_operand_nodes(int32_t node) const {
    return nodes_[size_t(node)].op >= Op::seq && nodes_[size_t(node)].op != Op::rule &&
           nodes_[size_t(node)].op != Op::mark;
  }
  int32_t size() const { return int32_t(nodes_.size()); }

 private:
  int32_t add(Op op, std::span<const int32_t> operands, int32_t a, int32_t b);
  bool is_text(Op op, std::span<const int32_t> operands) const;
  void grow();
  std::vector<Node> nodes_;
  std::vector<int32_t> operands_;
  std::vector<int32_t> slots_ = std::vector<int32_t>(256, -1);  // nodes by their hashes
  std::vector<int32_t> items_;                                  // scratch
};

struct Program {
  Expressions expressions;
  std::vector<int32_t> rules;  // their nodes
  int32_t start = 0;
};

// Throws GrammarError "invalid_grammar" for anything that is not a program. `tokens`: ids are below it.
Program decode(std::span<const int32_t> program, int32_t tokens, Spending& spending);

}  // namespace anneal::grammar
