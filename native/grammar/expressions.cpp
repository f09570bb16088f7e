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
      items_.clear();
      for (int32_t item : operands) {
        if (nodes_[size_t(item)].op == Op::never) return add(Op::never, {}, 0, 0);
        if (nodes_[size_t(item)].op != Op::empty) items_.push_back(item);
      }
      if (items_.empty()) return add(Op::empty, {}, 0, 0);
      if (items_.size() == 1) return items_[0];
      return add(op, items_, 0, 0);
    }
    case Op::alt: {
      items_.clear();
      for (int32_t item : operands)
        if (nodes_[size_t(item)].op != Op::never) items_.push_back(item);
      const auto order = [&](int32_t item) { return std::pair(nodes_[size_t(item)].hash, item); };
      std::sort(items_.begin(), items_.end(), [&](int32_t x, int32_t y) { return order(x) < order(y); });
      items_.erase(std::unique(items_.begin(), items_.end()), items_.end());
      if (items_.empty()) return add(Op::never, {}, 0, 0);
      if (items_.size() == 1) return items_[0];
      return add(op, items_, 0, 0);
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
    default: break;
  }
  return add(op, operands, a, b);
}

int32_t Expressions::add(Op op, std::span<const int32_t> operands, int32_t a, int32_t b) {
  const bool leaf = op == Op::chars || op == Op::bytes;
  uint64_t hash = uint64_t(op) * 0x9e3779b97f4a7c15ull;
  const auto mix = [&](uint64_t x) { hash = (hash ^ x) * 0xff51afd7ed558ccdull, hash ^= hash >> 32; };
  mix(uint32_t(a)), mix(uint32_t(b));
  for (int32_t x : operands) mix(leaf ? uint32_t(x) : nodes_[size_t(x)].hash);
  size_t slot = hash & (slots_.size() - 1);
  for (; slots_[slot] >= 0; slot = (slot + 1) & (slots_.size() - 1)) {
    const int32_t known = slots_[slot];
    const Node& n = nodes_[size_t(known)];
    if (n.hash == hash && n.op == op && n.a == a && n.b == b && std::ranges::equal(this->operands(known), operands))
      return known;
  }
  bool regular = op != Op::rule && op != Op::token && op != Op::mark;
  if (!leaf)
    for (int32_t item : operands) regular = regular && nodes_[size_t(item)].regular;
  const auto node = int32_t(nodes_.size());
  nodes_.push_back(
      {op, a, b, uint32_t(operands_.size()), uint32_t(operands.size()), regular, is_text(op, operands), hash});
  operands_.insert(operands_.end(), operands.begin(), operands.end());
  slots_[slot] = node;
  if (nodes_.size() * 2 > slots_.size()) grow();
  return node;
}

bool Expressions::is_text(Op op, std::span<const int32_t> operands) const {
  const auto text = [&](int32_t item) { return nodes_[size_t(item)].text; };
  switch (op) {
    case Op::token:
    case Op::mark:
    case Op::rule: return false;
    case Op::bytes: return std::ranges::all_of(operands, [](int32_t byte) { return byte < 0x80; });
    case Op::seq:
    case Op::alt:
    case Op::repeat: return std::ranges::all_of(operands, text);
    case Op::both: return std::ranges::any_of(operands, text);
    default: return true;
  }
}

void Expressions::grow() {
  slots_.assign(slots_.size() * 2, -1);
  for (size_t node = 0; node < nodes_.size(); ++node) {
    size_t slot = nodes_[node].hash & (slots_.size() - 1);
    while (slots_[slot] >= 0) slot = (slot + 1) & (slots_.size() - 1);
    slots_[slot] = int32_t(node);
  }
}

// ---- decoding

namespace {

class Reader {
 public:
  Reader(std::span<const int32_t> program, int32_t tokens, Spending& spending)
      : program_(program), tokens_(tokens), spending_(spending) {}

