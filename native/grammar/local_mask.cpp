#include "local_mask.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace anneal::grammar {

namespace {

// A mask while it is made: tokens as a list while they are few, exits by their bytes.
class Draft {
 public:
  Draft(const Vocabulary& vocabulary, const Bytes* follow)
      : vocabulary_(vocabulary),
        nodes_(vocabulary.nodes()),
        follow_(follow),
        most_(size_t(vocabulary.size()) / 32),
        tokens_(most_ + 1) {}

  size_t exits() const { return count_; }
  void exit(uint32_t child) {
    const uint8_t byte = nodes_[child].byte;
    if (follow_ && !follow_->test(byte)) return;
    exits_[byte].push_back(child);
    below_[byte] += nodes_[child].next - child;
    ++count_;
  }

  void take(const std::vector<uint32_t>& bits) {
    bits_.resize(bits.size() + 1);
    std::copy(bits.begin(), bits.end(), bits_.begin());
  }
  void permit(int32_t token) {
    add(token);
    if (vocabulary_.has_twins() && token >= 0)
      for (int32_t twin = vocabulary_.same_bytes(token); twin >= 0; twin = vocabulary_.same_bytes(twin)) add(twin);
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
    if (bits_.empty()) {
      mask->tokens.assign(tokens_.begin(), tokens_.begin() + std::ptrdiff_t(listed_));
    } else {
      bits_.pop_back();
      mask->bits = std::move(bits_);
    }
    return mask;
  }

 private:
  // Whether a token ends at a node cannot be predicted: those that are none are overwritten in the list, and set a bit
  // past the others.
  void add(int32_t token) {
    if (!bits_.empty()) return set(token < 0 ? uint32_t(vocabulary_.words() * 32) : uint32_t(token));
    tokens_[listed_] = token;
    listed_ += token >= 0;
    if (listed_ <= most_) return;
    bits_.resize(vocabulary_.words() + 1);
    for (int32_t one : tokens_) set(uint32_t(one));
  }
  void set(uint32_t bit) { bits_[bit / 32] |= 1u << (bit % 32); }

  const Vocabulary& vocabulary_;
  const std::vector<Vocabulary::Node>& nodes_;
  const Bytes* follow_;
  const size_t most_;            // tokens that are listed
  std::vector<int32_t> tokens_;  // the list, and a place for one more
  size_t listed_ = 0;
  std::vector<uint32_t> bits_;  // empty: they are listed
  std::array<std::vector<uint32_t>, 256> exits_;
  std::array<uint64_t, 256> below_{};
  size_t count_ = 0;
};

// Through the vocabulary.
class Walk {
 public:
  Walk(const Vocabulary& vocabulary, Configurations& configurations, uint32_t from, const Bytes* follow,
       size_t max_exits, const Slice* slice)
      : nodes_(vocabulary.nodes()),
        slices_(vocabulary.slices()),
        configurations_(configurations),
        has_follow_(follow),
        max_exits_(max_exits),
        slice_(slice),
        draft_(vocabulary, follow),
        path_(size_t(vocabulary.longest()) + 1),
        ended_(path_.size(), 0) {
    if (slice) draft_.take(*slice->tokens);
    path_[0] = from;
  }

  // Whether it has come to the end.
  bool go_on(Turn& turn) {
    const uint64_t work = configurations_.work(), walked = walked_;
    const auto spent = [&] { return walked_ - walked + configurations_.work() - work; };
    uint32_t i = next_;
    for (const auto past = uint32_t(nodes_.size()); i < past;) {
      const auto& node = nodes_[i];
      if (++walked_ % 16 == 0 && int64_t(spent()) >= turn.left()) break;
      if (slice_ && slices_.covers(*slice_, i)) {
        i = node.next;
        continue;
      }
      if (ended_[node.depth - 1u]) {
        draft_.exit(i);
        if (draft_.exits() > max_exits_ && !has_follow_) {
          has_too_many_ = true;
          i = past;
          break;
        }
      }
      const uint32_t now = configurations_.after(path_[node.depth - 1u])[node.byte];
      if (now == Configurations::kDead) {
        i = node.next;
        continue;
      }
      path_[node.depth] = now;
      ended_[node.depth] = configurations_.exits(now);
      draft_.permit(node.token);
      ++i;
    }
    next_ = i;
    turn.spend(spent());
    return i >= nodes_.size();
  }

  std::shared_ptr<const LocalMask> finish() { return has_too_many_ ? too_many_exits() : draft_.finish(walked_); }

 private:
  const std::vector<TokenTree::Node>& nodes_;
  const Slices& slices_;
  Configurations& configurations_;
  const bool has_follow_;
  const size_t max_exits_;
  const Slice* slice_;
  Draft draft_;
  // By depth: the configuration, and whether the rule has ended there (not before its first byte).
  std::vector<uint32_t> path_;
  std::vector<uint8_t> ended_;
  uint32_t next_ = 1;
  uint64_t walked_ = 0;
  bool has_too_many_ = false;
};

}  // namespace

std::shared_ptr<const LocalMask> too_many_exits() {
  auto nothing = std::make_shared<LocalMask>();
  nothing->partial = true;
  return nothing;
}

Resumable<std::shared_ptr<const LocalMask>> make_local_mask(const Vocabulary& vocabulary,
                                                            Configurations& configurations, Pauses& pauses,
                                                            uint32_t from, const Bytes* follow, size_t max_exits,
                                                            const Slice* slice) {
  Walk walk(vocabulary, configurations, from, follow, max_exits, slice);
  while (!walk.go_on(pauses.turn())) co_await pauses.pause();
  co_return walk.finish();
}

}  // namespace anneal::grammar
