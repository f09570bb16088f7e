// What compiling a grammar may cost, and how it fails.
#pragma once
#include <time.h>

#include <atomic>
#include <cstdint>
#include <stdexcept>
#include <string>

namespace anneal::grammar {

// `code`: "invalid_grammar" (the program is malformed), "grammar_too_complex" (a budget was passed),
// "grammar_left_recursive", "grammar_empty" (nothing matches), "aborted". `param` names what is at fault: "rules[3]",
// "budgets.states".
struct GrammarError : std::runtime_error {
  GrammarError(std::string code_, const std::string& message, std::string param_)
      : std::runtime_error(message), code(std::move(code_)), param(std::move(param_)) {}
  std::string code, param;
};

struct Budgets {
  int64_t milliseconds =
      5000;  // of the compiling thread's own time, so that a busy machine refuses no more than an idle one
  int64_t states = 600'000;            // of all automata built on the way
  int64_t bytes = int64_t(512) << 20;  // of all automata built on the way
  int64_t nesting = 512;               // of expressions within a rule
  int64_t rules = 50'000;
};

struct Cost {
  int64_t states = 0, bytes = 0;
  Cost operator-(const Cost& before) const { return {states - before.states, bytes - before.bytes}; }
};

// Counts what one compilation has cost. Throws GrammarError "grammar_too_complex", naming the budget that was passed,
// and "aborted" when the flag has been set meanwhile.
class Spending {
 public:
  explicit Spending(const Budgets& budgets, const std::atomic<bool>* aborted = nullptr)
      : budgets_(budgets), aborted_(aborted), end_(thread_ns() + budgets.milliseconds * 1'000'000) {}

  const Budgets& budgets() const { return budgets_; }
  void states(int64_t count) {
    if ((spent_.states += count) > budgets_.states) past("states", budgets_.states, "states");
    tick();
  }
  void bytes(int64_t count) {
    if ((spent_.bytes += count) > budgets_.bytes) past("bytes", budgets_.bytes, "bytes of memory");
  }
  const Cost& spent() const { return spent_; }
  // For what was made before: a grammar costs the same whatever was compiled earlier.
  void pay(const Cost& cost) { states(cost.states), bytes(cost.bytes); }
  void nesting(int64_t depth) const {
    if (depth > budgets_.nesting) past("nesting", budgets_.nesting, "levels of nested expressions");
  }
  void rules(int64_t count) const {
    if (count > budgets_.rules) past("rules", budgets_.rules, "rules");
  }
  // Called at least every few microseconds; looks at the flag and the clock now and then.
  void tick() {
    if (++ticks_ % 256 != 0) return;
    if (aborted_ && *aborted_) throw GrammarError("aborted", "compiling was aborted", "");
    // Asking the system takes longer than looking at a flag.
    if (ticks_ % 4096 == 0 && thread_ns() > end_)
      past("milliseconds", budgets_.milliseconds, "milliseconds of compiling");
  }

 private:
  static int64_t thread_ns() {
    timespec spent{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &spent);
    return int64_t(spent.tv_sec) * 1'000'000'000 + spent.tv_nsec;
  }
  [[noreturn]] static void past(const char* name, int64_t limit, const char* unit) {
    throw GrammarError(
        "grammar_too_complex",
        "the grammar needs more than " + std::to_string(limit) + " " + unit + ": simplify it or raise budgets." + name,
        std::string("budgets.") + name);
  }
  Budgets budgets_;
  const std::atomic<bool>* aborted_;
  int64_t end_;
  Cost spent_;
  int64_t ticks_ = 0;
};

}  // namespace anneal::grammar
