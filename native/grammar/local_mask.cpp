#include "local_mask.h"

#include <algorithm>
#include <array>
#include <bit>

namespace anneal::grammar {

namespace {

// A mask while it is made: all tokens as bits, exits by their bytes.
class Draft {
 public:
  Draft(const Vocabulary& vocabulary, const Bytes* follow)
      : vocabulary_(vocabulary), nodes_(vocabulary.nodes()), follow_(follow), bits_(vocabulary.words() + 1, 0) {}

  size_t exits() const { return count_; }
  void exit(uint32_t child) {
    const uint8_t byte = nodes_[child].byte;
    if (follow_ && !follow_->test(byte)) return;
    exits_[byte].push_back(child);
    below_[byte] += nodes_[child].next - child;
    ++count_;
  }

  void take(const std::vector<uint32_t>& tokens) { std::copy(tokens.begin(), tokens.end(), bits_.begin()); }
  void permit(int32_t token) {
    // Whether a token ends at a node cannot be predicted: those that are none set a bit past the others.
    const uint32_t bit = token < 0 ? uint32_t(vocabulary_.words() * 32) : uint32_t(token);
    bits_[bit / 32] |= 1u << (bit % 32);
    if (vocabulary_.has_twins())
      for (int32_t twin = token; twin >= 0; twin = vocabulary_.same_bytes(twin))
        bits_[size_t(twin) / 32] |= 1u << (twin % 32);
  }

  std::shared_ptr<const LocalMask> finish(uint64_t walked) {
    auto mask = std::make_shared<LocalMask>();
    mask->walked = walked;
    if (follow_) mask->partial = true, mask->asked = *follow_;
    for (int byte = 0; byte < 256; ++byte) {
      if (exits_[size_t(byte)].empty()) continue;
      mask->nodes.insert(mask->nodes.end(), exits_[size_t(byte)].begin(), exits_[size_t(byte)].end());
      mask->exits.push_back({uint8_t(byte), uint32_t(mask->nodes.size()), below_[size_t(byte)]});
    }
    bits_.pop_back();
    size_t tokens = 0;
    for (uint32_t word : bits_) tokens += size_t(std::popcount(word));
    if (tokens * 32 > size_t(vocabulary_.size())) {
      mask->bits = std::move(bits_);
      return mask;
    }
    mask->tokens.reserve(tokens);
    for (size_t i = 0; i < bits_.size(); ++i)
      for (uint32_t word = bits_[i]; word != 0; word &= word - 1)
        mask->tokens.push_back(int32_t(i * 32) + std::countr_zero(word));
    return mask;
  }

 private:
  const Vocabulary& vocabulary_;
  const std::vector<Vocabulary::Node>& nodes_;
  const Bytes* follow_;
  std::vector<uint32_t> bits_;
  std::array<std::vector<uint32_t>, 256> exits_;
  std::array<uint64_t, 256> below_{};
  size_t count_ = 0;
};

}  // namespace

std::shared_ptr<const LocalMask> too_many_exits() {
  auto nothing = std::make_shared<LocalMask>();
  nothing->partial = true;
  return nothing;
}

std::shared_ptr<const LocalMask> make_local_mask(const Vocabulary& vocabulary, Configurations& configurations,
                                                 uint32_t from, const Bytes* follow, size_t max_exits,
                                                 const Slice* slice) {
  const auto& nodes = vocabulary.nodes();
  const Slices& slices = vocabulary.slices();
  Draft draft(vocabulary, follow);
  if (slice) draft.take(*slice->tokens);
  // By depth: the configuration, and whether the rule has ended there (not before its first byte).
  std::vector<uint32_t> path(size_t(vocabulary.longest()) + 1);
  std::vector<uint8_t> ended(path.size(), 0);
  path[0] = from;
  uint64_t walked = 0;
  for (uint32_t i = 1; i < nodes.size();) {
    const auto& node = nodes[i];
    ++walked;
    if (slice && slices.covers(*slice, i)) {
      i = node.next;
      continue;
    }
    if (ended[node.depth - 1u]) {
      draft.exit(i);
      if (draft.exits() > max_exits && !follow) return too_many_exits();
    }
    const uint32_t now = configurations.after(path[node.depth - 1u])[node.byte];
    if (now == Configurations::kDead) {
      i = node.next;
      continue;
    }
    path[node.depth] = now;
    ended[node.depth] = configurations.exits(now);
    draft.permit(node.token);
    ++i;
  }
  return draft.finish(walked);
}

}  // namespace anneal::grammar
