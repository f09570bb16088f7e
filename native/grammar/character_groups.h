// Characters in groups that the texts of formats and patterns mostly take or leave as wholes.
#pragma once
#include <bitset>
#include <cstdint>

namespace anneal::grammar {

// Bit i: the characters of group i.
using Groups = uint16_t;

constexpr Groups kLower = 1, kUpper = 2, kDigit = 4, kUnderscore = 8, kHyphen = 16, kPoint = 32, kSlash = 64,
                 kColon = 128, kSpace = 256, kQuote = 512, kBackslash = 1024, kControl = 2048, kOtherAscii = 4096,
                 kBeyondAscii = 8192;
// Bytes that are no whole characters; no text of groups has them.
constexpr Groups kBroken = 16384;
// What stands in JSON strings as itself.
constexpr Groups kPlainJson =
    kLower | kUpper | kDigit | kUnderscore | kHyphen | kPoint | kSlash | kColon | kSpace | kOtherAscii | kBeyondAscii;

// Of a byte that is, or begins, or goes on with a character.
constexpr Groups group_of(uint8_t byte) {
  if (byte >= 0x80) return kBeyondAscii;
  if (byte >= 'a' && byte <= 'z') return kLower;
  if (byte >= 'A' && byte <= 'Z') return kUpper;
  if (byte >= '0' && byte <= '9') return kDigit;
  if (byte < ' ') return kControl;
  switch (byte) {
    case '_': return kUnderscore;
    case '-': return kHyphen;
    case '.': return kPoint;
    case '/': return kSlash;
    case ':': return kColon;
    case ' ': return kSpace;
    case '"': return kQuote;
    case '\\': return kBackslash;
    default: return kOtherAscii;
  }
}

// Whether a text of these characters can have one of these bytes.
inline bool meets(Groups groups, const std::bitset<256>& bytes) {
  for (int byte = 0; byte < 256; ++byte)
    if (bytes[size_t(byte)] && groups & group_of(uint8_t(byte))) return true;
  return false;
}

}  // namespace anneal::grammar
