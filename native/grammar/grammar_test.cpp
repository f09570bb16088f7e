// Checks the grammar engine against a slow second reading (grammar_reference.h): random grammars and vocabularies, every token of every mask.
// make -C native/grammar test; prints one line per group and exits with 1 when something differed.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdarg>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <random>
#include <set>
#include <thread>

#include "grammar_reference.h"
#include "matcher.h"

using namespace anneal::grammar;

namespace {

int failures = 0;
void check(bool ok, const char* format, ...) {
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
Code operator+(Code a, const Code& b) {
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
  Expr repeat(const Expr& item, int min, int max) { return {Code{7, min, max} + item.code, language.repeat(item.language, min, max)}; }
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
const std::vector<std::string> kLetters = {"a", "b", "c", "\"", "\xC3\xA9", "\xE8\xAA\x9E", "\xF0\x9F\x98\x80"};
const std::vector<std::string> kPieces = {"\xC3", "\xA9", "\xE8", "\xAA", "\xE8\xAA", "\x9E", "\xF0\x9F", "\x98", "\x80", "\x98\x80", "\xFF", "\xED\xA0\x80", "\xC0\x80"};

using Random = std::mt19937;
int below(Random& random, int n) { return int(random() % unsigned(n)); }

Words random_words(Random& random) {
  Words words;
  for (auto& letter : kLetters) words.tokens.push_back(letter);
  for (auto& piece : kPieces)
    if (below(random, 2)) words.tokens.push_back(piece);
  for (int i = 0; i < 60; ++i) {
    std::string token;
    for (int n = 1 + below(random, 4); n > 0; --n) token += below(random, 4) ? kLetters[size_t(below(random, 4))] : below(random, 2) ? kLetters[size_t(below(random, int(kLetters.size())))] : kPieces[size_t(below(random, int(kPieces.size())))];
    words.tokens.push_back(token);        // now and then one is there twice
  }
  words.tokens.push_back("");
  for (const char* name : {"ab", "<x>", "<end>", "<end2>"}) {
    words.special.insert(int(words.tokens.size()));
    words.tokens.push_back(name);
  }
  words.end = {int(words.tokens.size()) - 2, int(words.tokens.size()) - 1};
  return words;
}

struct Generator {
  Random& random;
  Maker& maker;
  int rules, tokens;                      // tokens: the first special one

  Expr leaf() {
    switch (below(random, 12)) {
      case 0: return maker.empty();
      case 1: return below(random, 4) ? maker.text("ab") : maker.never();
      case 2: return maker.chars({{'a', 'b'}});
      case 3: return maker.chars({{'a', 'a'}, {0xE9, 0xEA}, {0x8A00, 0x8AFF}});
      case 4: return maker.chars({{0, '"' - 1}, {'"' + 1, 0x10FFFF}});
      case 5: return maker.chars({{0x600, 0xFFFF}, {0x10000, 0x1F600}});
      case 6: return maker.text(kLetters[size_t(below(random, int(kLetters.size())))]);
      case 7: return maker.text("\"");
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

bool permits(const Mask& mask, int token) { return mask[size_t(token) / 32] >> (token % 32) & 1; }

// Follows a grammar with a matcher and the reference side by side. Returns how many masks were compared.
int follow(Random& random, const Words& words, Maker& maker, int start, const std::shared_ptr<Grammar>& grammar, int steps, int number) {
  auto& language = maker.language;
  Matcher matcher(grammar);
  std::vector<int> states{language.rule(start)};
  std::vector<std::shared_ptr<const Mask>> masks;
  int compared = 0;
  const int end = int(words.tokens.size()) - 1;
  for (int step = 0; step < steps && !language.exhausted(); ++step) {
    const int state = states.back();
    const auto mask = matcher.mask();
    ++compared;
    std::vector<int> permitted, next(words.tokens.size(), language.never());
    for (int token = 0; token < int(words.tokens.size()); ++token) {
      bool expected;
      if (words.end.count(token)) {
        expected = language.nullable(state);
      } else {
        int after = language.after(state, 256 + token);
        if (!words.special.count(token) && !words.tokens[size_t(token)].empty()) {
          int text = state;
          for (unsigned char byte : words.tokens[size_t(token)]) text = language.after(text, byte);
          after = language.alt({after, text});
        }
        next[size_t(token)] = after;
        expected = language.alive(after);
      }
      if (language.exhausted() || language.left_recursive()) return compared;
      check(permits(*mask, token) == expected, "grammar %d step %d token %d: mask says %d, reference %d", number, step, token, permits(*mask, token), expected);
      if (permits(*mask, token) != expected) return compared;
      if (expected && !words.end.count(token)) permitted.push_back(token);
      if (!expected) check(!matcher.accept(token), "grammar %d: token %d was accepted against the mask", number, token);
    }
    check(matcher.complete() == language.nullable(state), "grammar %d step %d: complete", number, step);
    // What is forced is the only way on.
    const auto forced = matcher.forced(16);
    int at = state;
    for (uint8_t byte : forced) {
      check(!language.nullable(at), "grammar %d: bytes are forced where the output may end", number);
      for (int other = 0; other < 256; ++other)
        check(language.alive(language.after(at, other)) == (other == byte), "grammar %d: byte %d is not forced (%d)", number, byte, other);
      at = language.after(at, byte);
    }
    Matcher clone = matcher;
    check(clone.accept_bytes(forced), "grammar %d: forced bytes are refused", number);
    if (language.nullable(state)) {
      Matcher ended = matcher;
      check(ended.accept(end) && ended.finished() && ended.complete() && !ended.accept(end) && !ended.accept(permitted.empty() ? 0 : permitted[0]), "grammar %d: after the end", number);
      const auto nothing = ended.mask();
      check(std::ranges::all_of(*nothing, [](uint32_t word) { return word == 0; }), "grammar %d: something is permitted after the end", number);
      ended.rewind(1);
      check(!ended.finished() && *ended.mask() == *mask, "grammar %d: rewound past the end", number);
    }
    masks.push_back(mask);
    if (permitted.empty()) break;
    const int token = permitted[size_t(below(random, int(permitted.size())))];
    check(matcher.accept(token), "grammar %d: a permitted token %d was refused", number, token);
    states.push_back(next[size_t(token)]);
    if (below(random, 6) == 0) {
      const int back = below(random, int(matcher.steps()) + 1);
      matcher.rewind(size_t(back));
      states.resize(states.size() - size_t(back));
      if (size_t(back) > 0) check(*matcher.mask() == *masks[matcher.steps()], "grammar %d: mask after a rewind", number);
      masks.resize(matcher.steps());
    }
  }
  return compared;
}

void random_grammars(int count) {
  int compiled = 0, left_recursive = 0, rewritten = 0, too_complex = 0, empty = 0, masks = 0;
  for (int number = 0; number < count; ++number) {
    Random random{unsigned(number)};
    const auto words = random_words(random);
    const auto vocabulary = words.vocabulary();
    Maker maker;
    const int rules = 1 + below(random, 4);
    Generator generator{random, maker, rules, int(words.tokens.size()) - 4};
    std::vector<Expr> expressions;
    for (int i = 0; i < rules; ++i) expressions.push_back(generator.expr(1 + below(random, 4), number % 3 == 0));
    const auto program = maker.program(expressions);
    // Every way of making masks, whatever the sizes.
    MaskLimits limits;
    if (number % 2) limits = {0, 0, size_t(number % 4 == 1 ? 0 : 100), size_t(number % 8 == 1 ? 3 : 256)};
    std::shared_ptr<Grammar> grammar;
    try {
      grammar = Grammar::compile(vocabulary, program, {}, limits);
    } catch (const GrammarError& error) {
      if (error.code == "grammar_left_recursive") ++left_recursive;
      else if (error.code == "grammar_too_complex") ++too_complex;
      else if (error.code == "grammar_empty") {
        ++empty;
        check(number % 3 != 0 || !maker.language.alive(expressions[0].language), "grammar %d: called empty, but is not", number);
      } else check(false, "grammar %d: %s", number, error.what());
      continue;
    }
    ++compiled;
    masks += follow(random, words, maker, 0, grammar, 25, number);
    rewritten += maker.language.left_recursive();
  }
  std::printf("random grammars: %d followed (%d masks), %d left recursive (and %d that were rewritten), %d too complex, %d empty\n", compiled, masks, left_recursive, rewritten, too_complex, empty);
}

// Bounded texts of several bounds, with tokens that are longer than what is left: masks of one are taken from those of another.
void bounded_texts() {
  int masks = 0;
  for (int number = 0; number < 12; ++number) {
    Random random{unsigned(number)};
    Words words = random_words(random);
    const auto specials = std::vector<std::string>(words.tokens.end() - 4, words.tokens.end());
    words.tokens.resize(words.tokens.size() - 4);
    for (int i = 0; i < 120; ++i) {
      std::string token;
      for (int n = 1 + below(random, 40); n > 0; --n) token += kLetters[size_t(below(random, 24) ? below(random, 3) : below(random, 5))];
      words.tokens.push_back(token);
    }
    words.special.clear();
    for (auto& name : specials) words.special.insert(int(words.tokens.size())), words.tokens.push_back(name);
    words.end = {int(words.tokens.size()) - 2, int(words.tokens.size()) - 1};
    const auto vocabulary = words.vocabulary();
    for (int bound : {60, 30, 75}) {
      Maker m;
      const auto letter = m.alt({m.chars({{0, '"' - 1}, {'"' + 1, 'b'}, {'d', 0x10FFFF}}), m.seq({m.text("c"), m.chars({{'a', 'c'}})})});
      const auto program = m.program({m.seq({m.repeat(m.seq({m.text("\""), m.repeat(letter, number % 2 ? 3 : 0, bound), m.text("\"")}), 1, 4), m.text("a")})});
      const auto grammar = Grammar::compile(vocabulary, program, {}, {0, 0, size_t(number % 3 ? 0 : 1 << 14), 256});
      for (int i = 0; i < 3; ++i) masks += follow(random, words, m, 0, grammar, 20, number);
    }
  }
  std::printf("bounded texts: %d masks\n", masks);
}

// ---- by hand

Words plain_words() {
  Words words;
  for (int byte = 0; byte < 256; ++byte) words.tokens.push_back(std::string(1, char(byte)));
  for (const char* token : {"true", "fal", "\",", "\":", "{\"", "a\":\"", "],[", "12", "\"}", "aaa", "+1", "1+", "<tool>", "<end>"}) words.tokens.push_back(token);
  words.special = {int(words.tokens.size()) - 2, int(words.tokens.size()) - 1};
  words.end = {int(words.tokens.size()) - 1};
  return words;
}

std::string refusal(const Code& program, const Budgets& budgets = {}, std::string* param = nullptr) {
  try {
    Grammar::compile(plain_words().vocabulary(), program, budgets);
  } catch (const GrammarError& error) {
    if (param) *param = error.param;
    return error.code;
  }
  return "";
}

bool accepts(const std::shared_ptr<Grammar>& grammar, const std::string& text) {
  Matcher matcher(grammar);
  return matcher.accept_bytes({reinterpret_cast<const uint8_t*>(text.data()), text.size()}) && matcher.complete();
}

void left_recursion() {
  Maker m;
  const auto words = plain_words();
  // e = e "+" t | t; t = "1" | "(" e ")"
  const auto sum = m.program({m.alt({m.seq({m.rule(0), m.text("+"), m.rule(1)}), m.rule(1)}), m.alt({m.text("1"), m.seq({m.text("("), m.rule(0), m.text(")")})})});
  const auto grammar = Grammar::compile(words.vocabulary(), sum, {});
  for (const char* yes : {"1", "1+1", "(1)", "(1+1)+1+(1)"}) check(accepts(grammar, yes), "left recursion: %s", yes);
  for (const char* no : {"", "+1", "1+", "(1", "1)"}) check(!accepts(grammar, no), "left recursion: %s", no);
  std::string param;
  // a = b "x" | "y"; b = a "z"
  check(refusal(m.program({m.alt({m.seq({m.rule(1), m.text("x")}), m.text("y")}), m.seq({m.rule(0), m.text("z")})}), {}, &param) == "grammar_left_recursive", "indirect left recursion");
  check(param == "rules[0]" || param == "rules[1]", "the rule is named (%s)", param.c_str());
  // a = "x"? a "y" | "z": hidden behind something that may be empty
  check(refusal(m.program({m.alt({m.seq({m.repeat(m.text("x"), 0, 1), m.rule(0), m.text("y")}), m.text("z")})})) == "grammar_left_recursive", "hidden left recursion");
  // a = a: nothing; a = a | "x"
  check(refusal(m.program({m.rule(0)})) == "grammar_empty", "a = a");
  check(accepts(Grammar::compile(words.vocabulary(), m.program({m.alt({m.rule(0), m.text("x")})}), {}), "x"), "a = a | x");
  std::printf("left recursion\n");
}

void refusals() {
  Maker m;
  std::string param;
  check(refusal(m.program({m.never()})) == "grammar_empty", "never");
  check(refusal(m.program({m.seq({m.text("a"), m.rule(0)})})) == "grammar_empty", "endless");
  check(refusal(m.program({m.both({m.text("a"), m.text("b")})})) == "grammar_empty", "empty intersection");
  const auto all = m.repeat(m.chars({{0, 0x10FFFF}}), 0, -1);
  check(refusal(m.program({m.negate(all)})) == "grammar_empty", "complement of everything");
  check(refusal(m.program({m.repeat(m.text("\xFF"), 1, -1)})) == "", "bytes that are not text");
  check(refusal(Code{1, 0, 1, 4, 100000}) == "invalid_grammar", "unknown token");
  check(refusal(Code{1, 0, 1, 4, int32_t(plain_words().tokens.size()) - 1}) == "invalid_grammar", "end token");
  // (a|b)* a (a|b){n} has 2^n states.
  const auto ab = m.chars({{'a', 'b'}});
  const auto explosion = m.program({m.negate(m.seq({m.repeat(ab, 0, -1), m.text("a"), m.repeat(ab, 40, 40)}))});
  Budgets budgets;
  budgets.states = 20000;
  check(refusal(explosion, budgets, &param) == "grammar_too_complex" && param == "budgets.states", "states budget");
  budgets = {};
  budgets.bytes = 1 << 20;
  check(refusal(explosion, budgets, &param) == "grammar_too_complex" && param == "budgets.bytes", "memory budget (%s)", param.c_str());
  budgets = {};
  budgets.milliseconds = 20;
  budgets.states = budgets.bytes = int64_t(1) << 40;
  const auto from = std::chrono::steady_clock::now();
  check(refusal(explosion, budgets, &param) == "grammar_too_complex" && param == "budgets.milliseconds", "time budget");
  check(std::chrono::steady_clock::now() - from < std::chrono::milliseconds(1000), "the time budget is kept");
  Code deep{1, 0, 1};
  for (int i = 0; i < 2'000'000; ++i) deep.push_back(10);
  deep.push_back(0);
  check(refusal(deep, {}, &param) == "grammar_too_complex" && param == "budgets.nesting", "nesting budget");
  check(refusal(m.program({m.repeat(m.repeat(m.text("ab"), 0, INT32_MAX), 0, INT32_MAX)})) == "grammar_too_complex", "a huge count");
  check(refusal(m.program({m.repeat(m.repeat(m.chars({{0, 0x10FFFF}}), 0, 1000), 0, 1000)})) == "", "counts within counts");
  budgets = {};
  budgets.rules = 1;
  check(refusal(m.program({m.rule(1), m.text("a")}), budgets, &param) == "grammar_too_complex" && param == "budgets.rules", "rules budget");
  // A long chain of rules, forwards and backwards.
  for (bool forwards : {true, false}) {
    Code chain{1, forwards ? 0 : 19999, 20000};
    for (int i = 0; i < 20000; ++i)
      chain = i == (forwards ? 19999 : 0) ? std::move(chain) + Code{3, 1, 'x'} : std::move(chain) + Code{5, 3, 3, 1, '(', 8, forwards ? i + 1 : i - 1, 3, 1, ')'};
    check(refusal(chain) == "", "a chain of rules");
  }
  std::printf("refusals and budgets\n");
}

// Deep nesting, ambiguity, and right recursion in bounded space.
void stacks() {
  Maker m;
  const auto vocabulary = plain_words().vocabulary();
  const auto nested = Grammar::compile(vocabulary, m.program({m.alt({m.text("x"), m.seq({m.text("["), m.rule(0), m.text("]")})})}), {});
  const int depth = 20000;
  check(accepts(nested, std::string(depth, '[') + "x" + std::string(depth, ']')), "deep nesting");
  check(!accepts(nested, std::string(depth, '[') + "x" + std::string(depth - 1, ']')), "deep nesting, one short");
  // s = "a" s s | "a" has exponentially many derivations.
  const auto ambiguous = Grammar::compile(vocabulary, m.program({m.alt({m.seq({m.text("a"), m.rule(0), m.rule(0)}), m.text("a")})}), {});
  check(accepts(ambiguous, std::string(301, 'a')) && !accepts(ambiguous, std::string(300, 'a')), "ambiguity");
  const auto right = Grammar::compile(vocabulary, m.program({m.alt({m.text("."), m.seq({m.text("a"), m.rule(1), m.rule(0)})}), m.alt({m.text("b"), m.seq({m.text("["), m.rule(0), m.text("]")})})}), {});
  std::string list;
  for (int i = 0; i < 100000; ++i) list += "ab";
  check(accepts(right, list + "."), "right recursion");
  // Two parentheses at each level: as many stacks as texts. Memory stays bounded.
  const auto pairs = Grammar::compile(vocabulary, m.program({m.alt({m.text("x"), m.seq({m.text("["), m.rule(0), m.text("]")}), m.seq({m.text("("), m.rule(0), m.text(")")})})}), {});
  Random random{7};
  for (int round = 0; round < 40; ++round) {
    Matcher matcher(pairs);
    std::string closing;
    bool fine = true;
    for (int i = 0; i < 4000; ++i) {
      const bool square = below(random, 2);
      closing.insert(closing.begin(), square ? ']' : ')');
      fine = fine && matcher.accept(square ? '[' : '(');
    }
    fine = fine && matcher.accept('x');
    for (char c : closing) fine = fine && matcher.accept(c);
    check(fine && matcher.complete(), "pairs");
  }
  std::printf("stacks\n");
}

// Programs that mean nothing never do harm.
void malformed(int count) {
  Random random{99};
  const auto vocabulary = plain_words().vocabulary();
  Budgets budgets;
  budgets.milliseconds = 50;
  budgets.states = 3000;
  int compiled = 0;
  for (int number = 0; number < count; ++number) {
    Code program;
    if (number % 2) {
      program = {1, 0, 1 + below(random, 3)};
      for (int n = below(random, 40); n > 0; --n) program.push_back(below(random, 3) ? below(random, 12) : below(random, 8) ? below(random, 300) - 2 : int32_t(random()));
    } else {
      Maker maker;
      Generator generator{random, maker, 2, 268};
      program = maker.program({generator.expr(3, false), generator.expr(3, false)});
      for (int n = 1 + below(random, 3); n > 0; --n) {
        const auto at = size_t(below(random, int(program.size())));
        switch (below(random, 3)) {
          case 0: program[at] = below(random, 12); break;
          case 1: program.erase(program.begin() + std::ptrdiff_t(at)); break;
          default: program[at] = int32_t(random()); break;
        }
        if (program.empty()) break;
      }
    }
    try {
      auto grammar = Grammar::compile(vocabulary, program, budgets);
      ++compiled;
      Matcher matcher(grammar);
      for (int step = 0; step < 8; ++step) {
        const auto mask = matcher.mask();
        bool moved = false;
        for (int i = 0, token = below(random, vocabulary->size()); i < vocabulary->size() && !moved; ++i, token = (token + 1) % vocabulary->size())
          if (permits(*mask, token)) moved = matcher.accept(token);
      }
    } catch (const GrammarError&) {
    }
  }
  std::printf("malformed programs: %d, of which %d mean something\n", count, compiled);
}

void vocabularies() {
  const auto refused = [](Code offsets, size_t bytes, Code special) {
    try {
      Vocabulary(std::vector<uint8_t>(bytes), offsets, special, {});
    } catch (const std::invalid_argument&) {
      return true;
    }
    return false;
  };
  check(refused({0}, 0, {}) && refused({0, 2}, 1, {}) && refused({1, 1}, 1, {}) && refused({0, 2, 1, 3}, 3, {}) && refused({0, 1}, 1, {1}) && refused({0, 1}, 1, {-1}), "vocabularies");
  check(!refused({0, 1, 1, 3}, 3, {2}), "a vocabulary");
  std::printf("vocabularies\n");
}

// Many threads with matchers of one grammar.
void threads() {
  Maker m;
  const auto vocabulary = plain_words().vocabulary();
  const auto grammar = Grammar::compile(vocabulary, m.program({m.alt({m.text("true"), m.seq({m.text("["), m.rule(0), m.repeat(m.seq({m.text(","), m.rule(0)}), 0, -1), m.text("]")})})}), {});
  std::vector<std::thread> all;
  std::atomic<int> wrong = 0;
  for (unsigned t = 0; t < 4; ++t)
    all.emplace_back([&, t] {
      Random random{t};
      for (int round = 0; round < 30; ++round) {
        Matcher matcher(grammar);
        for (int step = 0; step < 60; ++step) {
          const auto mask = matcher.mask();
          std::vector<int> permitted;
          for (int token = 0; token < vocabulary->size(); ++token)
            if (permits(*mask, token)) permitted.push_back(token);
          if (permitted.empty()) break;
          if (!matcher.accept(permitted[size_t(below(random, int(permitted.size())))])) ++wrong;
        }
      }
    });
  for (auto& thread : all) thread.join();
  check(wrong == 0, "threads");
  std::printf("threads\n");
}

}  // namespace

int main(int argc, char** argv) {
  const int count = argc > 1 ? std::atoi(argv[1]) : 600;
  vocabularies();
  refusals();
  left_recursion();
  stacks();
  threads();
  malformed(count * 4);
  bounded_texts();
  random_grammars(count);
  if (failures) std::printf("%d failures\n", failures);
  return failures ? 1 : 0;
}
