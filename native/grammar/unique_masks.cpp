#include "unique_masks.h"

#include <array>

namespace anneal::grammar {

namespace {

// Bytes that are looked at for another item; past them one is taken to exist. Only texts of earlier items are followed.
constexpr int kMaxSteps = 4096;

// Bytes in the order in which they are tried: those that end something first.
const std::array<uint8_t, 256>& likely_ends() {
  static const auto kOrder = [] {
    std::array<uint8_t, 256> order{};
    std::array<bool, 256> taken{};
    size_t count = 0;
    const auto add = [&](int byte) {
      if (!taken[size_t(byte)]) taken[size_t(byte)] = true, order[count++] = uint8_t(byte);
    };
    for (char byte : {'"', '}', ']', ',', ':', '1', '2', '3', '4', '5', '6', '7', '8', '9', '0'}) add(byte);
    for (int byte = 'a'; byte <= 'z'; ++byte) add(byte);
    for (int byte = '!'; byte < 256; ++byte)
      if (byte != '\\') add(byte);
    add('\\');
    for (int byte = 0; byte < 256; ++byte) add(byte);
    return order;
  }();
  return kOrder;
}

// What has been done while it lives is taken off the turn.
class Work {
 public:
  Work(const Configurations& configurations, const UniqueItems& items, Turn& turn)
      : configurations_(configurations), items_(items), turn_(turn), before_(done()) {}
  ~Work() { turn_.spend(done() - before_); }
  Work(const Work&) = delete;

 private:
  uint64_t done() const { return configurations_.work() + items_.work(); }
  const Configurations& configurations_;
  const UniqueItems& items_;
  Turn& turn_;
  const uint64_t before_;
};

}  // namespace

uint32_t unique_step(Configurations& configurations, uint32_t from, uint8_t byte, UniqueItems& items) {
  uint32_t to = configurations.after(from)[byte];
  if (to == Configurations::kDead) return to;
  items.push(byte, configurations.opens(to));
  if (configurations.ends_item(to) && items.duplicate()) {
    to = configurations.after_duplicate(from, byte);
    if (to == Configurations::kDead) items.undo();
  }
  return to;
}

bool can_differ(Configurations& configurations, uint32_t configuration, UniqueItems& items) {
  const uint32_t level = items.repeating();
  if (level == UniqueItems::kNone) return true;
  const auto differs = [&](uint32_t at) {
    return !items.may_repeat() || items.is_past(level) ||
           (items.depth() == level + 1 && configurations.ends_item(at) && !items.duplicate());
  };
  if (differs(configuration)) return true;
  struct Place {
    uint32_t configuration;
    int next;          // in likely_ends()
    bool needs_space;  // nothing else may follow
    bool is_settled;   // more digits do not help
  };
  const auto& order = likely_ends();
  std::vector<Place> path{{configuration, 0, true, items.is_settled()}};
  bool found = false;
  for (int steps = 0; !path.empty() && !found;) {
    auto& [from, next, needs_space, is_settled] = path.back();
    const auto& after = configurations.after(from);
    while (next < 256 && after[order[size_t(next)]] == Configurations::kDead) ++next;
    if (next == 256) {
      path.pop_back();
      if (!path.empty()) items.undo();
      continue;
    }
    const uint8_t byte = order[size_t(next++)];
    const bool is_space = !items.in_string() && (byte == ' ' || byte == '\n' || byte == '\r' || byte == '\t');
    // White space makes no item another one.
    if (is_space ? !needs_space : is_settled && byte != ',' && byte != ']' && byte != '}') continue;
    needs_space = needs_space && is_space;
    const uint32_t to = unique_step(configurations, from, byte, items);
    if (to == Configurations::kDead) continue;
    path.push_back({to, 0, true, items.is_settled()});
    found = differs(to) || ++steps == kMaxSteps;
  }
  for (size_t i = 1; i < path.size(); ++i) items.undo();
  return found;
}

UniqueRestriction::UniqueRestriction(const Vocabulary& vocabulary, Configurations& configurations,
                                     uint32_t configuration)
    : vocabulary_(vocabulary),
      configurations_(configurations),
      configuration_(configuration),
      named_(configurations.tokens(configuration)),
      path_(size_t(vocabulary.longest()) + 1) {
  path_[0] = {configuration, false};
}

bool UniqueRestriction::go_on(UniqueItems& items, Mask& mask, Turn& turn) {
  forbid_named(items, mask, turn);
  if (!named_.empty()) return false;
  for (uint32_t depth = 1; depth <= depth_; ++depth) {
    items.push(path_[depth].byte, path_[depth].opens);
  }
  walk(items, mask, turn);
  for (uint32_t depth = depth_; depth > 0; --depth) items.undo();
  return next_ >= vocabulary_.nodes().size();
}

void UniqueRestriction::forbid_named(UniqueItems& items, Mask& mask, Turn& turn) {
  while (!named_.empty() && !turn.is_over()) {
    const Work work(configurations_, items, turn);
    const int32_t token = named_.back();
    named_.pop_back();
    const auto bytes = vocabulary_.bytes(token);
    for (uint8_t byte : bytes) items.push(byte, false);
    if (!can_differ(configurations_, configurations_.after_token(configuration_, token), items))
      mask[size_t(token) / 32] &= ~(1u << (token % 32));
    for (size_t i = 0; i < bytes.size(); ++i) items.undo();
  }
}

void UniqueRestriction::walk(UniqueItems& items, Mask& mask, Turn& turn) {
  const auto forbid = [&](int32_t token) {
    for (; token >= 0; token = vocabulary_.same_bytes(token)) mask[size_t(token) / 32] &= ~(1u << (token % 32));
  };
  const auto& nodes = vocabulary_.nodes();
  const auto& separators = vocabulary_.separators();
  while (next_ < nodes.size() && !turn.is_over()) {
    const Work work(configurations_, items, turn);
    const auto& node = nodes[next_];
    for (; depth_ >= node.depth; --depth_) items.undo();
    const Place from = path_[depth_];
    const uint32_t without = configurations_.after(from.configuration)[node.byte];
    const uint32_t to = unique_step(configurations_, from.configuration, node.byte, items);
    if (to == Configurations::kDead) {
      if (from.differs || without != Configurations::kDead) {
        for (uint32_t below = next_; below < node.next; ++below) forbid(nodes[below].token);
        turn.spend(node.next - next_);
      }
      next_ = node.next;
      continue;
    }
    path_[++depth_] = {to, from.differs || to != without, node.byte, configurations_.opens(without)};
    if (node.token >= 0 && !can_differ(configurations_, to, items)) forbid(node.token);
    // Where no item can become equal to an earlier one, only another that follows in the same token.
    const auto reason = !items.active()     ? Separators::kOpenedComma
                        : items.in_string() ? Separators::kQuotedEnd
                                            : Separators::kComma;
    const bool goes_on = path_[depth_].differs || items.may_repeat() || separators.has(next_, reason);
    next_ = goes_on ? next_ + 1 : node.next;
  }
}

}  // namespace anneal::grammar
