#include "determinize.h"

#include <algorithm>

namespace anneal::grammar {

void Determinizer::run(const Nfa& nfa, int32_t start, int32_t accept, Automaton& out) {
  nfa_ = &nfa, accept_ = accept;
  // Rounds go on from one automaton to the next: what was seen before was seen in an earlier one.
  if (seen_.size() < size_t(nfa.size())) seen_.resize(size_t(nfa.size()), 0);
  if (++round_ > UINT32_MAX / 2) std::fill(seen_.begin(), seen_.end(), 0), round_ = 1;
  alone_.assign(size_t(nfa.size()), -1);
  sets_.clear(), set_.clear(), out_.clear();
  add(start);
  number();
  for (uint32_t i = 0; i < sets_.size(); ++i) close(i);
  minimizer_.run(out_, out);
}

// Collects the states that silent steps reach; of these only such with arcs of their own, or the accepting one,
// matter.
void Determinizer::add(int32_t state) {
  const auto meet = [&](int32_t s) {
    if (seen_[size_t(s)] == round_) return;
    seen_[size_t(s)] = round_;
    const auto heads = nfa_->heads(s);
    if (heads.steps >= 0 || s == accept_) set_.push_back(uint64_t(s));
    if (heads.skips >= 0) work_.push_back(heads.skips);
  };
  meet(state);
  while (!work_.empty()) {
    int32_t skip = work_.back();
    work_.pop_back();
    spending_.tick();
    for (; skip >= 0; skip = (*nfa_)[skip].next) meet((*nfa_)[skip].to);
  }
}

// What one step leads to, which is nearly always all that a byte leads to.
int32_t Determinizer::number_of(int32_t state) {
  int32_t& known = alone_[size_t(state)];
  if (known < 0) add(state), known = number();
  return known;
}

// Of the set that was collected.
int32_t Determinizer::number() {
  if (set_.size() > 1) std::sort(set_.begin(), set_.end());
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

void Determinizer::close(uint32_t set) {
  steps_.clear(), symbols_.clear();
  bool accepts = false;
  for (uint64_t s : sets_.at(set)) {
    accepts |= int32_t(s) == accept_;
    for (int32_t i = nfa_->heads(int32_t(s)).steps; i >= 0; i = (*nfa_)[i].next) {
      const auto& arc = (*nfa_)[i];
      if (arc.special)
        symbols_.push_back({arc.symbol, arc.to});
      else
        steps_.push_back({arc.lo, arc.hi, arc.to});
    }
  }
  add_steps();
  if (symbols_.size() > 1)
    std::sort(symbols_.begin(), symbols_.end(), [](auto& a, auto& b) { return a.symbol < b.symbol; });
  for (size_t i = 0; i < symbols_.size();) {
    const int32_t symbol = symbols_[i].symbol;
    for (; i < symbols_.size() && symbols_[i].symbol == symbol; ++i) add(symbols_[i].to);
    out_.symbol_edge(symbol, number());
    spending_.bytes(sizeof(SymbolEdge));
  }
  out_.close_state(accepts);
}

// The edges of a state.
void Determinizer::add_steps() {
  const auto edge = [&](int lo, int hi, int32_t to) {
    out_.edge(uint8_t(lo), uint8_t(hi), to);
    spending_.bytes(sizeof(ByteEdge));
  };
  if (steps_.size() > 1) std::sort(steps_.begin(), steps_.end(), [](auto& a, auto& b) { return a.lo < b.lo; });
  // `live_` holds the steps that cover the byte range being looked at.
  live_.clear();
  int lo = 0;
  for (size_t next = 0; next < steps_.size() || !live_.empty();) {
    if (live_.empty()) {
      const Step& one = steps_[next];
      if (next + 1 == steps_.size() || steps_[next + 1].lo > one.hi) {
        edge(one.lo, one.hi, number_of(one.to));
        ++next;
        continue;
      }
      lo = one.lo;
    }
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
    edge(lo, hi, to);
    lo = hi + 1;
    std::erase_if(live_, [&](auto& s) { return s.hi < lo; });
  }
}

}  // namespace anneal::grammar
