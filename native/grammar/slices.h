// The vocabulary in two: the tokens that some characters alone make, which are permitted together wherever any text of
// these characters is, and the rest, which is walked.
#pragma once
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "character_groups.h"
#include "token_tree.h"

namespace anneal::grammar {

struct Slice {
  std::shared_ptr<const std::vector<uint32_t>> tokens;  // bits
  Groups groups;
  int chars;  // longer tokens of these characters are not in it, but walked
};

// Each is made when it is first asked for. Used by all threads.
class Slices {
 public:
  static constexpr int kAnyLength = INT32_MAX;
  // A limit on characters at which slices are made; the largest one.
  static constexpr int kMaxChars = 32;

  struct Content {
    Groups groups;
    uint16_t chars;
  };

  explicit Slices(const TokenTree& tree);

  // How many tokens such a slice has.
  size_t count(Groups groups, int chars) const;
  // Tokens of at most `chars` characters. `exact`: longer ones of these characters are permitted nowhere.
  Slice slice(Groups groups, int chars, bool exact) const;
  // Whether nothing at and below a node of the vocabulary need be walked.
  bool covers(const Slice& slice, uint32_t node) const {
    return (below_[node].groups & ~slice.groups) == 0 && below_[node].chars <= slice.chars;
  }

  // Without those that are kept.
  size_t memory() const { return below_.capacity() * sizeof(Content) + size_t(tree_.size()) * sizeof(Token); }

 private:
  using Bits = std::vector<uint32_t>;
  struct Kept {
    uint64_t key;
    std::shared_ptr<const Bits> tokens;
  };
  std::shared_ptr<const Bits> tokens(Groups groups, int chars) const;

  const TokenTree& tree_;
  std::vector<Content> below_;  // by node of the tree: what the tokens at and below it have together, at most
  struct Token {
    int32_t token;
    uint16_t chars;
  };
  std::unordered_map<Groups, std::vector<Token>> tokens_;  // by their groups, rising by characters
  mutable std::mutex mutex_;
  mutable std::list<Kept> kept_;  // used last first
  mutable std::unordered_map<uint64_t, std::list<Kept>::iterator> found_;
};

}  // namespace anneal::grammar