  Program read() {
    if (next() != 1) fail("is of another version than 1");
    out_.start = next();
    const int32_t rules = next();
    if (rules <= 0) fail("has no rules");
    if (out_.start < 0 || out_.start >= rules) fail("starts with a rule that does not exist");
    spending_.rules(rules);
    rules_ = rules;
    for (int32_t i = 0; i < rules; ++i) out_.rules.push_back(expression(0).node);
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

  struct Read {
    int32_t node;
    int64_t height;  // levels of expressions inside it
  };

  // Onto `open_`, from where the caller takes them. Their greatest height.
  int64_t items(int64_t depth) {
    int64_t height = 0;
    for (size_t n = count(1); n > 0; --n) {
      const Read item = expression(depth + 1);
      open_.push_back(item.node);
      height = std::max(height, item.height);
    }
    return height;
  }

  std::vector<int32_t> code_points() {
    std::vector<int32_t> ranges;
    const auto add = [&](int32_t lo, int32_t hi) {
      if (lo <= hi) ranges.push_back(lo), ranges.push_back(hi);
    };
    int32_t before = -1;
    for (size_t n = count(2); n > 0; --n) {
      const int32_t lo = next(), hi = next();
      if (lo <= before || hi < lo || hi > 0x10FFFF)
        fail("has ranges of code points that are not sorted, disjoint and at most U+10FFFF");
      before = hi;
      // UTF-8 has no surrogates.
      add(lo, std::min(hi, 0xD7FF));
      add(std::max(lo, 0xE000), hi);
    }
    return ranges;
  }

  Read expression(int64_t depth) {
    spending_.nesting(depth);
    spending_.tick();
    spending_.bytes(48);
    auto& e = out_.expressions;
    const int32_t op = next();
    switch (Op(op)) {
      case Op::empty:
      case Op::never: return {e.make(Op(op)), 0};
      case Op::bytes: {
        const size_t n = count(1), begin = at_;
        for (size_t i = 0; i < n; ++i)
          if (const int32_t byte = next(); byte < 0 || byte > 255) fail("has a byte that is not 0 to 255");
        return {e.make(Op::bytes, program_.subspan(begin, n)), 0};
      }
      case Op::token: {
        const int32_t id = next();
        if (id < 0 || id >= tokens_) fail("names token " + std::to_string(id) + ", which the vocabulary lacks");
        return {e.make(Op::token, {}, id), 0};
      }
      case Op::rule: {
        const int32_t rule = next();
        if (rule < 0 || rule >= rules_) fail("uses rule " + std::to_string(rule) + ", which does not exist");
        return {e.make(Op::rule, {}, rule), 0};
      }
      case Op::mark: {
        const int32_t mark = next();
        if (mark < 0 || mark >= kMarks) fail("has an unknown mark " + std::to_string(mark));
        return {e.make(Op::mark, {}, mark), 0};
      }
      case Op::same: {
        const int32_t number = next();
        if (number < 0 || size_t(number) >= numbered_.size() || numbered_[size_t(number)].node < 0)
          fail("repeats expression " + std::to_string(number) + ", which has not ended");
        const Read known = numbered_[size_t(number)];
        spending_.nesting(depth + known.height);
        return known;
      }
      default: {
        const size_t number = numbered_.size();
        numbered_.push_back({-1, 0});
        return numbered_[number] = composed(op, depth);
      }
    }
  }

  Read composed(int32_t op, int64_t depth) {
    auto& e = out_.expressions;
    const size_t begin = open_.size();
    int64_t height = 0, min = 0, max = 0;
    switch (Op(op)) {
      case Op::chars: return {e.make(Op::chars, code_points()), 0};
      case Op::seq:
      case Op::alt: height = items(depth); break;
      case Op::repeat:
        min = next(), max = next();
        if (min < 0 || max < -1 || (max >= 0 && max < min))
          fail("repeats from " + std::to_string(min) + " to " + std::to_string(max) + " times");
        height = item(depth);
        break;
      case Op::both:
        height = items(depth);
        if (open_.size() == begin) fail("intersects nothing");
        for (size_t i = begin; i < open_.size(); ++i) require_regular(open_[i], "intersects");
        break;
      case Op::negate:
        height = item(depth);
        require_regular(open_.back(), "complements");
        break;
      default: fail("has an unknown operation " + std::to_string(op));
    }
    const int32_t node = e.make(Op(op), {open_.data() + begin, open_.size() - begin}, int32_t(min), int32_t(max));
    open_.resize(begin);
    return {node, height + 1};
  }

  int64_t item(int64_t depth) {
    const Read read = expression(depth + 1);
    open_.push_back(read.node);
    return read.height;
  }

  void require_regular(int32_t node, const char* what) const {
    if (!out_.expressions[node].regular) fail(std::string(what) + " an expression that holds a rule or a token");
  }

  std::span<const int32_t> program_;
  int32_t tokens_, rules_ = 0;
  Spending& spending_;
  Program out_;
  size_t at_ = 0;
  std::vector<Read> numbered_;  // node -1: not ended
  std::vector<int32_t> open_;   // operands of expressions that have not ended
};

// r = r t1 | r t2 | b1 | b2 is r = (b1 | b2) (t1 | t2)*. Other left recursion is refused when the automata are known.
void remove_direct_left_recursion(Program& program) {
  auto& e = program.expressions;
  for (size_t rule = 0; rule < program.rules.size(); ++rule) {
    const int32_t root = program.rules[rule];
    const auto is_self = [&](int32_t node) { return e[node].op == Op::rule && e[node].a == int32_t(rule); };
    const auto begins_with_self = [&](int32_t node) {
      return is_self(node) || (e[node].op == Op::seq && is_self(e.operands(node)[0]));
    };
    std::vector<int32_t> choices{root};
    if (e[root].op == Op::alt) choices.assign(e.operands(root).begin(), e.operands(root).end());
    std::vector<int32_t> first, then;
    for (int32_t choice : choices) {
      if (!begins_with_self(choice))
        first.push_back(choice);
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
