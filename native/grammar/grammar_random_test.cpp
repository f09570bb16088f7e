// The grammar engine and the slow second reading side by side: what is permitted, complete, forced, and taken back.
#include "grammar_fixture.h"
#include "mask_maker.h"
#include "network.h"

namespace anneal::grammar {

namespace {

int forced = 0;  // how often one token alone was permitted

// Follows a grammar with a matcher and the reference side by side. Returns how many masks were compared.
int follow(Random& random, const Words& words, Maker& maker, int start, const std::shared_ptr<Grammar>& grammar,
           int steps, int number) {
  auto& language = maker.language;
  Matcher matcher(grammar);
  std::vector<int> states{language.rule(start)};
  std::vector<std::shared_ptr<const Mask>> masks;
  int compared = 0;
  const int end = int(words.tokens.size()) - 1;
  for (int step = 0; step < steps && !language.exhausted(); ++step) {
    const int state = states.back();
    const auto mask = mask_in_turns(matcher, 1 + (number + 7 * step) % 500);
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
      check(permits(*mask, token) == expected, "grammar %d step %d token %d: mask says %d, reference %d", number, step,
            token, permits(*mask, token), expected);
      if (permits(*mask, token) != expected) return compared;
      if (expected && !words.end.count(token)) permitted.push_back(token);
      if (!expected) check(!matcher.accept(token), "grammar %d: token %d was accepted against the mask", number, token);
    }
    check(matcher.complete() == language.nullable(state), "grammar %d step %d: complete", number, step);
    int count = 0, last = -1;
    for (int token = 0; token < int(words.tokens.size()); ++token)
      if (permits(*mask, token)) ++count, last = token;
    forced += count == 1;
    check(matcher.forced() == (count == 1 ? last : -1), "grammar %d step %d: %d is forced of %d", number, step,
          matcher.forced(), count);
    if (language.nullable(state)) {
      Matcher ended = matcher;
      check(ended.accept(end) && ended.finished() && ended.complete() && !ended.accept(end) &&
                !ended.accept(permitted.empty() ? 0 : permitted[0]),
            "grammar %d: after the end", number);
      const auto nothing = ended.mask();
      check(std::ranges::all_of(*nothing, [](uint32_t word) { return word == 0; }),
            "grammar %d: something is permitted after the end", number);
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
      if (size_t(back) > 0)
        check(*matcher.mask() == *masks[matcher.steps()], "grammar %d: mask after a rewind", number);
      masks.resize(matcher.steps());
    }
  }
  return compared;
}

// Of at most so many letters.
std::string random_name(Random& random, int most) {
  std::string name;
  for (int n = 1 + below(random, most); n > 0; --n) name += kLetters[size_t(below(random, 3))];
  return name;
}

// Null where nothing is matched, or a rule begins with itself.
std::shared_ptr<Grammar> compiled(const std::shared_ptr<const Vocabulary>& vocabulary, const Code& program,
                                  const MaskLimits& limits, const char* what, int number) {
  try {
    return Grammar::compile(vocabulary, program, {}, limits);
  } catch (const GrammarError& error) {
    check(error.code == "grammar_left_recursive" || error.code == "grammar_empty", "%s %d: %s", what, number,
          error.what());
    return nullptr;
  }
}

}  // namespace

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
    if (number % 2)
      limits = {0,
                0,
                size_t(number % 4 == 1 ? 0 : 100),
                size_t(number % 8 == 1 ? 3 : 256),
                uint64_t(number % 3 == 0 ? 1 : 1000),
                uint64_t(number % 5 == 0 ? 32 : 1),
                uint64_t(number % 7 == 0 ? 16 : 1000)};
    std::shared_ptr<Grammar> grammar;
    try {
      grammar = Grammar::compile(vocabulary, program, {}, limits);
    } catch (const GrammarError& error) {
      if (error.code == "grammar_left_recursive")
        ++left_recursive;
      else if (error.code == "grammar_too_complex")
        ++too_complex;
      else if (error.code == "grammar_empty") {
        ++empty;
        check(number % 3 != 0 || !maker.language.alive(expressions[0].language), "grammar %d: called empty, but is not",
              number);
      } else
        check(false, "grammar %d: %s", number, error.what());
      continue;
    }
    ++compiled;
    masks += follow(random, words, maker, 0, grammar, 25, number);
    rewritten += maker.language.left_recursive();
  }
  std::printf(
      "random grammars: %d followed (%d masks), %d left recursive (and %d that were rewritten), %d too complex, "
      "%d empty, %d forced tokens\n",
      compiled, masks, left_recursive, rewritten, too_complex, empty, forced);
}

