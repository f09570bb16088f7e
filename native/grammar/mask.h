// Which tokens may follow, and what making that may cost.
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace anneal::grammar {

// Bit i % 32 of word i / 32 permits token i.
using Mask = std::vector<uint32_t>;

// Where masks stop being made by a plain walk of the vocabulary, and out of parts instead. Masks do not depend on it;
// their times do.
struct MaskLimits {
  uint64_t walk_nodes = 4096;  // under the bytes that may come first: a plain walk costs less than looking parts up
  int walk_bytes = 6;          // that may come first: the same
  size_t max_exits = 1 << 14;  // kept of a state's part, where it is not known yet what follows its rule
  size_t max_follow = 64;      // bytes that may follow a rule with more exits than that
  uint64_t exit_share =
      1;  // of the vocabulary, one part in so many is walked behind the exits of a state's rule at most
  uint64_t call_share = 32;   // the same behind a called rule, where the caller's own state could be looked up instead
  uint64_t slice_share = 16;  // a slice of the vocabulary has at least one token in so many
};

}  // namespace anneal::grammar
