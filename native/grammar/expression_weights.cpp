#include "expression_weights.h"

#include <algorithm>

namespace anneal::grammar {

namespace {

// Large counts saturate.
constexpr int64_t kHuge = int64_t(1) << 40;
int64_t times(int64_t a, int64_t b) { return a > 0 && b > kHuge / a ? kHuge : a * b; }

constexpr int64_t kInlined = 16;        // a rule of at most this weight takes the place of its calls
constexpr int32_t kInlinedHeight = 64;  // and of so many levels: expressions are taken apart by calls within calls
constexpr int64_t kWide = 48;           // a repeat of this many different characters is free text

// An intersection or complement is used as a whole.
bool is_taken_apart(const Expressions& e, int32_t node) {
  return e.has_operand_nodes(node) && e[node].op != Op::both && e[node].op != Op::negate;
}

}  // namespace

ExpressionWeights::ExpressionWeights(const Program& program, Spending& spending,
                                     std::function<int32_t(int32_t)> states_of)
    : program_(program), e_(program.expressions), spending_(spending), states_of_(std::move(states_of)) {
  find_used();
  const auto n = size_t(e_.size());
  nullable_.assign(n, false), productive_.assign(n, false);
  // What holds no rule is settled by its operands, which come first.
  for (int32_t node = 0; node < e_.size(); ++node)
    if (e_[node].regular) nullable_[size_t(node)] = matches_empty(node);
  std::vector<int32_t> open;
  for (int32_t node : used_) {
    if (e_[node].regular)
      productive_[size_t(node)] = matches_something(node);
    else
      open.push_back(node);
  }
  for (bool changed = true; changed;) {
    changed = false;
    for (int32_t node : open) {
      spending_.tick();
      const bool nullable = nullable_[size_t(node)] || matches_empty(node);
      const bool productive = productive_[size_t(node)] || matches_something(node);
      changed |= nullable != nullable_[size_t(node)] || productive != productive_[size_t(node)];
      nullable_[size_t(node)] = nullable, productive_[size_t(node)] = productive;
    }
  }
  weight_.assign(n, 0), breadth_.assign(n, 0), height_.assign(n, 0);
  // A rule is weighed once the rules it uses are.
  inlined_.assign(n, false);
  std::vector<bool> weighed(n, false);
  for (int32_t rule : settled()) {
    weigh(program_.rules[size_t(rule)], weighed);
    const int32_t node = program_.rules[size_t(rule)];
    if (weight_[size_t(node)] <= kInlined && breadth_[size_t(node)] < kWide && height_[size_t(node)] <= kInlinedHeight)
      inlined_[size_t(node)] = true;
  }
  for (int32_t node : used_) weigh(node, weighed);
}

bool ExpressionWeights::is_wide(int32_t node) const { return breadth_[size_t(node)] >= kWide; }

int64_t ExpressionWeights::repeated(int32_t node, int64_t count) const { return times(weight(node), count); }

// Nodes that the start rule uses, each after its operands and, cycles aside, after the rules it uses. Expressions of
// unused rules cost nothing.
void ExpressionWeights::find_used() {
  std::vector<bool> seen(size_t(e_.size()), false);
  std::vector<std::pair<int32_t, size_t>> path;
  const auto enter = [&](int32_t node) {
    if (!seen[size_t(node)]) seen[size_t(node)] = true, path.emplace_back(node, 0);
  };
  enter(program_.rules[size_t(program_.start)]);
  while (!path.empty()) {
    auto& [node, next] = path.back();
    spending_.tick();
    const size_t index = next++;
    if (e_[node].op == Op::rule && index == 0) {
      enter(program_.rules[size_t(e_[node].a)]);
    } else if (is_taken_apart(e_, node) && index < e_.operands(node).size()) {
      enter(e_.operands(node)[index]);
    } else {
      used_.push_back(node);
      path.pop_back();
    }
  }
}

bool ExpressionWeights::matches_empty(int32_t node) const {
  const Node& n = e_[node];
  const auto items = e_.has_operand_nodes(node) ? e_.operands(node) : std::span<const int32_t>();
  const auto empty = [&](int32_t item) { return bool(nullable_[size_t(item)]); };
  switch (n.op) {
    case Op::empty: return true;
    case Op::seq:
    case Op::both: return std::ranges::all_of(items, empty);
    case Op::alt: return std::ranges::any_of(items, empty);
    case Op::repeat: return n.a == 0 || empty(items[0]);
    case Op::rule: return empty(program_.rules[size_t(n.a)]);
    case Op::negate: return !empty(items[0]);
    default: return false;
  }
}

bool ExpressionWeights::matches_something(int32_t node) const {
  const Node& n = e_[node];
  const auto items = e_.has_operand_nodes(node) ? e_.operands(node) : std::span<const int32_t>();
  const auto some = [&](int32_t item) { return bool(productive_[size_t(item)]); };
  switch (n.op) {
    case Op::never: return false;
    case Op::seq: return std::ranges::all_of(items, some);
    case Op::alt: return std::ranges::any_of(items, some);
    case Op::repeat: return n.a == 0 || some(items[0]);
    case Op::rule: return some(program_.rules[size_t(n.a)]);
    case Op::both:
    case Op::negate: return states_of_(node) > 0;
    default: return true;
  }
}

// Rules that neither are nor use recursive ones, each after those it uses.
std::vector<int32_t> ExpressionWeights::settled() const {
  const size_t n = program_.rules.size();
  struct Use {
    int32_t waiting = 0;      // for so many rules it uses
    int32_t first_user = -1;  // of those that use it, in `users`
  };
  struct User {
    int32_t rule, next;
  };
  std::vector<Use> uses(n);
  std::vector<User> users;
  std::vector<bool> reached(n, false);
  std::vector<int32_t> seen(size_t(e_.size()), -1), work, ready;
  std::vector<int32_t> rules{program_.start};
  reached[size_t(program_.start)] = true;
  for (size_t i = 0; i < rules.size(); ++i) {
    const int32_t rule = rules[i];
    work = {program_.rules[size_t(rule)]};
    while (!work.empty()) {
      const int32_t node = work.back();
      work.pop_back();
      if (e_[node].regular || seen[size_t(node)] == rule) continue;
      seen[size_t(node)] = rule;
      spending_.tick();
      if (e_[node].op == Op::rule) {
        const int32_t used = e_[node].a;
        users.push_back({rule, uses[size_t(used)].first_user}), ++uses[size_t(rule)].waiting;
        uses[size_t(used)].first_user = int32_t(users.size()) - 1;
        if (!reached[size_t(used)]) reached[size_t(used)] = true, rules.push_back(used);
      } else if (e_.has_operand_nodes(node)) {
        for (int32_t item : e_.operands(node)) work.push_back(item);
      }
    }
    if (uses[size_t(rule)].waiting == 0) ready.push_back(rule);
  }
  for (size_t i = 0; i < ready.size(); ++i)
    for (int32_t at = uses[size_t(ready[i])].first_user; at >= 0; at = users[size_t(at)].next)
      if (--uses[size_t(users[size_t(at)].rule)].waiting == 0) ready.push_back(users[size_t(at)].rule);
  return ready;
}

// Number of states the node takes in its rule's automaton, about; of how many characters its widest repeat is made; and
// its levels, those of rules that take the place of calls among them.
void ExpressionWeights::weigh(int32_t node, std::vector<bool>& weighed) {
  if (weighed[size_t(node)]) return;
  weighed[size_t(node)] = true;
  const Node& n = e_[node];
  int64_t weight = 1, breadth = 0;
  int32_t height = 0;
  switch (n.op) {
    case Op::chars: weight = e_.operands(node).back() < 0x80 ? 1 : states_of_(node) - 1; break;
    case Op::bytes: weight = n.count; break;
    case Op::rule: {
      const int32_t target = program_.rules[size_t(n.a)];
      if (inlined_[size_t(target)]) weight = weight_[size_t(target)], height = height_[size_t(target)];
      break;
    }
    case Op::seq:
    case Op::alt:
      for (int32_t item : e_.operands(node)) {
        weigh(item, weighed);
        weight = std::min(kHuge, weight + weight_[size_t(item)]);
        breadth = std::max(breadth, breadth_[size_t(item)]);
        height = std::max(height, height_[size_t(item)]);
      }
      break;
    case Op::repeat: {
      const int32_t item = e_.operands(node)[0];
      weigh(item, weighed);
      weight = times(weight_[size_t(item)], std::max(1, n.b < 0 ? n.a : n.b));
      height = height_[size_t(item)];
      breadth = n.b < 0 || n.b > 4 ? std::max(breadth_[size_t(item)], lone_characters(item)) : breadth_[size_t(item)];
      break;
    }
    case Op::both:
    case Op::negate:
      weight = states_of_(node);
      breadth = kWide;
      break;
    default: break;
  }
  weight_[size_t(node)] = weight, breadth_[size_t(node)] = breadth, height_[size_t(node)] = height + 1;
}

// Code points that stand alone in the node: as a choice, or as the node itself.
int64_t ExpressionWeights::lone_characters(int32_t node) const {
  int64_t count = 0;
  const auto add = [&](int32_t chars) {
    const auto ranges = e_.operands(chars);
    for (size_t i = 0; i < ranges.size(); i += 2) count += ranges[i + 1] - ranges[i] + 1;
  };
  if (e_[node].op == Op::chars) add(node);
  if (e_[node].op == Op::alt)
    for (int32_t item : e_.operands(node))
      if (e_[item].op == Op::chars) add(item);
  if (e_[node].op == Op::rule && inlined_[size_t(program_.rules[size_t(e_[node].a)])])
    return lone_characters(program_.rules[size_t(e_[node].a)]);
  return count;
}

}  // namespace anneal::grammar
