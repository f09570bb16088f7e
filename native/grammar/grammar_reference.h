// A second, slow reading of grammars for tests: derivatives of expressions by one byte at a time. It shares nothing
// with the engine but the meaning of the operations.
#pragma once
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace reference {

// Expressions are numbers; equal ones are the same number.
class Language {
 public:
  int empty() const { return 1; }
  int never() const { return 0; }
  int bytes(const std::vector<int>& bytes);
  int chars(const std::vector<std::pair<int, int>>& ranges);
  int token(int id);
  int seq(std::vector<int> items);
  int alt(std::vector<int> items);
  int repeat(int item, int min, int max);
  int both(std::vector<int> items);
  int negate(int item);
  int rule(int index);
  void define(int index, int expression);

  Language();
  bool nullable(int e);
  // What may follow a byte, or a token (256 + id).
  int after(int e, int symbol);
  // Something is matched.
  bool alive(int e);
  // Too many expressions were made to go on.
  bool exhausted() const { return nodes_.size() > 200'000; }
  // A rule was met that begins with itself, of which derivatives cannot be taken.
  bool left_recursive() const { return left_recursive_; }

 private:
  struct Node {
    char kind;
    std::vector<int> parts;
    auto operator<=>(const Node&) const = default;
  };
  int make(char kind, std::vector<int> parts);
  bool regular_alive(int e);
  std::vector<Node> nodes_;
  std::map<Node, int> known_;
  std::map<std::pair<int, int>, int> after_;
  std::map<int, bool> regular_alive_;
  std::vector<int> rules_;
  std::set<int> open_;
  bool left_recursive_ = false;
};

}  // namespace reference