// Bounded texts of several bounds, with tokens that are longer than what is left: masks of one are taken from those of
// another.
void bounded_texts() {
  int masks = 0;
  for (int number = 0; number < 12; ++number) {
    Random random{unsigned(number)};
    Words words = random_words(random);
    const auto specials = std::vector<std::string>(words.tokens.end() - 4, words.tokens.end());
    words.tokens.resize(words.tokens.size() - 4);
    for (int i = 0; i < 120; ++i) {
      std::string token;
      for (int n = 1 + below(random, 40); n > 0; --n)
        token += kLetters[size_t(below(random, 24) ? below(random, 3) : below(random, 5))];
      words.tokens.push_back(token);
    }
    words.special.clear();
    for (auto& name : specials) words.special.insert(int(words.tokens.size())), words.tokens.push_back(name);
    words.end = {int(words.tokens.size()) - 2, int(words.tokens.size()) - 1};
    const auto vocabulary = words.vocabulary();
    for (int bound : {60, 30, 75}) {
      Maker m;
      const auto letter = m.alt(
          {m.chars({{0, '"' - 1}, {'"' + 1, 'b'}, {'d', 0x10FFFF}}), m.seq({m.text("c"), m.chars({{'a', 'c'}})})});
      const auto program = m.program(
          {m.seq({m.repeat(m.seq({m.text("\""), m.repeat(letter, number % 2 ? 3 : 0, bound), m.text("\"")}), 1, 4),
                  m.text("a")})});
      const auto grammar = Grammar::compile(vocabulary, program, {}, {0, 0, size_t(number % 3 ? 0 : 1 << 14), 256});
      for (int i = 0; i < 3; ++i) masks += follow(random, words, m, 0, grammar, 20, number);
    }
  }
  std::printf("bounded texts: %d masks\n", masks);
}

// Any text but some names: masks of states within a name are taken from those of free text.
void excluded_texts() {
  int masks = 0;
  for (int number = 0; number < 16; ++number) {
    Random random{unsigned(number)};
    const Words words = random_words(random);
    const auto vocabulary = words.vocabulary();
    Maker m;
    const auto letter = m.chars({{0, '"' - 1}, {'"' + 1, 0x10FFFF}});
    std::vector<Expr> names;
    for (int i = 1 + below(random, 4); i > 0; --i) names.push_back(m.text(random_name(random, 6)));
    const auto free = m.repeat(letter, 0, -1);
    const auto member = m.seq({m.text("\""), m.both({free, m.negate(m.alt(names))}), m.text("\"a")});
    const auto program = m.program({m.alt(
        {m.seq({m.text("b"), m.repeat(member, 1, 3)}), m.seq({m.text("c"), m.text("\""), free, m.text("\"a")})})});
    const auto grammar = Grammar::compile(vocabulary, program, {}, {0, 0, size_t(number % 3 ? 0 : 1 << 14), 256});
    for (int i = 0; i < 4; ++i) masks += follow(random, words, m, 0, grammar, 20, number);
  }
  std::printf("excluded texts: %d masks\n", masks);
}

// So many characters of texts that an expression matches: counted beside its automaton.
void counted_texts() {
  int masks = 0;
  for (int number = 0; number < 24; ++number) {
    Random random{unsigned(number)};
    const Words words = random_words(random);
    const auto vocabulary = words.vocabulary();
    Maker m;
    const auto plain = m.chars({{0, '"' - 1}, {'"' + 1, 'b' - 1}, {'b' + 1, 0x10FFFF}});
    const auto character = m.alt({plain, m.seq({m.text("b"), m.chars({{'a', 'b'}})})});
    const auto some = m.chars({{'a', 'b'}, {0xE9, 0xEA}, {0x8A00, 0x8AFF}});
    const int rest = below(random, 2) ? -1 : 1 + below(random, 3);
    const auto some_text =
        m.seq({m.repeat(some, 0, rest < 0 ? 1 + below(random, 12) : -1), m.text("a"), m.repeat(some, 1, rest)});
    const int min = below(random, 10), max = below(random, 3) == 0 ? -1 : 8 + below(random, 6);
    std::vector<Expr> parts{some_text, m.repeat(character, min, max)};
    if (below(random, 2)) parts.push_back(m.repeat(character, 8 + below(random, 2), -1));
    if (below(random, 2)) parts.push_back(m.negate(m.text("aaaaaaaa")));
    if (below(random, 2)) std::swap(parts[0], parts[1]);
    const auto program = m.program({m.seq({m.text("\""), m.both(parts), m.text("\"")})});
    const auto grammar = compiled(vocabulary, program, {}, "counted texts", number);
    for (int i = 0; grammar && i < 4; ++i) masks += follow(random, words, m, 0, grammar, 30, number);
  }
  std::printf("counted texts: %d masks\n", masks);
}

