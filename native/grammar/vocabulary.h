// The tokens of a tokenizer as a tree of bytes, flattened: what a mask walks.
#pragma once
#include <cstdint>
#include <iterator>
#include <list>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace anneal::grammar {

struct LocalMask;

class Vocabulary {
 public:
  // bytes[offsets[i] .. offsets[i + 1]) are those of token i. Special tokens never match text; end tokens (special as
  // well) end an output. Tokens without bytes match nothing. Throws std::invalid_argument.
  Vocabulary(std::span<const uint8_t> bytes, std::span<const int32_t> offsets, std::span<const int32_t> special,
             std::span<const int32_t> end);
  ~Vocabulary();

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
  // Bytes from the root to the deepest node at or below each node.
  const std::vector<uint16_t>& deepest() const { return deepest_; }
  // Bits of the tokens of at most kSteps[step] bytes.
  static constexpr int kSteps[] = {8, 16, 32, 64};
  const std::vector<uint32_t>& short_tokens(size_t step) const { return short_[step]; }
  bool is_text(int32_t token) const { return text_[size_t(token)]; }
  bool is_end(int32_t token) const;
  const std::vector<int32_t>& end() const { return end_; }
  std::span<const uint8_t> bytes(int32_t token) const {
    return {bytes_.data() + offsets_[size_t(token)], size_t(lengths_[size_t(token)])};
  }
  int longest() const { return longest_; }  // bytes of the longest text token
  size_t memory() const;

  // Masks of automaton states, shared by all grammars of this vocabulary: `key` describes everything they depend on.
  std::shared_ptr<const LocalMask> find(const std::string& key) const;
  void keep(const std::string& key, std::shared_ptr<const LocalMask> mask, size_t bytes) const;

 private:
  std::vector<uint8_t> bytes_;
  std::vector<int32_t> offsets_, lengths_, same_, end_;
  std::vector<bool> text_;
  std::vector<Node> nodes_;
  std::vector<uint16_t> deepest_;
  std::vector<uint32_t> short_[std::size(kSteps)];
  uint32_t roots_[256] = {};
  int longest_ = 0;

  struct Kept {
    std::string key;
    std::shared_ptr<const LocalMask> mask;
    size_t bytes;
  };
  mutable std::mutex mutex_;
  mutable std::list<Kept> kept_;  // used last first
  mutable std::unordered_map<std::string, std::list<Kept>::iterator> found_;
  mutable size_t kept_bytes_ = 0;
};

}  // namespace anneal::grammar
