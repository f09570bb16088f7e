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
// White space and ends of lines beyond ASCII, which patterns tell from kBeyondAscii: all other characters there.
constexpr Groups kSpaceBeyondAscii = 32768;

struct CharacterRange {
  int32_t first, last;
};
// Of kSpaceBeyondAscii, rising.
constexpr CharacterRange kSpacesBeyondAscii[] = {{0xA0, 0xA0},     {0x1680, 0x1680}, {0x2000, 0x200A},
                                                 {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F},
                                                 {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};

// Of a byte that is, or begins, or goes on with a character; of which group it is beyond ASCII one byte does not tell.
constexpr Groups group_of(uint8_t byte) {
  if (byte >= 0x80) return kBeyondAscii | kSpaceBeyondAscii;
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

constexpr Groups group_beyond_ascii(int32_t character) {
  for (const auto& [first, last] : kSpacesBeyondAscii)
    if (character >= first && character <= last) return kSpaceBeyondAscii;
  return kBeyondAscii;
}

// Whether a text of these characters can have one of these bytes.
inline bool meets(Groups groups, const std::bitset<256>& bytes) {
  for (int byte = 0; byte < 256; ++byte)
    if (bytes[size_t(byte)] && groups & group_of(uint8_t(byte))) return true;
  return false;
}

}  // namespace anneal::grammar
