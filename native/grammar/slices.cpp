#include "slices.h"

#include <algorithm>

namespace anneal::grammar {

namespace {

constexpr size_t kMaxKept = 256;  // slices

// kBroken where the bytes are not whole characters.
Slices::Content content_of(std::span<const uint8_t> bytes) {
  Slices::Content content{0, 0};
  for (size_t i = 0; i < bytes.size(); ++content.chars) {
    const uint8_t first = bytes[i];
    if (first < 0x80) {
      content.groups |= group_of(first), ++i;
      continue;
    }
    const size_t length = first < 0xC2 ? 0 : first < 0xE0 ? 2 : first < 0xF0 ? 3 : first < 0xF5 ? 4 : 0;
    if (length == 0 || i + length > bytes.size()) return {kBroken, 0};
    int32_t character = first & (0xFF >> (length + 1));
    for (size_t k = 1; k < length; ++k) {
      if ((bytes[i + k] & 0xC0) != 0x80) return {kBroken, 0};
      character = character << 6 | (bytes[i + k] & 0x3F);
    }
    // Longer than they need be, surrogates, and beyond U+10FFFF.
    const uint8_t second = bytes[i + 1];
    if ((first == 0xE0 && second < 0xA0) || (first == 0xED && second > 0x9F) || (first == 0xF0 && second < 0x90) ||
        (first == 0xF4 && second > 0x8F))
      return {kBroken, 0};
    content.groups |= group_beyond_ascii(character);
    i += length;
  }
  return content;
}

}  // namespace

Slices::Slices(const TokenTree& tree) : tree_(tree) {
  const auto& nodes = tree.nodes();
  below_.assign(nodes.size(), {0, 0});
  std::vector<uint32_t> path(size_t(tree.longest()) + 1, 0);
  for (uint32_t i = 1; i < nodes.size(); ++i) {
    path[nodes[i].depth] = i;
    if (nodes[i].token < 0) continue;
    const auto content = content_of(tree.bytes(nodes[i].token));
    auto& alike = tokens_.try_emplace(content.groups).first->second;
    for (int32_t token = nodes[i].token; token >= 0; token = tree.same_bytes(token))
      alike.push_back({token, content.chars});
    for (size_t depth = nodes[i].depth; depth > 0; --depth) {
      auto& [groups, chars] = below_[path[depth]];
      if ((content.groups & ~groups) == 0 && content.chars <= chars) break;
      groups |= content.groups, chars = std::max(chars, content.chars);
    }
  }
  for (auto& [groups, tokens] : tokens_) std::ranges::stable_sort(tokens, {}, &Token::chars);
}

size_t Slices::count(Groups groups, int chars) const {
  size_t count = 0;
  for (auto& [own, tokens] : tokens_)
    if ((own & ~groups) == 0)
      count += size_t(std::ranges::upper_bound(tokens, chars, {}, &Token::chars) - tokens.begin());
  return count;
}

Slice Slices::slice(Groups groups, int chars, bool exact) const {
  return {tokens(groups, chars), groups, exact ? kAnyLength : chars};
}

std::shared_ptr<const std::vector<uint32_t>> Slices::tokens(Groups groups, int chars) const {
  const uint64_t key = uint64_t(groups) << 32 | uint32_t(chars);
  std::lock_guard lock(mutex_);
  if (const auto known = found_.find(key); known != found_.end()) {
    kept_.splice(kept_.begin(), kept_, known->second);
    return known->second->tokens;
  }
  auto bits = std::make_shared<Bits>(tree_.words(), 0);
  for (auto& [own, tokens] : tokens_) {
    if ((own & ~groups) != 0) continue;
    for (auto& [token, length] : tokens) {
      if (length > chars) break;
      (*bits)[size_t(token) / 32] |= 1u << (token % 32);
    }
  }
  kept_.push_front({key, bits});
  found_.emplace(key, kept_.begin());
  if (kept_.size() > kMaxKept) {
    found_.erase(kept_.back().key);
    kept_.pop_back();
  }
  return bits;
}

}  // namespace anneal::grammar