// Texts of rules that are called beside other words, in which the rule that calls them may end, or go on with the same
// characters: masks of states that call are taken from those of what is called, and from each other.
void called_texts() {
  int masks = 0;
  for (int number = 0; number < 60; ++number) {
    Random random{unsigned(number)};
    const Words words = random_words(random);
    const auto vocabulary = words.vocabulary();
    Maker m;
    const auto name = [&] { return m.text(random_name(random, 5)); };
    const std::vector<std::vector<std::pair<int, int>>> alphabets = {
        {{0, '"' - 1}, {'"' + 1, 0x10FFFF}},
        {{0, '"' - 1}, {'"' + 1, 0x2027}, {0x202A, 0x10FFFF}},
        {{0, '"' - 1}, {'"' + 1, 0x9F}, {0xA1, 0x1FFF}, {0x2030, 0x2FFF}, {0x3001, 0x10FFFF}},
        {{'a', 'b'}, {0x80, 0x10FFFF}},
        {{'a', 'c'}}};
    const auto characters = [&] { return m.chars(alphabets[size_t(below(random, int(alphabets.size())))]); };
    const auto text = [&] {
      const int min = below(random, 3) ? 0 : 1 + below(random, 3);
      const auto free = m.repeat(characters(), min, below(random, 2) ? -1 : min + 1 + below(random, 9));
      return below(random, 2) ? m.both({free, m.negate(m.alt({name(), name()}))}) : free;
    };
    const auto tail = [&]() -> Expr {
      switch (below(random, 5)) {
        case 0: return m.repeat(characters(), 0, 2);
        case 2: return m.seq({m.repeat(characters(), 1, 2), m.text("\"")});
        case 1: return m.seq({name(), m.text("\"")});
        default: return m.text("\"");
      }
    };
    const auto choice = [&](int rule) {
      std::vector<Expr> items{m.seq({m.rule(rule), tail()})};
      for (int n = below(random, 3); n > 0; --n) items.push_back(m.seq({name(), tail()}));
      return m.alt(items);
    };
    std::vector<Expr> rules{m.seq({m.text("\""), m.repeat(choice(1), 1, 2), tail()})};
    rules.push_back(below(random, 2) ? text() : choice(2));
    rules.push_back(below(random, 2) ? text() : m.alt({text(), m.seq({characters(), m.rule(3)})}));
    rules.push_back(text());
    const auto program = m.program(rules);
    const MaskLimits limits{0,
                            0,
                            size_t(number % 3 ? 0 : 1 << 14),
                            size_t(number % 5 ? 256 : 8),
                            uint64_t(number % 7 ? 1 : 1000),
                            uint64_t(number % 2 ? 32 : 1),
                            uint64_t(number % 4 ? 1000 : 16)};
    const auto grammar = compiled(vocabulary, program, limits, "called texts", number);
    for (int i = 0; grammar && i < 4; ++i) masks += follow(random, words, m, 0, grammar, 20, number);
  }
  std::printf("called texts: %d masks\n", masks);
}

