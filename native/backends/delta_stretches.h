// In which stretches backward passes take the tokens of a sequence through the gated delta rule, on every device:
// states are held before each and computed again within one, and what the convolution's inputs take of tokens is summed
// stretch by stretch.
#pragma once
#include <algorithm>
#include <span>
#include <vector>

namespace anneal::backends {

// A longer sequence has longer ones: then states before and within stretches take about as much.
constexpr int kMinBackwardStretch = 16, kMaxBackwardStretch = 256;  // tokens

inline int backward_stretch(int rows) {
  int stretch = kMinBackwardStretch;
  while (stretch < kMaxBackwardStretch && stretch * stretch < rows) stretch *= 2;
  return stretch;
}

// Where stretches of `rows` tokens end: at most `length` tokens after they began, and where others branch off: behind
// how many tokens, ascending.
inline std::vector<int> stretch_ends(int rows, int length, std::span<const int> branches) {
  std::vector<int> ends;
  auto branch = branches.begin();
  for (int at = 0; at < rows;) {
    while (branch != branches.end() && *branch <= at) ++branch;
    const int end = std::min(rows, at + length);
    ends.push_back(at = branch == branches.end() ? end : std::min(end, *branch));
  }
  return ends;
}

}  // namespace anneal::backends
