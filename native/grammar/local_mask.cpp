#include "local_mask.h"

#include <algorithm>
#include <array>
#include <bit>

namespace anneal::grammar {

namespace {

constexpr size_t kMostDescribed = 1 << 12;  // states

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

  // The tokens of another mask; of those in `among` only, if it is given.
  void take(const LocalMask& mask, const std::vector<uint32_t>* among) {
    for (size_t i = 0; i < mask.bits.size(); ++i) bits_[i] = among ? mask.bits[i] & (*among)[i] : mask.bits[i];
    for (int32_t token : mask.tokens)
      if (!among || (*among)[size_t(token) / 32] >> (token % 32) & 1) bits_[size_t(token) / 32] |= 1u << (token % 32);
  }

  void permit(uint32_t node) {
    // Whether a token ends at a node cannot be predicted: those that are none set a bit past the others.
    const uint32_t bit = nodes_[node].token < 0 ? uint32_t(vocabulary_.words() * 32) : uint32_t(nodes_[node].token);
    bits_[bit / 32] |= 1u << (bit % 32);
    if (vocabulary_.has_twins())
      for (int32_t token = nodes_[node].token; token >= 0; token = vocabulary_.same_bytes(token))
        bits_[size_t(token) / 32] |= 1u << (token % 32);
  }
  void forbid(uint32_t node) {
    for (int32_t token = nodes_[node].token; token >= 0; token = vocabulary_.same_bytes(token))
      bits_[size_t(token) / 32] &= ~(1u << (token % 32));
  }

  std::shared_ptr<const LocalMask> finish() {
    auto mask = std::make_shared<LocalMask>();
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

std::shared_ptr<const LocalMask> too_many_exits() {
  auto nothing = std::make_shared<LocalMask>();
  nothing->partial = true;
  return nothing;
}

}  // namespace

std::shared_ptr<const LocalMask> make_local_mask(const Vocabulary& vocabulary, Configurations& configurations,
                                                 uint32_t from, const Bytes* follow, size_t max_exits,
                                                 const Like& like) {
  const auto& nodes = vocabulary.nodes();
  const auto& deepest = vocabulary.deepest();
  Draft draft(vocabulary, follow);

  // What depends on the first `known` bytes only is taken over.
  const int known = like.mask ? Vocabulary::kSteps[like.step] : 0;
  if (like.mask) {
    draft.take(*like.mask, &vocabulary.short_tokens(like.step));
    for (uint32_t child : like.mask->nodes)
      if (nodes[child].depth <= known + 1) draft.exit(child);
  }

  // By depth: the configuration, and whether the rule has ended there (not before its first byte, nor where that is
  // known already).
  std::vector<uint32_t> path(size_t(vocabulary.longest()) + 1);
  std::vector<uint8_t> ended(path.size(), 0);
  path[0] = from;
  for (uint32_t i = 1; i < nodes.size();) {
    const auto& node = nodes[i];
    if (deepest[i] <= known) {
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
    ended[node.depth] = node.depth > known && configurations.exits(now);
    if (node.depth > known) draft.permit(i);
    ++i;
  }
  return draft.finish();
}

std::shared_ptr<const LocalMask> make_local_mask(const Vocabulary& vocabulary, Configurations& configurations,
                                                 uint32_t from, const Bytes* follow, size_t max_exits,
                                                 const Beside& beside) {
  if (!follow && beside.mask->partial) return too_many_exits();
  const auto& nodes = vocabulary.nodes();
  Draft draft(vocabulary, follow);
  draft.take(*beside.mask, nullptr);
  // By depth: the configurations of both, and whether the rule has ended there.
  struct Place {
    uint32_t own, other;
    bool ended;
  };
  std::vector<Place> path(size_t(vocabulary.longest()) + 1);
  path[0] = {from, beside.from, false};
  const auto after = [&](uint32_t configuration, uint8_t byte) {
    return configuration == Configurations::kDead ? Configurations::kDead : configurations.after(configuration)[byte];
  };
  std::vector<uint32_t> apart;  // nodes below places where the two differ; rising
  for (uint32_t i = 1; i < nodes.size();) {
    const auto& node = nodes[i];
    const Place& before = path[node.depth - 1u];
    apart.push_back(i);
    if (before.ended) draft.exit(i);
    const uint32_t own = after(before.own, node.byte), other = after(before.other, node.byte);
    if (own == other) {
      i = node.next;
      continue;
    }
    if (own == Configurations::kDead)
      draft.forbid(i);
    else
      draft.permit(i);
    path[node.depth] = {own, other, own != Configurations::kDead && configurations.exits(own)};
    ++i;
  }
  for (uint32_t child : beside.mask->nodes)
    if (!std::binary_search(apart.begin(), apart.end(), child)) draft.exit(child);
  if (draft.exits() > max_exits && !follow) return too_many_exits();
  return draft.finish();
}

// States are numbered as a visit by rising distance in bytes meets them. A call leads to the callee's start at the same
// distance and to the state after it at least one byte further; what lies at the limit itself is entered but not left.
std::string describe(const Network& network, int32_t state, int bytes) {
  std::string text;
  std::unordered_map<int32_t, uint32_t> numbers;
  std::vector<int32_t> now{state}, next;
  numbers.emplace(state, 0);
  const auto word = [&](uint32_t x) { text.append(reinterpret_cast<const char*>(&x), 4); };
  const auto visit = [&](int32_t to, std::vector<int32_t>& list) {
    const auto [it, fresh] = numbers.emplace(to, uint32_t(numbers.size()));
    if (fresh) list.push_back(to);
    return it->second;
  };
  for (int distance = 0; !now.empty(); ++distance) {
    next.clear();
    for (size_t i = 0; i < now.size(); ++i) {
      const int32_t s = now[i];
      if (numbers.size() > kMostDescribed) return {};
      text.push_back(network[s].accepts ? 'A' : 'S');
      if (distance >= bytes) continue;
      for (auto& edge : network.edges(s)) {
        text.push_back('b');
        text.push_back(char(edge.lo));
        text.push_back(char(edge.hi));
        word(visit(edge.to, next));
      }
      for (auto& edge : network.calls(s)) {
        text.push_back('c');
        word(visit(network.rule(edge.rule).start, now));
        word(visit(edge.to, next));
      }
    }
    now.swap(next);
  }
  return text;
}

}  // namespace anneal::grammar
