#include "product.h"

#include <algorithm>

#include "minimal.h"
#include "span_set.h"

namespace anneal::grammar {

namespace {

// Pairs of states; `subtract`: the second may be -1, which accepts nothing.
Automaton product(const Automaton& a, const Automaton& b, bool subtract, Spending& spending) {
  Automaton out;
  if (a.size() == 0 || (b.size() == 0 && !subtract)) return out;
  SpanSet pairs;
  const auto pair = [&](int32_t p, int32_t q) {
    const uint64_t word[] = {uint64_t(uint32_t(p)) << 32 | uint32_t(q)};
    const size_t before = pairs.size();
    const uint32_t number = pairs.intern(word);
    if (pairs.size() > before) spending.states(1), spending.bytes(64);
    return int32_t(number);
  };
  pair(0, b.size() == 0 ? -1 : 0);
  for (uint32_t i = 0; i < pairs.size(); ++i) {
    const uint64_t word = pairs.at(i)[0];
    const auto p = int32_t(word >> 32), q = int32_t(uint32_t(word));
    const auto others = q < 0 ? std::span<const ByteEdge>() : b.edges(q);
    size_t j = 0;
    for (auto& e : a.edges(p)) {
      int lo = e.lo;
      while (j < others.size() && others[j].hi < lo) ++j;
      for (size_t k = j; lo <= e.hi;) {
        while (k < others.size() && others[k].hi < lo) ++k;
        const bool inside = k < others.size() && others[k].lo <= lo;
        const int end = inside              ? std::min(others[k].hi, e.hi)
                        : k < others.size() ? std::min(int(others[k].lo) - 1, int(e.hi))
                                            : e.hi;
        if (inside)
          out.edge(uint8_t(lo), uint8_t(end), pair(e.to, others[k].to));
        else if (subtract)
          out.edge(uint8_t(lo), uint8_t(end), pair(e.to, -1));
        spending.bytes(sizeof(ByteEdge));
        lo = end + 1;
      }
    }
    const bool second = q >= 0 && b.accepts(q);
    out.close_state(a.accepts(p) && second != subtract);
  }
  return out.size() > kNearlyMinimal ? trimmed(out) : Minimizer(spending).run(out);
}

}  // namespace

Automaton intersection(const Automaton& a, const Automaton& b, Spending& spending) {
  return product(a, b, false, spending);
}
Automaton difference(const Automaton& a, const Automaton& b, Spending& spending) {
  return product(a, b, true, spending);
}

}  // namespace anneal::grammar
