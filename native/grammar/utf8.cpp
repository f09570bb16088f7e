#include "utf8.h"

#include <cstddef>

namespace anneal::grammar {

namespace {

constexpr int32_t kLast[] = {0x7F, 0x7FF, 0xFFFF, 0x10FFFF};  // of each length
constexpr uint8_t kLead[] = {0x00, 0xC0, 0xE0, 0xF0};

}  // namespace

void utf8_sequences(int32_t lo, int32_t hi, std::vector<Utf8Sequence>& out) {
  int length = 1;
  while (lo > kLast[length - 1]) ++length;
  if (hi > kLast[length - 1]) {
    utf8_sequences(lo, kLast[length - 1], out);
    return utf8_sequences(kLast[length - 1] + 1, hi, out);
  }
  // Where the leading bytes differ, the trailing bytes below them must run through their whole range: else cut there.
  for (int trailing = 1; trailing < length; ++trailing) {
    const int32_t low = (1 << (6 * trailing)) - 1;
    if ((lo & ~low) == (hi & ~low)) break;
    if ((lo & low) != 0) {
      utf8_sequences(lo, lo | low, out);
      return utf8_sequences((lo | low) + 1, hi, out);
    }
    if ((hi & low) != low) {
      utf8_sequences(lo, (hi & ~low) - 1, out);
      return utf8_sequences(hi & ~low, hi, out);
    }
  }
  Utf8Sequence sequence{length, {}};
  for (int i = length - 1; i > 0; --i, lo >>= 6, hi >>= 6)
    sequence.bytes[std::size_t(i)] = {uint8_t(0x80 | (lo & 0x3F)), uint8_t(0x80 | (hi & 0x3F))};
  sequence.bytes[0] = {uint8_t(kLead[length - 1] | lo), uint8_t(kLead[length - 1] | hi)};
  out.push_back(sequence);
}

}  // namespace anneal::grammar
