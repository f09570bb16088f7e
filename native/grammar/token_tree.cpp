#include "token_tree.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <string>

namespace anneal::grammar {

namespace {

void refuse(const std::string& problem) { throw std::invalid_argument(problem); }

}  // namespace

TokenTree::TokenTree(std::span<const uint8_t> bytes, std::span<const int32_t> offsets, std::span<const int32_t> special,
                     std::span<const int32_t> end)
    : bytes_(bytes.begin(), bytes.end()), offsets_(offsets.begin(), offsets.end()), end_(end.begin(), end.end()) {
  if (offsets.size() < 2) refuse("offsets must hold one entry per token and one more");
  if (offsets.size() > (size_t(1) << 24)) refuse("offsets hold more than 16777215 tokens");
  if (offsets.front() != 0 || size_t(offsets.back()) != bytes.size())
    refuse("offsets must go from 0 to the number of bytes");
  const size_t count = offsets.size() - 1;
  lengths_.resize(count);
  for (size_t i = 0; i < count; ++i) {
    if (offsets[i + 1] < offsets[i]) refuse("offsets must not fall (at " + std::to_string(i) + ")");
    lengths_[i] = offsets[i + 1] - offsets[i];
    if (size_t(lengths_[i]) > kLongest) refuse("token " + std::to_string(i) + " is longer than 65535 bytes");
  }
  text_.assign(count, true);
  for (auto list : {special, end})
    for (int32_t id : list) {
      if (id < 0 || size_t(id) >= count) refuse("special or end token " + std::to_string(id) + " does not exist");
      text_[size_t(id)] = false;
    }
  std::sort(end_.begin(), end_.end());
  end_.erase(std::unique(end_.begin(), end_.end()), end_.end());

  // Sorted by bytes, then by id. The first eight bytes, most significant first, decide almost all comparisons.
  struct Entry {
    uint64_t head;
    int32_t id;
  };
  std::vector<Entry> order;
  order.reserve(count);
  for (size_t i = 0; i < count; ++i) {
    if (!text_[i] || lengths_[i] == 0) continue;
    uint64_t head = 0;
    for (int32_t b = 0; b < 8; ++b) head = head << 8 | (b < lengths_[i] ? bytes_[size_t(offsets_[i] + b)] : 0);
    order.push_back({head, int32_t(i)});
    longest_ = std::max(longest_, int(lengths_[i]));
  }
  std::sort(order.begin(), order.end(), [&](const Entry& a, const Entry& b) {
    if (a.head != b.head) return a.head < b.head;
    const auto x = this->bytes(a.id), y = this->bytes(b.id);
    const int difference = std::memcmp(x.data(), y.data(), std::min(x.size(), y.size()));
    if (difference != 0) return difference < 0;
    return x.size() != y.size() ? x.size() < y.size() : a.id < b.id;
  });

  nodes_.reserve(order.size() * 3);
  nodes_.push_back({0, -1, 0, 0});
  std::vector<uint32_t> path{0};  // nodes from the root to the last token
  std::span<const uint8_t> before;
  int32_t last = -1;
  const auto close = [&](size_t depth) {
    for (; path.size() > depth + 1; path.pop_back()) nodes_[path.back()].next = uint32_t(nodes_.size());
  };
  for (const auto& entry : order) {
    const auto token = this->bytes(entry.id);
    size_t shared = 0;
    while (shared < std::min(before.size(), token.size()) && before[shared] == token[shared]) ++shared;
    if (shared == token.size() && before.size() == token.size()) {
      if (same_.empty()) same_.assign(count, -1);
      same_[size_t(last)] = entry.id;
    } else {
      close(shared);
      for (size_t depth = shared; depth < token.size(); ++depth) {
        if (depth == 0) roots_[token[0]] = uint32_t(nodes_.size());
        path.push_back(uint32_t(nodes_.size()));
        nodes_.push_back({0, -1, uint16_t(depth + 1), token[depth]});
      }
      nodes_[path.back()].token = entry.id;
      before = token;
    }
    last = entry.id;
  }
  close(0);
  nodes_[0].next = uint32_t(nodes_.size());
  nodes_.shrink_to_fit();
}

bool TokenTree::is_end(int32_t token) const { return std::binary_search(end_.begin(), end_.end(), token); }

size_t TokenTree::memory() const {
  return bytes_.capacity() + (offsets_.capacity() + lengths_.capacity() + same_.capacity()) * 4 + text_.capacity() / 8 +
         nodes_.capacity() * sizeof(Node);
}

}  // namespace anneal::grammar
