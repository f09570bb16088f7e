// In which order the sequences of a batch go through the gated delta rule: those that go on from another behind it, and
// back before it. Made on the host, read by shaders (delta_scan.comp, delta_scan_backward.comp).
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "../../model/spec.h"

namespace anneal::vulkan {

// Tokens that stand at consecutive positions of one sequence.
struct Sequence {
  int row0, rows, position;
  const int32_t* blocks;
  int recurrent = -1;  // its state; -1: it has none beyond the pass
  int parent = -1;  // the sequence that computes the positions before its own; -1: it has none, or they were computed
};

// A sequence, as shaders/delta_scan.comp has it.
struct DeltaScan {
  int32_t row0, rows;
  int32_t start, keep;  // states: that before the first token, and where that behind the last goes; -1: zeros, nowhere
  int32_t first_save, saves;
};
// And its way back, as shaders/delta_scan_backward.comp has it.
struct DeltaSequence {
  int32_t gradient, first, stretches;
};
struct DeltaStretch {
  int32_t row0, rows, start, first_add, added;
};

// Sequences that may be gone through at the same time, after those before.
struct DeltaLevel {
  int first, count;
};

// Turns of loops for a token, at most: of shaders/delta_scan.comp and delta_scan_backward.comp.
int64_t delta_turns(const model::DeltaRuleSpec&);
int64_t delta_turns_back(const model::DeltaRuleSpec&);

struct DeltaPlan {
  enum class Way : uint8_t { forward, backward };
  // Of all sequences of a batch, in its order. `lead`: tokens that a convolution reads before its own, the most of all
  // layers.
  DeltaPlan(std::span<const Sequence>, int lead, Way);

  std::vector<int32_t> before;  // [rows][lead], see shaders/delta_tokens.glsl
  std::vector<DeltaScan> scans;
  std::vector<int32_t> saves;  // pairs
  std::vector<DeltaLevel> levels;
  int states = 0;  // that scans keep on their way

  // Backward, which begins with the scans once more.
  std::vector<DeltaSequence> sequences;
  std::vector<DeltaStretch> stretches;
  std::vector<int32_t> adds;
  std::vector<DeltaLevel> levels_back;  // of `sequences`
  std::vector<int32_t> readers;         // see shaders/delta_convolution_backward.comp
  int longest = 0;                      // tokens of a stretch
};

// A plan where shaders read it: addresses.
struct DeltaLists {
  int lead = 0;
  uint64_t before = 0, scans = 0, saves = 0;
  std::vector<DeltaLevel> levels;
};
struct DeltaListsBack : DeltaLists {
  uint64_t sequences = 0, stretches = 0, adds = 0, readers = 0;
  std::vector<DeltaLevel> levels_back;
  int longest = 0;
};

}  // namespace anneal::vulkan
