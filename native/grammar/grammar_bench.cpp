// Times of the grammar engine: preparing a vocabulary, compiling, masks. make -C native bench-grammar
// Usage: grammar_bench [vocabulary file: per token a 32-bit length and its bytes]; without one, a vocabulary is made
// up.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fstream>
#include <random>

#include "matcher.h"

using namespace anneal::grammar;

namespace {

using Code = std::vector<int32_t>;
Code operator+(Code a, const Code& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}
Code text(const std::string& s) {
  Code code{3, int(s.size())};
  for (unsigned char c : s) code.push_back(c);
  return code;
}
Code list(int op, const std::vector<Code>& items) {
  Code code{op, int(items.size())};
  for (auto& item : items) code = code + item;
  return code;
}
Code seq(const std::vector<Code>& items) { return list(5, items); }
Code alt(const std::vector<Code>& items) { return list(6, items); }
Code repeat(const Code& item, int min, int max) { return Code{7, min, max} + item; }
Code rule(int index) { return {8, index}; }

// Of this thread, so that what else the machine does is not counted. Seconds.
double now() {
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return double(t.tv_sec) + double(t.tv_nsec) * 1e-9;
}

const Code kSpace = repeat(Code{2, 2, 9, 10, 32, 32}, 0, 8);
const Code kHex = Code{2, 3, '0', '9', 'A', 'F', 'a', 'f'};
const Code kCharacter = alt(
    {Code{2, 3, 0x20, 0x21, 0x23, 0x5B, 0x5D, 0x10FFFF},
     seq({text("\\"), alt({Code{2, 8, '"', '"', '/', '/', '\\', '\\', 'b', 'b', 'f', 'f', 'n', 'n', 'r', 'r', 't', 't'},
                           seq({text("u"), kHex, kHex, kHex, kHex})})})});
const Code kDigit = Code{2, 1, '0', '9'};
const Code kNumber = seq({repeat(text("-"), 0, 1), alt({text("0"), seq({Code{2, 1, '1', '9'}, repeat(kDigit, 0, -1)})}),
                          repeat(seq({text("."), repeat(kDigit, 1, -1)}), 0, 1)});

Code string(int max) { return seq({text("\""), repeat(kCharacter, 0, max), text("\"")}); }
Code program(const std::vector<Code>& rules) {
  Code code{1, 0, int(rules.size())};
  for (auto& r : rules) code = code + r;
  return code;
}

// Rules 0 value, 1 string, 2 number, 3 object, 4 array.
Code any_json() {
  const Code member = seq({rule(1), kSpace, text(":"), kSpace, rule(0)});
  const auto group = [&](const std::string& open, const Code& item, const std::string& close) {
    return seq({text(open), kSpace,
                repeat(seq({item, kSpace, repeat(seq({text(","), kSpace, item, kSpace}), 0, -1)}), 0, 1), text(close)});
  };
  return program({alt({rule(1), rule(2), rule(3), rule(4), text("true"), text("false"), text("null")}), string(-1),
                  kNumber, group("{", member, "}"), group("[", rule(0), "]")});
}

// An object of required members: strings, a bounded string, numbers, a choice, a list of strings, and an object within.
Code schema(const std::string& salt) {
  const auto member = [&](const std::string& name, const Code& value) {
    return seq({text("\"" + name + salt + "\""), kSpace, text(":"), kSpace, value});
  };
  const auto object = [&](const std::vector<Code>& members) {
    std::vector<Code> items{text("{"), kSpace};
    for (size_t i = 0; i < members.size(); ++i) {
      if (i > 0) items.insert(items.end(), {text(","), kSpace});
      items.insert(items.end(), {members[i], kSpace});
    }
    items.push_back(text("}"));
    return seq(items);
  };
  const Code strings =
      seq({text("["), kSpace, repeat(seq({rule(1), repeat(seq({text(","), kSpace, rule(1)}), 0, 9)}), 0, 1), kSpace,
           text("]")});
  return program({object({member("name", rule(1)), member("description", string(200)), member("age", rule(2)),
                          member("kind", alt({text("\"person\""), text("\"place\""), text("\"thing\"")})),
                          member("tags", strings), member("address", rule(3))}),
                  string(-1), kNumber,
                  object({member("street", rule(1)), member("city", rule(1)),
                          member("zip", seq({text("\""), repeat(kDigit, 5, 5), text("\"")}))})});
}

std::vector<std::string> made_up(size_t count) {
  std::mt19937 random(1);
  std::vector<std::string> tokens;
  for (int byte = 0; byte < 256; ++byte) tokens.push_back(std::string(1, char(byte)));
  const std::string letters = "eeeetttaaaooiinnsshhrrddllcumwfgypbvkjxqz";
  while (tokens.size() < count) {
    std::string token = random() % 3 == 0 ? " " : random() % 40 == 0 ? "\"" : "";
    const int kind = int(random() % 20);
    for (int n = 1 + int(random() % 9); n > 0; --n) {
      if (kind < 13)
        token += letters[random() % letters.size()];
      else if (kind < 15)
        token += char('A' + random() % 26);
      else if (kind < 16)
        token += std::string(" \",:{}[]\\/()=;\n")[random() % 15];
      else
        token += std::string("\xE4") + char(0xB8 + random() % 7) + char(0x80 + random() % 64);
    }
    tokens.push_back(token);
  }
  return tokens;
}

void percentiles(const char* what, std::vector<double> seconds) {
  if (seconds.empty()) return;
  std::sort(seconds.begin(), seconds.end());
  const auto at = [&](double q) {
    return seconds[std::min(seconds.size() - 1, size_t(q * double(seconds.size())))] * 1e6;
  };
  std::printf("%-34s median %8.1f us   99%% %8.1f us   99.9%% %8.1f us   most %8.1f us   (%zu)\n", what, at(0.5),
              at(0.99), at(0.999), at(1), seconds.size());
}

// Random outputs that follow the grammar; text is kept short by preferring to end it.
void follow(const char* what, const std::shared_ptr<const Vocabulary>& vocabulary, const std::vector<Code>& programs,
            int outputs) {
  std::mt19937 random(3);
  std::vector<double> compile, first, masks, accepts;
  int32_t quote_token = 0;
  while (quote_token + 1 < vocabulary->size() &&
         !(vocabulary->bytes(quote_token).size() == 1 && vocabulary->bytes(quote_token)[0] == '"'))
    ++quote_token;
  for (auto& program : programs) {
    double from = now();
    const auto grammar = Grammar::compile(vocabulary, program, {});
    compile.push_back(now() - from);
    for (int output = 0; output < outputs; ++output) {
      Matcher matcher(grammar);
      for (int step = 0; step < 300; ++step) {
        from = now();
        const auto mask = matcher.mask();
        (output == 0 ? first : masks).push_back(now() - from);
        std::vector<int32_t> permitted;
        for (int32_t token = 0; token < vocabulary->size(); ++token)
          if ((*mask)[size_t(token) / 32] >> (token % 32) & 1) permitted.push_back(token);
        if (permitted.empty()) break;
        const bool quote = random() % 8 == 0 && ((*mask)[size_t(quote_token) / 32] >> (quote_token % 32) & 1);
        const int32_t token = quote ? quote_token : permitted[random() % permitted.size()];
        from = now();
        if (!matcher.accept(token)) std::abort();
        accepts.push_back(now() - from);
      }
    }
  }
  std::printf("%s\n", what);
  percentiles("  compile", compile);
  percentiles("  mask, a grammar's first output", first);
  percentiles("  mask, later outputs", masks);
  percentiles("  accept", accepts);
}

}  // namespace

