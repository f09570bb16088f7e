// Deterministic finite automata over bytes.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace anneal::grammar {

struct ByteEdge {
  uint8_t lo, hi;
  int32_t to;
};

// Any symbol that is not a byte: rules to call, and tokens.
struct SymbolEdge {
  int32_t symbol, to;
};

// Deterministic. State 0 is the start; from every state an accepting one is reached; no states at all: nothing is
// accepted.
class Automaton {
 public:
  struct State {
    uint32_t edges, symbols;  // where its edges end; they begin where those of the state before end
    bool accepts;
  };
  int32_t size() const { return int32_t(states_.size()); }
  bool accepts(int32_t state) const { return states_[size_t(state)].accepts; }
  std::span<const ByteEdge> edges(int32_t state) const {  // sorted, disjoint
    const uint32_t from = state == 0 ? 0 : states_[size_t(state) - 1].edges;
    return {edges_.data() + from, states_[size_t(state)].edges - from};
  }
  std::span<const SymbolEdge> symbols(int32_t state) const {  // sorted, one per symbol
    const uint32_t from = state == 0 ? 0 : states_[size_t(state) - 1].symbols;
    return {symbols_.data() + from, states_[size_t(state)].symbols - from};
  }

  // Of `count` states from `first` on.
  std::span<const SymbolEdge> symbols(int32_t first, int32_t count) const {
    if (count == 0) return {};
    const uint32_t from = first == 0 ? 0 : states_[size_t(first) - 1].symbols;
    return {symbols_.data() + from, states_[size_t(first + count) - 1].symbols - from};
  }

  size_t edge_count() const { return edges_.size(); }
  bool has_symbols() const { return !symbols_.empty(); }
  size_t memory() const {
    return states_.capacity() * sizeof(State) + edges_.capacity() * sizeof(ByteEdge) +
           symbols_.capacity() * sizeof(SymbolEdge);
  }

  // Building. About so many states and edges are to come.
  void expect(int32_t states, size_t edges) { states_.reserve(size_t(states)), edges_.reserve(edges); }
  // States of `other` after those there are; where they lead keeps its numbers.
  void append(const Automaton& other) {
    const auto edges = uint32_t(edges_.size()), symbols = uint32_t(symbols_.size());
    edges_.insert(edges_.end(), other.edges_.begin(), other.edges_.end());
    symbols_.insert(symbols_.end(), other.symbols_.begin(), other.symbols_.end());
    for (auto& state : other.states_) states_.push_back({edges + state.edges, symbols + state.symbols, state.accepts});
  }
  // Keeps the memory.
  void clear() { states_.clear(), edges_.clear(), symbols_.clear(); }
  // Edges of the state that close_state() will end.
  void edge(uint8_t lo, uint8_t hi, int32_t to) {
    const size_t from = states_.empty() ? 0 : states_.back().edges;
    if (edges_.size() > from && edges_.back().to == to && int(edges_.back().hi) + 1 == lo)
      edges_.back().hi = hi;
    else
      edges_.push_back({lo, hi, to});
  }
  void symbol_edge(int32_t symbol, int32_t to) { symbols_.push_back({symbol, to}); }
  void close_state(bool accepts) { states_.push_back({uint32_t(edges_.size()), uint32_t(symbols_.size()), accepts}); }

 private:
  std::vector<State> states_;
  std::vector<ByteEdge> edges_;
  std::vector<SymbolEdge> symbols_;
};

}  // namespace anneal::grammar
