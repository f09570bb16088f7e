// The UTF-8 encodings of a range of code points, as sequences of byte ranges.
#pragma once
#include <array>
#include <cstdint>
#include <vector>

namespace anneal::grammar {

struct ByteRange {
  uint8_t lo, hi;
};

struct Utf8Sequence {
  int length;
  std::array<ByteRange, 4> bytes;
};

// lo..hi without surrogates. Every encoding is matched by exactly one of the sequences.
void utf8_sequences(int32_t lo, int32_t hi, std::vector<Utf8Sequence>& out);

}  // namespace anneal::grammar
