#include "expressions.h"

#include <algorithm>

namespace anneal::grammar {

// ---- nodes

int32_t Expressions::make(Op op, std::span<const int32_t> operands, int32_t a, int32_t b) {
  // Simplifications that keep the language: automata get smaller, and equal parts more often equal.
  switch (op) {
    case Op::chars:
      if (operands.empty()) return add(Op::never, {}, 0, 0);
      break;
    case Op::bytes:
      if (operands.empty()) return add(Op::empty, {}, 0, 0);
      break;
    case Op::seq: {
      std::vector<int32_t> items;
      for (int32_t item : operands) {
        if (nodes_[size_t(item)].op == Op::never) return add(Op::never, {}, 0, 0);
        if (nodes_[size_t(item)].op != Op::empty) items.push_back(item);
      }
      if (items.empty()) return add(Op::empty, {}, 0, 0);
      if (items.size() == 1) return items[0];
      return add(op, items, 0, 0);
    }
    case Op::alt: {
      std::vector<int32_t> items;
      for (int32_t item : operands)
        if (nodes_[size_t(item)].op != Op::never) items.push_back(item);
      std::sort(items.begin(), items.end());
      items.erase(std::unique(items.begin(), items.end()), items.end());
      if (items.empty()) return add(Op::never, {}, 0, 0);
      if (items.size() == 1) return items[0];
      return add(op, items, 0, 0);
    }
    case Op::repeat: {
      const Op item = nodes_[size_t(operands[0])].op;
      if (b == 0 || item == Op::empty || (item == Op::never && a == 0)) return add(Op::empty, {}, 0, 0);
      if (item == Op::never) return operands[0];
      if (a == 1 && b == 1) return operands[0];
      break;
    }
    case Op::both:
      if (operands.size() == 1) return operands[0];
      break;
    default:
      break;
  }
  return add(op, operands, a, b);
}

int32_t Expressions::add(Op op, std::span<const int32_t> operands, int32_t a, int32_t b) {
  uint64_t hash = uint64_t(op) * 0x9e3779b97f4a7c15ull;
  const auto mix = [&](int32_t x) { hash = (hash ^ uint32_t(x)) * 0xff51afd7ed558ccdull, hash ^= hash >> 32; };
  mix(a), mix(b);
  for (int32_t x : operands) mix(x);
  const auto [from, to] = known_.equal_range(hash);
  for (auto it = from; it != to; ++it) {
    const Node& n = nodes_[size_t(it->second)];
    if (n.op == op && n.a == a && n.b == b && std::ranges::equal(this->operands(it->second), operands)) return it->second;
  }
  bool regular = op != Op::rule && op != Op::token;
  if (op != Op::chars && op != Op::bytes)
    for (int32_t item : operands) regular = regular && nodes_[size_t(item)].regular;
  const auto node = int32_t(nodes_.size());
  nodes_.push_back({op, a, b, uint32_t(operands_.size()), uint32_t(operands.size()), regular});
  operands_.insert(operands_.end(), operands.begin(), operands.end());
  known_.emplace(hash, node);
  return node;
}

// ---- decoding

namespace {

class Reader {
 public:
  Reader(std::span<const int32_t> program, int32_t tokens, Spending& spending) : program_(program), tokens_(tokens), spending_(spending) {}

  Program read() {
    if (next() != 1) fail("is of another version than 1");
    out_.start = next();
    const int32_t rules = next();
    if (rules <= 0) fail("has no rules");
    if (out_.start < 0 || out_.start >= rules) fail("starts with a rule that does not exist");
    spending_.rules(rules);
    rules_ = rules;
    for (int32_t i = 0; i < rules; ++i) out_.rules.push_back(expression(0));
    if (at_ != program_.size()) fail("goes on after its last rule");
    return std::move(out_);
  }

 private:
  [[noreturn]] void fail(const std::string& problem) const {
    throw GrammarError("invalid_grammar", "program " + problem + " (word " + std::to_string(at_) + ")", "program");
  }

  int32_t next() {
    if (at_ >= program_.size()) fail("ends early");
    return program_[at_++];
  }

  // How many operands follow, each at least `words` long.
  size_t count(size_t words) {
    const int32_t n = next();
    if (n < 0 || size_t(n) > (program_.size() - at_) / words) fail("ends early");
    return size_t(n);
  }

  std::vector<int32_t> items(int64_t depth) {
    std::vector<int32_t> nodes(count(1));
    for (int32_t& node : nodes) node = expression(depth + 1);
    return nodes;
  }

