// Checks the grammar engine against a slow second reading (grammar_reference.h), and by hand: refusals, malformed
// programs, threads. make -C native test-grammar; prints one line per group and exits with 1 when something differed.
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <thread>

#include "grammar_fixture.h"

using namespace anneal::grammar;

namespace {

Words plain_words() {
  Words words;
  for (int byte = 0; byte < 256; ++byte) words.tokens.push_back(std::string(1, char(byte)));
  for (const char* token :
       {"true", "fal", "\",", "\":", "{\"", "a\":\"", "],[", "12", "\"}", "aaa", "+1", "1+", "<tool>", "<end>"})
    words.tokens.push_back(token);
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
  const auto sum = m.program({m.alt({m.seq({m.rule(0), m.text("+"), m.rule(1)}), m.rule(1)}),
                              m.alt({m.text("1"), m.seq({m.text("("), m.rule(0), m.text(")")})})});
  const auto grammar = Grammar::compile(words.vocabulary(), sum, {});
  for (const char* yes : {"1", "1+1", "(1)", "(1+1)+1+(1)"}) check(accepts(grammar, yes), "left recursion: %s", yes);
  for (const char* no : {"", "+1", "1+", "(1", "1)"}) check(!accepts(grammar, no), "left recursion: %s", no);
  std::string param;
  // a = b "x" | "y"; b = a "z"
  check(refusal(m.program({m.alt({m.seq({m.rule(1), m.text("x")}), m.text("y")}), m.seq({m.rule(0), m.text("z")})}), {},
                &param) == "grammar_left_recursive",
        "indirect left recursion");
  check(param == "rules[0]" || param == "rules[1]", "the rule is named (%s)", param.c_str());
  // a = "x"? a "y" | "z": hidden behind something that may be empty
  check(refusal(m.program({m.alt({m.seq({m.repeat(m.text("x"), 0, 1), m.rule(0), m.text("y")}), m.text("z")})})) ==
            "grammar_left_recursive",
        "hidden left recursion");
  // a = a: nothing; a = a | "x"
  check(refusal(m.program({m.rule(0)})) == "grammar_empty", "a = a");
  check(accepts(Grammar::compile(words.vocabulary(), m.program({m.alt({m.rule(0), m.text("x")})}), {}), "x"),
        "a = a | x");
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
  check(refusal(explosion, budgets, &param) == "grammar_too_complex" && param == "budgets.bytes", "memory budget (%s)",
        param.c_str());
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
  check(refusal(m.program({m.repeat(m.repeat(m.text("ab"), 0, INT32_MAX), 0, INT32_MAX)})) == "grammar_too_complex",
        "a huge count");
  check(refusal(m.program({m.repeat(m.repeat(m.chars({{0, 0x10FFFF}}), 0, 1000), 0, 1000)})) == "",
        "counts within counts");
  budgets = {};
  budgets.rules = 1;
  check(refusal(m.program({m.rule(1), m.text("a")}), budgets, &param) == "grammar_too_complex" &&
            param == "budgets.rules",
        "rules budget");
  // Of 60 places each, 2000 counts: those places that are counted apart only near the end cost no state for each.
  Expr word = m.repeat(m.chars({{'a', 'b'}}), 0, -1);
  for (int i = 0; i < 60; ++i) word = m.seq({word, m.text(std::string(1, char('A' + i % 26)))});
  budgets = {};
  budgets.states = 20'000;
  check(refusal(m.program({m.both({word, m.repeat(m.chars({{0, 0x10FFFF}}), 0, 2000)})}), budgets) == "",
        "a count whose end is near");
  check(refusal(m.program(
            {m.both({m.alt({m.text("book"), m.text("article")}), m.repeat(m.chars({{0, 0x10FFFF}}), 0, 255)})})) == "",
        "words that are far shorter than they may be");
  // A long chain of rules, forwards and backwards.
  for (bool forwards : {true, false}) {
    Code chain{1, forwards ? 0 : 19999, 20000};
    for (int i = 0; i < 20000; ++i)
      chain = i == (forwards ? 19999 : 0)
                  ? std::move(chain) + Code{3, 1, 'x'}
                  : std::move(chain) + Code{5, 3, 3, 1, '(', 8, forwards ? i + 1 : i - 1, 3, 1, ')'};
    check(refusal(chain) == "", "a chain of rules");
  }
  // One of rules that are small enough to take the place of their calls, many levels each.
  Code thin{1, 0, 50000};
  for (int i = 0; i + 1 < 50000; ++i) {
    for (int level = 0; level < 20; ++level) thin.insert(thin.end(), {7, 0, 1});
    thin.insert(thin.end(), {8, i + 1});
  }
  check(refusal(std::move(thin) + Code{3, 1, 'x'}) == "", "a chain of thin rules");
  // Expressions that are named again: what has not begun or not ended, nesting through names, and more copies than
  // there is room for.
  check(refusal(Code{1, 0, 1, 5, 2, 5, 2, 3, 1, 'a', 3, 1, 'b', 11, 1}) == "", "an expression that comes twice");
  check(refusal(Code{1, 0, 1, 5, 2, 3, 1, 'a', 11, 0}) == "invalid_grammar", "an expression within itself");
  check(refusal(Code{1, 0, 1, 5, 2, 3, 1, 'a', 11, 1}) == "invalid_grammar", "an expression that never comes");
  check(refusal(Code{1, 0, 1, 11, -1}) == "invalid_grammar", "an expression with a negative number");
  Code nested{1, 0, 601, 7, 0, 5, 3, 1, 'a'}, doubled{1, 0, 101, 7, 2, 2, 3, 1, 'a'};
  for (int i = 0; i < 600; ++i) nested = std::move(nested) + Code{7, 0, 5, 11, i};
  check(refusal(nested, {}, &param) == "grammar_too_complex" && param == "budgets.nesting", "nesting by name");
  for (int i = 0; i < 100; ++i) doubled = std::move(doubled) + Code{5, 2, 11, i, 11, i};
  doubled[1] = 100;
  check(refusal(doubled) == "grammar_too_complex", "a text of 2^101 bytes");
  std::printf("refusals and budgets\n");
}

// Their automata are made by several threads, which must not show: not in the network, nor in what it may cost.
void many_rules() {
  Maker m;
  constexpr int kRules = 300;
  std::vector<Expr> rules, calls;
  for (int i = 1; i <= kRules; ++i) {
    std::vector<Expr> words;
    for (int j = 0; j < 30; ++j)
      words.push_back(m.text("word " + std::to_string(i * j * j) + " of " + std::to_string(j)));
    // Each of the latter half is called by one of the first.
    const auto next = i <= kRules / 2 ? m.rule(i + kRules / 2) : m.text("end");
    rules.push_back(m.seq({m.text("<" + std::to_string(i)), m.alt(words), next, m.text(">")}));
    if (i <= kRules / 2) calls.push_back(m.rule(i));
  }
  rules.insert(rules.begin(), m.seq(calls));
  const auto program = m.program(rules);
  const auto vocabulary = plain_words().vocabulary();
  const auto build = [&](const Budgets& budgets, Cost* cost = nullptr) {
    Spending spending(budgets);
    auto network = build_network(decode(program, vocabulary->size(), spending), spending);
    if (cost) *cost = spending.spent_by_all();
    return network;
  };
  Cost cost, again;
  const Network first = build({}, &cost);
  check(first.rules() == kRules + 1, "a rule for each (%d)", first.rules());
  for (int round = 0; round < 20; ++round) {
    const Network network = build({}, &again);
    bool same = network.size() == first.size() && network.rules() == first.rules();
    for (int32_t rule = 0; same && rule < first.rules(); ++rule)
      same = network.rule(rule).start == first.rule(rule).start && network.rule(rule).order == first.rule(rule).order;
    for (int32_t s = 0; same && s < first.size(); ++s)
      same = std::ranges::equal(network.edges(s), first.edges(s),
                                [](auto& a, auto& b) { return a.lo == b.lo && a.hi == b.hi && a.to == b.to; }) &&
             std::ranges::equal(network.calls(s), first.calls(s),
                                [](auto& a, auto& b) { return a.rule == b.rule && a.to == b.to; });
    check(same, "the same network");
    check(again.states == cost.states && again.bytes == cost.bytes, "the same cost");
  }
  Budgets budgets;
  std::string param;
  for (int round = 0; round < 10; ++round) {
    budgets.states = cost.states;
    check(refusal(program, budgets) == "", "as many states as needed");
    budgets.states = cost.states - 1;
    check(refusal(program, budgets, &param) == "grammar_too_complex" && param == "budgets.states", "a state too few");
    budgets = {};
    budgets.rules = kRules;
    check(refusal(program, budgets, &param) == "grammar_too_complex" && param == "budgets.rules", "a rule too many");
    budgets = {};
  }
  std::printf("many rules\n");
}

// Deep nesting, ambiguity, and right recursion in bounded space.
void stacks() {
  Maker m;
  const auto vocabulary = plain_words().vocabulary();
  const auto nested =
      Grammar::compile(vocabulary, m.program({m.alt({m.text("x"), m.seq({m.text("["), m.rule(0), m.text("]")})})}), {});
  const int depth = 20000;
  check(accepts(nested, std::string(depth, '[') + "x" + std::string(depth, ']')), "deep nesting");
  check(!accepts(nested, std::string(depth, '[') + "x" + std::string(depth - 1, ']')), "deep nesting, one short");
  // s = "a" s s | "a" has exponentially many derivations.
  const auto ambiguous =
      Grammar::compile(vocabulary, m.program({m.alt({m.seq({m.text("a"), m.rule(0), m.rule(0)}), m.text("a")})}), {});
  check(accepts(ambiguous, std::string(301, 'a')) && !accepts(ambiguous, std::string(300, 'a')), "ambiguity");
  const auto right = Grammar::compile(vocabulary,
                                      m.program({m.alt({m.text("."), m.seq({m.text("a"), m.rule(1), m.rule(0)})}),
                                                 m.alt({m.text("b"), m.seq({m.text("["), m.rule(0), m.text("]")})})}),
                                      {});
  std::string list;
  for (int i = 0; i < 100000; ++i) list += "ab";
  check(accepts(right, list + "."), "right recursion");
  // Two parentheses at each level: as many stacks as texts. Memory stays bounded.
  const auto pairs = Grammar::compile(vocabulary,
                                      m.program({m.alt({m.text("x"), m.seq({m.text("["), m.rule(0), m.text("]")}),
                                                        m.seq({m.text("("), m.rule(0), m.text(")")})})}),
                                      {});
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

// Many words one after the other, of which some begin others.
void repeated_words() {
  Random random{21};
  Maker m;
  const auto vocabulary = plain_words().vocabulary();
  const auto word = [&](int longest) {
    std::string text;
    for (int n = 1 + below(random, longest); n > 0; --n) text += "ab"[below(random, 2)];
    return text;
  };
  std::set<std::string> words;
  while (words.size() < 100) words.insert(word(9));
  std::vector<Expr> items;
  for (auto& one : words) items.push_back(m.text(one));
  for (auto [min, max] : {std::pair{0, 1}, {2, 2}, {1, 2}, {0, -1}, {1, -1}, {2, -1}}) {
    const auto grammar =
        Grammar::compile(vocabulary, m.program({m.seq({m.repeat(m.alt(items), min, max), m.text(".")})}), {});
    for (int round = 0; round < 2000; ++round) {
      const std::string text = word(14);
      // Of each beginning: whether it is 0, 1, 2, or 3 and more words.
      std::vector<std::array<bool, 4>> counts(text.size() + 1);
      counts[0][0] = true;
      for (size_t from = 0; from < text.size(); ++from)
        for (size_t to = from + 1; to <= text.size(); ++to)
          if (words.contains(text.substr(from, to - from)))
            for (size_t count = 0; count < 4; ++count)
              counts[to][std::min(count + 1, size_t(3))] |= counts[from][count];
      bool wanted = false;
      for (int count = min; count <= (max < 0 ? 3 : max); ++count) wanted |= counts[text.size()][size_t(count)];
      check(accepts(grammar, text + ".") == wanted, "repeated words: %s, %d to %d times", text.c_str(), min, max);
    }
  }
  // Of 20000 words 2000 begin others: the cost grows with the number of words, not with its square, which would be
  // seconds.
  items.clear();
  for (int i = 0; i < 20000; ++i) items.push_back(m.text("w" + std::to_string(i)));
  Budgets budgets;
  budgets.milliseconds = 1500;
  const auto error = refusal(m.program({m.repeat(m.alt(items), 1, -1)}), budgets);
  check(error.empty(), "20000 repeated words: %s", error.c_str());
  std::printf("repeated words\n");
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
      for (int n = below(random, 40); n > 0; --n)
        program.push_back(below(random, 3)   ? below(random, 12)
                          : below(random, 8) ? below(random, 300) - 2
                                             : int32_t(random()));
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
        for (int i = 0, token = below(random, vocabulary->size()); i < vocabulary->size() && !moved;
             ++i, token = (token + 1) % vocabulary->size())
          if (permits(*mask, token)) moved = matcher.accept(token);
      }
    } catch (const GrammarError&) {}
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
  check(refused({0}, 0, {}) && refused({0, 2}, 1, {}) && refused({1, 1}, 1, {}) && refused({0, 2, 1, 3}, 3, {}) &&
            refused({0, 1}, 1, {1}) && refused({0, 1}, 1, {-1}),
        "vocabularies");
  check(!refused({0, 1, 1, 3}, 3, {2}), "a vocabulary");
  std::printf("vocabularies\n");
}

// Many threads with matchers of one grammar.
void threads() {
  Maker m;
  const auto vocabulary = plain_words().vocabulary();
  const auto grammar = Grammar::compile(
      vocabulary,
      m.program({m.alt({m.text("true"), m.seq({m.text("["), m.rule(0), m.repeat(m.seq({m.text(","), m.rule(0)}), 0, -1),
                                               m.text("]")})})}),
      {});
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
  many_rules();
  left_recursion();
  stacks();
  threads();
  repeated_words();
  malformed(count * 4);
  bounded_texts();
  excluded_texts();
  counted_texts();
  called_texts();
  short_walks();
  different_items();
  random_grammars(count);
  if (failures) std::printf("%d failures\n", failures);
  return failures ? 1 : 0;
}
