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
      5000;  // of each compiling thread's own time, so that a busy machine refuses no more than an idle one
  int64_t states = 600'000;            // of all automata built on the way
  int64_t bytes = int64_t(512) << 20;  // of all automata built on the way
  int64_t nesting = 512;               // of expressions within a rule
  int64_t rules = 50'000;
};

struct Cost {
  int64_t states = 0, bytes = 0;
  Cost operator-(const Cost& before) const { return {states - before.states, bytes - before.bytes}; }
};

// Counts what one thread of a compilation has cost. Throws GrammarError "grammar_too_complex", naming the budget that
// was passed by all of them together, and "aborted" when the flag has been set meanwhile.
class Spending {
 public:
  explicit Spending(const Budgets& budgets, const std::atomic<bool>* aborted = nullptr)
      : budgets_(budgets),
        aborted_(aborted),
        total_(&own_total_),
        end_(thread_ns() + budgets.milliseconds * 1'000'000) {}
  // Of a further thread, which need not run yet. Goes before `first`.
  explicit Spending(Spending& first)
      : budgets_(first.budgets_), aborted_(first.aborted_), total_(first.total_), end_(-1) {}
  Spending& operator=(const Spending&) = delete;

  const Budgets& budgets() const { return budgets_; }
  void states(int64_t count) {
    if ((spent_.states += count) + others_.states > budgets_.states) past("states", budgets_.states, "states");
    tick();
  }
  void bytes(int64_t count) {
    if ((spent_.bytes += count) + others_.bytes > budgets_.bytes) past("bytes", budgets_.bytes, "bytes of memory");
  }
  // By this thread.
  const Cost& spent() const { return spent_; }
  // By all threads, as far as they have told.
  Cost spent_by_all() const { return {total_->states, total_->bytes}; }
  // For what was made before: a grammar costs the same whatever was compiled earlier.
  void pay(const Cost& cost) { states(cost.states), bytes(cost.bytes); }
  void nesting(int64_t depth) const {
    if (depth > budgets_.nesting) past("nesting", budgets_.nesting, "levels of nested expressions");
  }
  void rules(int64_t count) const {
    if (count > budgets_.rules) past("rules", budgets_.rules, "rules");
  }
  // Called at least every few microseconds; looks at the flag, the other threads and the clock now and then.
  void tick() {
    if (++ticks_ % 256 != 0) return;
    if (aborted_ && *aborted_) throw GrammarError("aborted", "compiling was aborted", "");
    look_at_others();
    // Asking the system takes longer than looking at a flag.
    if (ticks_ % 4096 != 0) return;
    const int64_t now = thread_ns();
    if (end_ < 0) end_ = now + budgets_.milliseconds * 1'000'000;
    if (now > end_) past("milliseconds", budgets_.milliseconds, "milliseconds of compiling");
  }
  // Once all threads have ended, of each: what all have cost together does not depend on who looked at whom.
  void end() {
    look_at_others();
    states(0), bytes(0);
  }

 private:
  struct Total {
    std::atomic<int64_t> states = 0, bytes = 0;
  };
  void look_at_others() {
    const auto add = [](std::atomic<int64_t>& total, int64_t spent, int64_t& told) {
      const int64_t others = total.fetch_add(spent - told, std::memory_order_relaxed) - told;
      told = spent;
      return others;
    };
    others_ = {add(total_->states, spent_.states, told_.states), add(total_->bytes, spent_.bytes, told_.bytes)};
  }
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
  Total own_total_;
  Total* total_;
  int64_t end_;                 // on the thread's clock; -1: it has not been looked at yet
  Cost spent_, told_, others_;  // told_: of this thread, to the others
  int64_t ticks_ = 0;
};

}  // namespace anneal::grammar
