#include "local_mask.h"

#include <algorithm>

namespace anneal::grammar {

namespace {

constexpr size_t kMostDescribed = 1 << 12;          // states

}  // namespace

std::shared_ptr<const LocalMask> make_local_mask(const Vocabulary& vocabulary, Configurations& configurations, int32_t state, const Bytes* follow,
                                                 size_t most_exits) {
  const auto& nodes = vocabulary.nodes();
  auto mask = std::make_shared<LocalMask>();
  std::vector<std::vector<uint32_t>> exits(256);
  std::vector<uint64_t> below(256, 0);
  size_t count = 0;
  std::vector<uint32_t> path(size_t(vocabulary.longest()) + 1);     // configurations by depth
  path[0] = configurations.alone(state);
  for (uint32_t i = 1; i < nodes.size();) {
    const auto& node = nodes[i];
    const uint32_t now = configurations.after(path[node.depth - 1u])[node.byte];
    if (now == Configurations::kDead) {
      i = node.next;
      continue;
    }
    path[node.depth] = now;
    for (int32_t token = node.token; token >= 0; token = vocabulary.same_bytes(token)) mask->tokens.push_back(token);
    if (node.next > i + 1 && configurations.exits(now) && !mask->partial)
      for (uint32_t child = i + 1; child < node.next; child = nodes[child].next) {
        const uint8_t byte = nodes[child].byte;
        if (follow && !follow->test(byte)) continue;
        exits[byte].push_back(child);
        below[byte] += nodes[child].next - child;
        if (++count > most_exits && !follow) mask->partial = true;
      }
    ++i;
  }
  if (mask->tokens.size() * 32 > size_t(vocabulary.size())) {
    mask->bits.assign(vocabulary.words(), 0);
    for (int32_t token : mask->tokens) mask->bits[size_t(token) / 32] |= 1u << (token % 32);
    mask->tokens = {};
  }
  mask->tokens.shrink_to_fit();
  if (follow) mask->partial = true, mask->asked = *follow;
  else if (mask->partial) return mask;
  for (int byte = 0; byte < 256; ++byte) {
    if (exits[size_t(byte)].empty()) continue;
    mask->nodes.insert(mask->nodes.end(), exits[size_t(byte)].begin(), exits[size_t(byte)].end());
    mask->exits.push_back({uint8_t(byte), uint32_t(mask->nodes.size()), below[size_t(byte)]});
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