// Arrays whose items differ: masks made in turns, against those made at once by a matcher of another grammar.
void different_items() {
  Words words;
  for (int byte = 0; byte < 128; ++byte) words.tokens.push_back(std::string(1, char(byte)));
  Random random{3};
  for (int i = 0; i < 400; ++i) {
    std::string token;
    for (int n = 2 + below(random, 6); n > 0; --n)
      token += below(random, 3) ? "ab"[below(random, 2)] : "\",[]12"[below(random, 6)];
    words.tokens.push_back(token);
  }
  words.tokens.push_back("<end>");
  words.special = words.end = {int(words.tokens.size()) - 1};
  const auto vocabulary = words.vocabulary();
  Maker m;
  const Expr opening{{12, 0}, m.language.empty()}, end{{12, 1}, m.language.empty()};
  const auto string = m.seq({m.text("\""), m.repeat(m.chars({{'a', 'b'}}), 1, 3), m.text("\"")});
  const auto number = m.repeat(m.chars({{'1', '2'}}), 1, 2);
  const auto item = m.seq({m.alt({string, number, m.rule(0)}), end});
  const auto program = m.program({m.seq({m.text("["), opening, m.rule(1), m.text("]")}),
                                  m.seq({item, m.repeat(m.seq({m.text(","), item}), 0, -1)})});
  int masks = 0;
  const int64_t before = pauses;
  for (int round = 0; round < 40; ++round) {
    Matcher turns(Grammar::compile(vocabulary, program, {})), whole(Grammar::compile(vocabulary, program, {}));
    for (int step = 0; step < 30; ++step, ++masks) {
      const auto mask = mask_in_turns(turns, 1 + below(random, 300));
      check(*mask == *whole.mask(), "different items: round %d, step %d", round, step);
      std::vector<int> permitted;
      for (int token = 0; token < vocabulary->size(); ++token)
        if (permits(*mask, token)) permitted.push_back(token);
      if (permitted.empty()) break;
      const int token = permitted[size_t(below(random, int(permitted.size())))];
      check(turns.accept(token) && whole.accept(token), "different items: a permitted token");
    }
  }
  check(pauses - before > masks, "different items: masks that took one turn");
  std::printf("different items: %d masks, %d pauses\n", masks, int(pauses - before));
}

// Texts of strings, bounded ones, names that differ from others, and words of letters: of a large vocabulary only what
// ends a text, or is none, is walked, in no place most of it.
void short_walks() {
  Random random{1};
  Words words;
  for (int i = 0; i < 8000; ++i) {
    std::string token;
    for (int n = 2 + below(random, 8); n > 0; --n) token += char('a' + below(random, 26));
    if (i % 20 == 0) token += "\"";
    words.tokens.push_back(token);
  }
  words.tokens.push_back("<end>");
  words.special = words.end = {8000};
  const auto vocabulary = words.vocabulary();
  const auto nodes = vocabulary->nodes().size();
  Maker m;
  const auto plain = m.chars({{' ', '!'}, {'#', '['}, {']', 0x10FFFF}});
  const auto letter = m.alt({plain, m.seq({m.text("\\"), m.chars({{'"', '"'}, {'\\', '\\'}, {'n', 'n'}})})});
  const auto content = m.repeat(letter, 0, -1);
  const std::pair<const char*, Expr> cases[] = {
      {"free text", content},
      {"bounded text", m.repeat(letter, 0, 300)},
      {"other names", m.both({m.repeat(plain, 0, -1), m.negate(m.alt({m.text("name"), m.text("number")}))})},
      {"words", m.repeat(m.chars({{'a', 'z'}}), 1, -1)},
      {"lines", m.repeat(m.chars({{' ', '!'}, {'#', '['}, {']', 0x2027}, {0x202A, 0x10FFFF}}), 0, -1)},
      {"names and others", m.alt({m.text("name"), m.text("number"), m.rule(1)})}};
  for (auto& [name, text] : cases) {
    Spending spending({});
    const auto program = m.program({m.seq({m.text("\""), text, m.text("\"")}), content});
    const Network network = build_network(decode(program, vocabulary->size(), spending), spending);
    Configurations configurations(network);
    MaskMaker masks(*vocabulary, network, configurations, {});
    uint32_t at = configurations.after(configurations.start())['"'];
    for (char byte : std::string("name")) {
      const uint64_t before = masks.walked();
      Turn whole(Turn::kWhole);
      masks.mask(at, whole);
      const uint64_t walked = masks.walked() - before;
      check(walked < nodes / 3, "%s: %d of %d nodes were walked", name, int(walked), int(nodes));
      at = configurations.after(at)[uint8_t(byte)];
    }
  }
  std::printf("short walks\n");
}

}  // namespace anneal::grammar
