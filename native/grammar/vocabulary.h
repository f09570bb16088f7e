// What a mask walks: the tree of a tokenizer's tokens, its slices and separators.
#pragma once
#include <mutex>
#include <optional>

#include "separators.h"
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
  // Made when they are first asked for.
  const Separators& separators() const {
    std::call_once(separated_, [&] { separators_.emplace(*this); });
    return *separators_;
  }
  size_t memory() const { return TokenTree::memory() + slices_.memory(); }

 private:
  const Slices slices_;
  mutable std::once_flag separated_;
  mutable std::optional<const Separators> separators_;
};

}  // namespace anneal::grammar
