// Which text a state takes whatever its characters are: strings, names and the like, for whose tokens nothing need be
// walked.
#pragma once
#include <unordered_map>

#include "character_groups.h"
#include "network.h"

namespace anneal::grammar {

struct TextReach {
  Groups groups = 0;   // every text of these characters may follow,
  int chars = 0;       // if it has at most so many; Slices::kAnyLength: whatever its length
  bool exact = false;  // no longer text of these characters may follow
  bool ends = false;   // the rule may end within such a text
};

class TextReaches {
 public:
  explicit TextReaches(const Network& network) : network_(network) {}

  // Of a state, inside its rule.
  const TextReach& of(int32_t state);
  size_t memory() const { return bytes_; }

 private:
  // What one character leads to.
  struct Steps {
    Groups live = 0;                             // groups all of whose characters may follow
    Groups some = 0;                             // groups of which some may
    Groups unclear = 0;                          // groups that may also lead into rules that are called
    std::vector<std::pair<int32_t, Groups>> to;  // states, by groups of `live`
    void lead(int32_t state, Groups by);
  };
  TextReach find(int32_t state);
  bool follow(int32_t state, Groups& groups, TextReach& reach);
  const Steps& steps(int32_t state);
  Steps own_steps(int32_t state) const;
  void add_beyond_ascii(int32_t state, Steps& steps) const;

  const Network& network_;
  std::unordered_map<int32_t, TextReach> known_;
  std::unordered_map<int32_t, Steps> steps_;
  size_t bytes_ = 0;
};

}  // namespace anneal::grammar
