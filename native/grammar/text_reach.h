// Which text a state takes whatever its characters are: strings, names and the like, for whose tokens nothing need be
// walked.
#pragma once
#include <unordered_map>

#include "character_groups.h"
#include "network.h"
#include "slices.h"

namespace anneal::grammar {

struct TextReach {
  Groups groups = 0;   // every text of these characters may follow,
  int chars = 0;       // if it has at most so many; Slices::kAnyLength: whatever its length
  bool exact = false;  // no longer text of these characters may follow within the rule
  bool ends = false;   // the rule may end within such a text; not told of texts of a rule that is called
  size_t tokens = 0;   // such texts in the vocabulary
};

class TextReaches {
 public:
  TextReaches(const Network& network, const Slices& slices) : network_(network), slices_(slices) {}

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
  const TextReach& known(int32_t state);
  TextReach find(int32_t state);
  TextReach own_reach(int32_t state);
  bool follow(int32_t state, Groups& groups, TextReach& reach);
  const Steps& steps(int32_t state);
  Steps own_steps(int32_t state);
  void add_beyond_ascii(int32_t state, Steps& steps);
  Groups follow_beyond_ascii(int32_t state, std::vector<std::pair<int32_t, Groups>>& to) const;

  const Network& network_;
  const Slices& slices_;
  std::unordered_map<int32_t, TextReach> known_;
  std::unordered_map<int32_t, Steps> steps_;
  // What the characters beyond ASCII led to where they were looked at last: many states differ in others only.
  struct BeyondAscii {
    std::vector<ByteEdge> edges;
    Groups live = 0;
    std::vector<std::pair<int32_t, Groups>> to;
  };
  BeyondAscii beyond_ascii_;
  size_t bytes_ = 0;
  int rules_left_ = 0;  // that may still be looked at for a state
};

}  // namespace anneal::grammar
