// In which subtrees of the vocabulary a token goes on to another item of an array.
#pragma once
#include <utility>

#include "token_tree.h"

namespace anneal::grammar {

class Separators {
 public:
  // Below a node, some token has a comma; a quotation mark, and after it a comma or bracket; an opening bracket, and
  // after it a comma.
  enum Kind : uint8_t { kComma = 1, kEnd = 2, kQuotedEnd = 4, kOpenedComma = 8 };

  explicit Separators(const TokenTree& tree) : below_(tree.nodes().size(), 0) {
    const auto& nodes = tree.nodes();
    std::vector<uint8_t> siblings(size_t(tree.longest()) + 2, 0);  // by depth: of those that come after
    for (size_t i = nodes.size(); i-- > 1;) {
      const auto& node = nodes[i];
      const uint8_t below = below_[i] = std::exchange(siblings[node.depth + 1u], uint8_t(0));
      uint8_t kinds = below;
      if (node.byte == ',') kinds |= kComma | kEnd;
      if (node.byte == ']' || node.byte == '}') kinds |= kEnd;
      if (node.byte == '"' && below & kEnd) kinds |= kQuotedEnd;
      if (node.byte == '[' && below & kComma) kinds |= kOpenedComma;
      siblings[node.depth] |= kinds;
    }
  }
  bool has(uint32_t node, Kind kind) const { return below_[node] & kind; }
  size_t memory() const { return below_.capacity(); }

 private:
  std::vector<uint8_t> below_;  // by node
};

}  // namespace anneal::grammar
