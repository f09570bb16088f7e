#include "local_mask.h"

#include <array>
#include <bit>

namespace anneal::grammar {

namespace {

constexpr size_t kMostDescribed = 1 << 12;          // states

}  // namespace

std::shared_ptr<const LocalMask> make_local_mask(const Vocabulary& vocabulary, Configurations& configurations, int32_t state, const Bytes* follow, size_t most_exits,
                                                 const Like& like) {
  const auto& nodes = vocabulary.nodes();
  const auto& deepest = vocabulary.deepest();
  auto mask = std::make_shared<LocalMask>();
  mask->bits.assign(vocabulary.words() + 1, 0);
  const auto spare = uint32_t(vocabulary.words() * 32);
  uint32_t* bits = mask->bits.data();
  const bool twins = vocabulary.has_twins();
  size_t count = 0;
  std::array<std::vector<uint32_t>, 256> exits;
  std::array<uint64_t, 256> below{};
  const auto add_exit = [&](uint32_t child) {
    const uint8_t byte = nodes[child].byte;
    if (follow && !follow->test(byte)) return;
    exits[byte].push_back(child);
    below[byte] += nodes[child].next - child;
    ++count;
  };

  // What depends on the first `known` bytes only is taken over.
  const int known = like.mask ? Vocabulary::kSteps[like.step] : 0;
  if (like.mask) {
    const auto& few = vocabulary.short_tokens(like.step);
    for (size_t i = 0; i < like.mask->bits.size(); ++i) bits[i] = like.mask->bits[i] & few[i];
    for (int32_t token : like.mask->tokens)
      if (few[size_t(token) / 32] >> (token % 32) & 1) bits[size_t(token) / 32] |= 1u << (token % 32);
    for (uint32_t child : like.mask->nodes)
      if (nodes[child].depth <= known + 1) add_exit(child);
  }

  // By depth: the configuration, and whether the rule has ended there (not before its first byte, nor where that is known already).
  std::vector<uint32_t> path(size_t(vocabulary.longest()) + 1);
  std::vector<uint8_t> ended(path.size(), 0);
  path[0] = configurations.alone(state);
  for (uint32_t i = 1; i < nodes.size();) {
    const auto& node = nodes[i];
    if (deepest[i] <= known) {
      i = node.next;
      continue;
    }
    if (ended[node.depth - 1u]) {
      add_exit(i);
      if (count > most_exits && !follow) {
        auto nothing = std::make_shared<LocalMask>();
        nothing->partial = true;
        return nothing;
      }
    }
    const uint32_t now = configurations.after(path[node.depth - 1u])[node.byte];
    if (now == Configurations::kDead) {
      i = node.next;
      continue;
    }
    path[node.depth] = now;
    ended[node.depth] = node.depth > known && configurations.exits(now);
    if (node.depth > known) {
      // Whether a token ends at a node cannot be predicted: those that are none set a bit past the others.
      const uint32_t bit = node.token < 0 ? spare : uint32_t(node.token);
      bits[bit / 32] |= 1u << (bit % 32);
      if (twins)
        for (int32_t token = node.token; token >= 0; token = vocabulary.same_bytes(token)) bits[size_t(token) / 32] |= 1u << (token % 32);
    }
    ++i;
  }
  if (follow) mask->partial = true, mask->asked = *follow;
  for (int byte = 0; byte < 256; ++byte) {
    if (exits[size_t(byte)].empty()) continue;
    mask->nodes.insert(mask->nodes.end(), exits[size_t(byte)].begin(), exits[size_t(byte)].end());
    mask->exits.push_back({uint8_t(byte), uint32_t(mask->nodes.size()), below[size_t(byte)]});
  }
  mask->bits.pop_back();
  size_t tokens = 0;
  for (uint32_t word : mask->bits) tokens += size_t(std::popcount(word));
  if (tokens * 32 <= size_t(vocabulary.size())) {
    mask->tokens.reserve(tokens);
    for (size_t i = 0; i < mask->bits.size(); ++i)
      for (uint32_t word = mask->bits[i]; word != 0; word &= word - 1) mask->tokens.push_back(int32_t(i * 32) + std::countr_zero(word));
    mask->bits = {};
  }
  return mask;
}

// States are numbered as a visit by rising distance in bytes meets them. A call leads to the callee's start at the same distance and to the
// state after it at least one byte further; what lies at the limit itself is entered but not left.
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
