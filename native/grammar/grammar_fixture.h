// What the checks of the grammar engine share: expressions in both readings, and vocabularies to try them on.
#pragma once
#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "grammar_reference.h"
#include "matcher.h"

namespace anneal::grammar {

inline int failures = 0;
inline void check(bool ok, const char* format, ...) {
  if (ok) return;
  if (failures++ >= 20) return;
  std::printf("FAILED: ");
  va_list list;
  va_start(list, format);
  std::vprintf(format, list);
  va_end(list);
  std::printf("\n");
}

using Code = std::vector<int32_t>;
inline Code operator+(Code a, const Code& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// An expression in both readings.
struct Expr {
  Code code;
  int language;
};

// Builds expressions of one grammar.
struct Maker {
  reference::Language language;
  Expr empty() { return {{0}, language.empty()}; }
  Expr never() { return {{1}, language.never()}; }
  Expr chars(std::vector<std::pair<int, int>> ranges) {
    Code code{2, int(ranges.size())};
    for (auto [lo, hi] : ranges) code.push_back(lo), code.push_back(hi);
    return {code, language.chars(ranges)};
  }
  Expr text(const std::string& s) {
    Code code{3, int(s.size())};
    std::vector<int> bytes;
    for (unsigned char c : s) code.push_back(c), bytes.push_back(c);
    return {code, language.bytes(bytes)};
  }
  Expr token(int id) { return {{4, id}, language.token(id)}; }
  Expr list(int op, const std::vector<Expr>& items) {
    Code code{op, int(items.size())};
    std::vector<int> parts;
    for (auto& item : items) code = code + item.code, parts.push_back(item.language);
    return {code, op == 5 ? language.seq(parts) : op == 6 ? language.alt(parts) : language.both(parts)};
  }
  Expr seq(const std::vector<Expr>& items) { return list(5, items); }
  Expr alt(const std::vector<Expr>& items) { return list(6, items); }
  Expr both(const std::vector<Expr>& items) { return list(9, items); }
  Expr repeat(const Expr& item, int min, int max) {
    return {Code{7, min, max} + item.code, language.repeat(item.language, min, max)};
  }
  Expr rule(int index) { return {{8, index}, language.rule(index)}; }
  Expr negate(const Expr& item) { return {Code{10} + item.code, language.negate(item.language)}; }

  Code program(const std::vector<Expr>& rules, int start = 0) {
    Code code{1, start, int(rules.size())};
    for (size_t i = 0; i < rules.size(); ++i) code = code + rules[i].code, language.define(int(i), rules[i].language);
    return code;
  }
};

struct Words {
  std::vector<std::string> tokens;
  std::set<int> special, end;
  std::shared_ptr<const Vocabulary> vocabulary() const {
    std::vector<uint8_t> bytes;
    std::vector<int32_t> offsets{0}, s(special.begin(), special.end()), e(end.begin(), end.end());
    for (auto& token : tokens) {
      bytes.insert(bytes.end(), token.begin(), token.end());
      offsets.push_back(int32_t(bytes.size()));
    }
    return std::make_shared<Vocabulary>(bytes, offsets, s, e);
  }
};

// Letters of one to four bytes, and pieces of them.
inline const std::vector<std::string> kLetters = {
    "a",           "b", "c", "\"", "\xC3\xA9", "\xE8\xAA\x9E", "\xF0\x9F\x98\x80", "\xC2\xA0", "\xE2\x80\xA8",
    "\xE3\x80\x80"};  // the last are white space, or end lines
inline const std::vector<std::string> kPieces = {"\xE2\x80", "\xC3", "\xA9",         "\xE8",    "\xAA",
                                                 "\xE8\xAA", "\x9E", "\xF0\x9F",     "\x98",    "\x80",
                                                 "\x98\x80", "\xFF", "\xED\xA0\x80", "\xC0\x80"};

using Random = std::mt19937;
inline int below(Random& random, int n) { return int(random() % unsigned(n)); }

inline Words random_words(Random& random) {
  Words words;
  for (auto& letter : kLetters) words.tokens.push_back(letter);
  for (auto& piece : kPieces)
    if (below(random, 2)) words.tokens.push_back(piece);
  for (int i = 0; i < 60; ++i) {
    std::string token;
    for (int n = 1 + below(random, 4); n > 0; --n)
      token += below(random, 4)   ? kLetters[size_t(below(random, 4))]
               : below(random, 2) ? kLetters[size_t(below(random, int(kLetters.size())))]
                                  : kPieces[size_t(below(random, int(kPieces.size())))];
    words.tokens.push_back(token);  // now and then one is there twice
  }
  words.tokens.push_back("");
  for (const char* name : {"ab", "<x>", "<end>", "<end2>"}) {
    words.special.insert(int(words.tokens.size()));
    words.tokens.push_back(name);
  }
  words.end = {int(words.tokens.size()) - 2, int(words.tokens.size()) - 1};
  return words;
}

// Random expressions.
struct Generator {
  Random& random;
  Maker& maker;
  int rules, tokens;  // tokens: the first special one

  Expr leaf() {
    switch (below(random, 14)) {
      case 0: return maker.empty();
      case 1: return below(random, 4) ? maker.text("ab") : maker.never();
      case 2: return maker.chars({{'a', 'b'}});
      case 3: return maker.chars({{'a', 'a'}, {0xE9, 0xEA}, {0x8A00, 0x8AFF}});
      case 4: return maker.chars({{0, '"' - 1}, {'"' + 1, 0x10FFFF}});
      case 5: return maker.chars({{0x600, 0xFFFF}, {0x10000, 0x1F600}});
      case 6: return maker.text(kLetters[size_t(below(random, int(kLetters.size())))]);
      case 7: return maker.text("\"");
      case 9: return maker.chars({{'a', 'z'}, {0x80, 0x10FFFF}});
      case 10: return maker.repeat(maker.chars({{'A', 'Z'}, {'a', 'z'}}), 0, below(random, 2) ? -1 : 2);
      case 11: return maker.chars({{0, '"' - 1}, {'"' + 1, 0x2027}, {0x202A, 0x10FFFF}});
      case 8: return maker.text(kPieces[size_t(below(random, int(kPieces.size())))]);
      default: return maker.text(std::string(1, "abc"[below(random, 3)]));
    }
  }
  Expr expr(int depth, bool regular) {
    if (depth == 0) return leaf();
    const auto some = [&](int least, int most) {
      std::vector<Expr> items;
      for (int n = least + below(random, most - least + 1); n > 0; --n) items.push_back(expr(depth - 1, regular));
      return items;
    };
    switch (below(random, regular ? 9 : 14)) {
      case 0:
      case 1: return maker.seq(some(1, 3));
      case 2:
      case 3: return maker.alt(some(1, 3));
      case 4: {
        const int min = below(random, 3), max = below(random, 3) ? -1 : min + below(random, 3);
        return maker.repeat(expr(depth - 1, regular), min, max);
      }
      case 5: {
        const int min = below(random, 12);
        return maker.repeat(leaf(), min, min + below(random, 40));
      }
      case 6: {
        std::vector<Expr> items;
        for (int n = 1 + below(random, 2); n >= 0; --n) items.push_back(expr(std::min(depth - 1, 2), true));
        return maker.both(items);
      }
      case 7: return maker.negate(expr(std::min(depth - 1, 2), true));
      case 9: return maker.token(tokens + below(random, 2));
      case 10:
      case 11:
      case 12: return maker.rule(below(random, rules));
      default: return leaf();
    }
  }
};

// A mask made in turns of a few steps, while another matcher at the same place makes its own.
inline int64_t pauses = 0;
inline std::shared_ptr<const Mask> mask_in_turns(Matcher& matcher, int steps) {
  Matcher beside = matcher;
  std::shared_ptr<const Mask> mask, other;
  for (; !mask; ++pauses) {
    Turn own(steps), others(3 * steps);
    mask = matcher.mask(own);
    if (!other) other = beside.mask(others);
  }
  check(!other || *other == *mask, "a mask made in other turns is another one");
  return mask;
}

inline bool permits(const Mask& mask, int token) { return mask[size_t(token) / 32] >> (token % 32) & 1; }

// Random grammars over random vocabularies, and bounded texts of several bounds: every token of every mask is compared.
void random_grammars(int count);
void bounded_texts();
void excluded_texts();
void counted_texts();
void called_texts();
void short_walks();
void different_items();

}  // namespace anneal::grammar
