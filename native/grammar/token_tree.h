// The tokens of a tokenizer as a tree of bytes, flattened.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace anneal::grammar {

class TokenTree {
 public:
  // bytes[offsets[i] .. offsets[i + 1]) are those of token i. Special tokens never match text; end tokens (special as
  // well) end an output. Tokens without bytes match nothing. Throws std::invalid_argument.
  TokenTree(std::span<const uint8_t> bytes, std::span<const int32_t> offsets, std::span<const int32_t> special,
            std::span<const int32_t> end);

  // Nodes in prefix order: children follow their parent, in rising order of their bytes. Node 0 is the root.
  struct Node {
    uint32_t next;   // the first node that is not below this one
    int32_t token;   // one that ends here; -1: none. More with the same bytes: same_bytes()
    uint16_t depth;  // bytes from the root, at most kLongest
    uint8_t byte;
  };
  static constexpr size_t kLongest = 65535;

  int32_t size() const { return int32_t(lengths_.size()); }
  size_t words() const { return (lengths_.size() + 31) / 32; }
  const std::vector<Node>& nodes() const { return nodes_; }
  // First child of the root with each byte; 0: none.
  uint32_t first_child(uint8_t byte) const { return roots_[byte]; }
  bool has_twins() const { return !same_.empty(); }
  // The next token with the same bytes; -1: none.
  int32_t same_bytes(int32_t token) const { return same_.empty() ? -1 : same_[size_t(token)]; }
  bool is_text(int32_t token) const { return text_[size_t(token)]; }
  bool is_end(int32_t token) const;
  const std::vector<int32_t>& end() const { return end_; }
  std::span<const uint8_t> bytes(int32_t token) const {
    return {bytes_.data() + offsets_[size_t(token)], size_t(lengths_[size_t(token)])};
  }
  int longest() const { return longest_; }  // bytes of the longest text token
  size_t memory() const;

 private:
  std::vector<uint8_t> bytes_;
  std::vector<int32_t> offsets_, lengths_, same_, end_;
  std::vector<bool> text_;
  std::vector<Node> nodes_;
  uint32_t roots_[256] = {};
  int longest_ = 0;
};

}  // namespace anneal::grammar
