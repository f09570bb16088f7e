#include "determinize.h"

#include <algorithm>

#include "minimal.h"
#include "span_set.h"

namespace anneal::grammar {

namespace {

class Subsets {
 public:
  Subsets(const Nfa& nfa, int32_t accept, Spending& spending)
      : nfa_(nfa), accept_(accept), spending_(spending), seen_(size_t(nfa.size()), 0), alone_(size_t(nfa.size()), -1) {}

  Automaton run(int32_t start) {
    out_.expect(nfa_.size());
    add(start);
    number();
    for (uint32_t i = 0; i < sets_.size(); ++i) state(i);
    return std::move(out_);
  }

 private:
  struct Step {
    uint8_t lo, hi;
    int32_t to;
  };

  // Collects the states that silent steps reach; of these only such with arcs of their own, or the accepting one,
  // matter.
  void add(int32_t state) {
    if (seen_[size_t(state)] == round_) return;
    seen_[size_t(state)] = round_;
    work_.push_back(state);
    while (!work_.empty()) {
      const int32_t s = work_.back();
      work_.pop_back();
      spending_.tick();
      bool matters = s == accept_;
      for (int32_t i = nfa_.head(s); i >= 0; i = nfa_[i].next) {
        if (nfa_[i].kind != Nfa::Arc::skip) {
          matters = true;
        } else if (seen_[size_t(nfa_[i].to)] != round_) {
          seen_[size_t(nfa_[i].to)] = round_;
          work_.push_back(nfa_[i].to);
        }
      }
      if (matters) set_.push_back(uint64_t(s));
    }
  }

  // What one step leads to, which is nearly always all that a byte leads to.
  int32_t number_of(int32_t state) {
    int32_t& known = alone_[size_t(state)];
    if (known < 0) add(state), known = number();
    return known;
  }

  // Of the set that was collected.
  int32_t number() {
    std::sort(set_.begin(), set_.end());
    const size_t before = sets_.size();
    const uint32_t result = sets_.intern(set_);
    if (sets_.size() > before) {
      spending_.states(1);
      spending_.bytes(int64_t(set_.size()) * 8 + 64);
    }
    set_.clear();
    ++round_;
    return int32_t(result);
  }

  void state(uint32_t set) {
    steps_.clear(), symbols_.clear();
    bool accepts = false;
    for (uint64_t s : sets_.at(set)) {
      accepts |= int32_t(s) == accept_;
      for (int32_t i = nfa_.head(int32_t(s)); i >= 0; i = nfa_[i].next) {
        const auto& arc = nfa_[i];
        if (arc.kind == Nfa::Arc::bytes) steps_.push_back({arc.lo, arc.hi, arc.to});
        if (arc.kind == Nfa::Arc::special) symbols_.push_back({arc.symbol, arc.to});
      }
    }
    std::sort(steps_.begin(), steps_.end(), [](auto& a, auto& b) { return a.lo < b.lo; });
    // `live_` holds the steps that cover the byte range being looked at.
    live_.clear();
    int lo = 0;
    for (size_t next = 0; next < steps_.size() || !live_.empty();) {
      if (live_.empty()) lo = steps_[next].lo;
      for (; next < steps_.size() && steps_[next].lo == lo; ++next) live_.push_back(steps_[next]);
      int hi = next < steps_.size() ? steps_[next].lo - 1 : 255;
      for (auto& s : live_) hi = std::min(hi, int(s.hi));
      int32_t to = -1;
      if (live_.size() == 1) {
        to = number_of(live_[0].to);
      } else {
        for (auto& s : live_) add(s.to);
        to = number();
      }
      out_.edge(uint8_t(lo), uint8_t(hi), to);
      spending_.bytes(sizeof(ByteEdge));
      lo = hi + 1;
      std::erase_if(live_, [&](auto& s) { return s.hi < lo; });
    }
    std::sort(symbols_.begin(), symbols_.end(), [](auto& a, auto& b) { return a.symbol < b.symbol; });
    for (size_t i = 0; i < symbols_.size();) {
      const int32_t symbol = symbols_[i].symbol;
      for (; i < symbols_.size() && symbols_[i].symbol == symbol; ++i) add(symbols_[i].to);
      out_.symbol_edge(symbol, number());
      spending_.bytes(sizeof(SymbolEdge));
    }
    out_.close_state(accepts);
  }

  const Nfa& nfa_;
  const int32_t accept_;
  Spending& spending_;
  std::vector<uint32_t> seen_;
  std::vector<int32_t> alone_;  // sets that one state comes to; -1: not known yet
  uint32_t round_ = 1;
  std::vector<int32_t> work_;
  std::vector<uint64_t> set_;
  std::vector<Step> steps_, live_;
  std::vector<SymbolEdge> symbols_;
  SpanSet sets_;
  Automaton out_;
};

}  // namespace

Automaton deterministic(const Nfa& nfa, int32_t start, int32_t accept, Spending& spending) {
  return minimal(Subsets(nfa, accept, spending).run(start), spending);
}

}  // namespace anneal::grammar
