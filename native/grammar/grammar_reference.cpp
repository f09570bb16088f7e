#include "grammar_reference.h"

#include <algorithm>

namespace reference {

// Kinds: 0 never, e empty, b byte, c code point [bytes read, value so far, bytes wanted, lo, hi, ...], t token, s pair,
// a choice, r repeat, R rule, & both, ! complement [item, how far into a code point the text is: bytes still wanted,
// least and greatest next byte]

namespace {

constexpr int kTokens = 256;

// Code points whose encoding is `length` bytes long and goes on from `value` after `read` bytes.
std::pair<int, int> reach(int read, int value, int length) {
  static const int least[] = {0, 0, 0x80, 0x800, 0x10000}, most[] = {0, 0x7F, 0x7FF, 0xFFFF, 0x10FFFF};
  if (read == 0) return {least[length], most[length]};
  const int shift = 6 * (length - read);
  return {std::max(value << shift, least[length]), std::min(((value + 1) << shift) - 1, most[length])};
}

}  // namespace

Language::Language() {
  make('0', {});
  make('e', {});
}

int Language::make(char kind, std::vector<int> parts) {
  Node node{kind, std::move(parts)};
  const auto [it, fresh] = known_.emplace(node, int(nodes_.size()));
  if (fresh) nodes_.push_back(node);
  return it->second;
}

int Language::bytes(const std::vector<int>& bytes) {
  std::vector<int> items;
  for (int b : bytes) items.push_back(make('b', {b}));
  return seq(items);
}

int Language::chars(const std::vector<std::pair<int, int>>& ranges) {
  std::vector<int> parts{0, 0, 0};
  for (auto [lo, hi] : ranges) parts.push_back(lo), parts.push_back(hi);
  return make('c', parts);
}

int Language::token(int id) { return make('t', {id}); }
int Language::rule(int index) { return make('R', {index}); }
void Language::define(int index, int expression) {
  if (int(rules_.size()) <= index) rules_.resize(size_t(index) + 1, 0);
  rules_[size_t(index)] = expression;
}

int Language::seq(std::vector<int> items) {
  int result = empty();
  for (size_t i = items.size(); i-- > 0;) {
    if (items[i] == never() || result == never()) return never();
    if (items[i] == empty()) continue;
    result = result == empty() ? items[i] : make('s', {items[i], result});
  }
  return result;
}

int Language::alt(std::vector<int> items) {
  std::set<int> all;
  for (int item : items) {
    if (item == never()) continue;
    if (nodes_[size_t(item)].kind == 'a')
      all.insert(nodes_[size_t(item)].parts.begin(), nodes_[size_t(item)].parts.end());
    else
      all.insert(item);
  }
  if (all.empty()) return never();
  if (all.size() == 1) return *all.begin();
  return make('a', {all.begin(), all.end()});
}

int Language::repeat(int item, int min, int max) {
  if (max == 0) return empty();
  if (item == never()) return min == 0 ? empty() : never();
  return make('r', {item, min, max});
}

int Language::both(std::vector<int> items) {
  std::set<int> all(items.begin(), items.end());
  if (all.count(never())) return never();
  if (all.size() == 1) return *all.begin();
  return make('&', {all.begin(), all.end()});
}

int Language::negate(int item) { return make('!', {item, 0, 0, 0}); }

bool Language::nullable(int e) {
  const Node node = nodes_[size_t(e)];
  switch (node.kind) {
    case 'e': return true;
    case 's':
    case '&': return std::ranges::all_of(node.parts, [&](int p) { return nullable(p); });
    case 'a': return std::ranges::any_of(node.parts, [&](int p) { return nullable(p); });
    case 'r': return node.parts[1] == 0 || nullable(node.parts[0]);
    case 'R': {
      // Least fixed point: a rule being asked about is not known to match "".
      static std::set<int> asked;
      if (!asked.insert(node.parts[0]).second) return false;
      const bool result = nullable(rules_[size_t(node.parts[0])]);
      asked.erase(node.parts[0]);
      return result;
    }
    case '!': return node.parts[1] == 0 && !nullable(node.parts[0]);
    default: return false;
  }
}

int Language::after(int e, int symbol) {
  const auto known = after_.find({e, symbol});
  if (known != after_.end()) return known->second;
  const Node node = nodes_[size_t(e)];
  int result = never();
  switch (node.kind) {
    case 'b': result = symbol == node.parts[0] ? empty() : never(); break;
    case 't': result = symbol == kTokens + node.parts[0] ? empty() : never(); break;
    case 'c': {
      if (symbol >= kTokens) break;
      auto parts = node.parts;
      if (parts[0] == 0) {
        const int length = symbol < 0x80   ? 1
                           : symbol < 0xC0 ? 0
                           : symbol < 0xE0 ? 2
                           : symbol < 0xF0 ? 3
                           : symbol < 0xF8 ? 4
                                           : 0;
        if (length == 0) break;
        parts[1] = length == 1 ? symbol : symbol & (0x7F >> length);
        parts[2] = length;
      } else {
        if ((symbol & 0xC0) != 0x80) break;
        parts[1] = parts[1] << 6 | (symbol & 0x3F);
      }
      ++parts[0];
      const auto [lo, hi] = reach(parts[0], parts[1], parts[2]);
      bool possible = false;
      for (size_t i = 3; i < parts.size(); i += 2)
        for (int c = std::max(lo, parts[i]); c <= std::min(hi, parts[i + 1]) && !possible; ++c) {
          if (c >= 0xD800 && c < 0xE000) c = 0xE000;
          possible = c <= std::min(hi, parts[i + 1]);
        }
      if (possible) result = parts[0] == parts[2] ? empty() : make('c', parts);
      break;
    }
    case 's': {
      result = seq({after(node.parts[0], symbol), node.parts[1]});
      if (nullable(node.parts[0])) result = alt({result, after(node.parts[1], symbol)});
      break;
    }
    case 'a': {
      std::vector<int> items;
      for (int p : node.parts) items.push_back(after(p, symbol));
      result = alt(items);
      break;
    }
    case 'r': {
      const int item = node.parts[0], min = node.parts[1], max = node.parts[2];
      // An item that matches "" may be counted without being read.
      const int least = nullable(item) ? 0 : std::max(0, min - 1);
      result = seq({after(item, symbol), repeat(item, least, max < 0 ? -1 : max - 1)});
      break;
    }
    case 'R':
      if (!open_.insert(node.parts[0]).second) {
        left_recursive_ = true;
        return never();
      }
      result = after(rules_[size_t(node.parts[0])], symbol);
      open_.erase(node.parts[0]);
      break;
    case '&': {
      std::vector<int> items;
      for (int p : node.parts) items.push_back(after(p, symbol));
      result = both(items);
      break;
    }
    case '!': {
      if (symbol >= kTokens) break;
      int wanted = node.parts[1], lo = 0x80, hi = 0xBF;
      if (wanted > 0) {
        if (symbol < node.parts[2] || symbol > node.parts[3]) break;
        --wanted;
      } else {
        if (symbol >= 0x80 && symbol < 0xC2) break;
        if (symbol > 0xF4) break;
        wanted = symbol < 0x80 ? 0 : symbol < 0xE0 ? 1 : symbol < 0xF0 ? 2 : 3;
        if (symbol == 0xE0) lo = 0xA0;
        if (symbol == 0xED) hi = 0x9F;
        if (symbol == 0xF0) lo = 0x90;
        if (symbol == 0xF4) hi = 0x8F;
      }
      result = make('!', {after(node.parts[0], symbol), wanted, wanted ? lo : 0, wanted ? hi : 0});
      break;
    }
    default: break;
  }
  after_[{e, symbol}] = result;
  return result;
}

// By search: some derivative matches "".
bool Language::regular_alive(int e) {
  const auto known = regular_alive_.find(e);
  if (known != regular_alive_.end()) return known->second;
  std::set<int> seen{e};
  std::vector<int> work{e};
  bool found = false;
  for (size_t i = 0; i < work.size() && !found && !exhausted(); ++i) {
    found = nullable(work[i]);
    for (int b = 0; b < 256 && !found; ++b) {
      const int next = after(work[i], b);
      if (next != never() && seen.insert(next).second) work.push_back(next);
    }
  }
  regular_alive_[e] = found;
  return found;
}

bool Language::alive(int e) {
  const Node node = nodes_[size_t(e)];
  switch (node.kind) {
    case '0': return false;
    case 's': return alive(node.parts[0]) && alive(node.parts[1]);
    case 'a': return std::ranges::any_of(node.parts, [&](int p) { return alive(p); });
    case 'r': return node.parts[1] == 0 || alive(node.parts[0]);
    case 'R': {
      static std::set<int> asked;
      if (!asked.insert(node.parts[0]).second) return false;
      const bool result = alive(rules_[size_t(node.parts[0])]);
      asked.erase(node.parts[0]);
      return result;
    }
    case '&':
    case '!': return regular_alive(e);
    default: return true;
  }
}

}  // namespace reference