  std::vector<int32_t> code_points() {
    std::vector<int32_t> ranges;
    const auto add = [&](int32_t lo, int32_t hi) {
      if (lo <= hi) ranges.push_back(lo), ranges.push_back(hi);
    };
    int32_t before = -1;
    for (size_t n = count(2); n > 0; --n) {
      const int32_t lo = next(), hi = next();
      if (lo <= before || hi < lo || hi > 0x10FFFF) fail("has ranges of code points that are not sorted, disjoint and at most U+10FFFF");
      before = hi;
      // UTF-8 has no surrogates.
      add(lo, std::min(hi, 0xD7FF));
      add(std::max(lo, 0xE000), hi);
    }
    return ranges;
  }

  int32_t expression(int64_t depth) {
    spending_.nesting(depth);
    spending_.tick();
    spending_.bytes(48);
    auto& e = out_.expressions;
    const int32_t op = next();
    switch (Op(op)) {
      case Op::empty:
      case Op::never:
        return e.make(Op(op));
      case Op::chars:
        return e.make(Op::chars, code_points());
      case Op::bytes: {
        std::vector<int32_t> bytes(count(1));
        for (int32_t& byte : bytes)
          if (byte = next(); byte < 0 || byte > 255) fail("has a byte that is not 0 to 255");
        return e.make(Op::bytes, bytes);
      }
      case Op::token: {
        const int32_t id = next();
        if (id < 0 || id >= tokens_) fail("names token " + std::to_string(id) + ", which the vocabulary lacks");
        return e.make(Op::token, {}, id);
      }
      case Op::seq:
      case Op::alt:
        return e.make(Op(op), items(depth));
      case Op::repeat: {
        const int32_t min = next(), max = next();
        if (min < 0 || max < -1 || (max >= 0 && max < min)) fail("repeats from " + std::to_string(min) + " to " + std::to_string(max) + " times");
        const int32_t item = expression(depth + 1);
        return e.make(Op::repeat, {&item, 1}, min, max);
      }
      case Op::rule: {
        const int32_t rule = next();
        if (rule < 0 || rule >= rules_) fail("uses rule " + std::to_string(rule) + ", which does not exist");
        return e.make(Op::rule, {}, rule);
      }
      case Op::both: {
        const auto nodes = items(depth);
        if (nodes.empty()) fail("intersects nothing");
        for (int32_t node : nodes) require_regular(node, "intersects");
        return e.make(Op::both, nodes);
      }
      case Op::negate: {
        const int32_t item = expression(depth + 1);
        require_regular(item, "complements");
        return e.make(Op::negate, {&item, 1});
      }
    }
    fail("has an unknown operation " + std::to_string(op));
  }

  void require_regular(int32_t node, const char* what) const {
    if (!out_.expressions[node].regular) fail(std::string(what) + " an expression that holds a rule or a token");
  }

  std::span<const int32_t> program_;
  int32_t tokens_, rules_ = 0;
  Spending& spending_;
  Program out_;
  size_t at_ = 0;
};

// r = r t1 | r t2 | b1 | b2 is r = (b1 | b2) (t1 | t2)*. Other left recursion is refused when the automata are known.
void remove_direct_left_recursion(Program& program) {
  auto& e = program.expressions;
  for (size_t rule = 0; rule < program.rules.size(); ++rule) {
    const int32_t root = program.rules[rule];
    const auto is_self = [&](int32_t node) { return e[node].op == Op::rule && e[node].a == int32_t(rule); };
    const auto begins_with_self = [&](int32_t node) { return is_self(node) || (e[node].op == Op::seq && is_self(e.operands(node)[0])); };
    std::vector<int32_t> choices{root};
    if (e[root].op == Op::alt) choices.assign(e.operands(root).begin(), e.operands(root).end());
    std::vector<int32_t> first, then;
    for (int32_t choice : choices) {
      if (!begins_with_self(choice)) first.push_back(choice);
      else if (e[choice].op == Op::seq) {
        const std::vector<int32_t> rest(e.operands(choice).begin() + 1, e.operands(choice).end());
        then.push_back(e.make(Op::seq, rest));
      }
    }
    if (first.size() == choices.size()) continue;
    const int32_t tail = e.make(Op::alt, then);
    const int32_t parts[] = {e.make(Op::alt, first), e.make(Op::repeat, {&tail, 1}, 0, -1)};
    program.rules[rule] = e.make(Op::seq, parts);
  }
}

}  // namespace

Program decode(std::span<const int32_t> words, int32_t tokens, Spending& spending) {
  Program program = Reader(words, tokens, spending).read();
  remove_direct_left_recursion(program);
  return program;
}

}  // namespace anneal::grammar