int main(int argc, char** argv) {
  std::vector<std::string> tokens;
  if (argc > 1) {
    std::ifstream in(argv[1], std::ios::binary);
    for (uint32_t length; in.read(reinterpret_cast<char*>(&length), 4);) {
      std::string token(length, '\0');
      in.read(token.data(), length);
      tokens.push_back(token);
    }
  } else {
    tokens = made_up(150'000);
  }
  tokens.push_back("<end>");
  std::vector<uint8_t> bytes;
  std::vector<int32_t> offsets{0};
  for (auto& token : tokens) {
    bytes.insert(bytes.end(), token.begin(), token.end());
    offsets.push_back(int32_t(bytes.size()));
  }
  const std::vector<int32_t> end{int32_t(tokens.size()) - 1};
  const double from = now();
  const auto vocabulary = std::make_shared<Vocabulary>(bytes, offsets, end, end);
  std::printf("vocabulary of %d tokens: %.1f ms, %zu nodes, longest %d bytes\n", vocabulary->size(),
              (now() - from) * 1e3, vocabulary->nodes().size(), vocabulary->longest());
  std::vector<Code> schemas;
  for (int i = 0; i < 100; ++i) schemas.push_back(schema(std::to_string(i)));
  follow("any JSON", vocabulary, {any_json()}, 100);
  follow("a hundred schemas", vocabulary, schemas, 4);
  return 0;
}
