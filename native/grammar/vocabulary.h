// What a mask walks: the tree of a tokenizer's tokens, and its slices.
#pragma once
#include "slices.h"
#include "token_tree.h"

namespace anneal::grammar {

class Vocabulary : public TokenTree {
 public:
  // As TokenTree's.
  Vocabulary(std::span<const uint8_t> bytes, std::span<const int32_t> offsets, std::span<const int32_t> special,
             std::span<const int32_t> end)
      : TokenTree(bytes, offsets, special, end), slices_(*this) {}

  const Slices& slices() const { return slices_; }
  size_t memory() const { return TokenTree::memory() + slices_.memory(); }

 private:
  const Slices slices_;
};

}  // namespace anneal::grammar
