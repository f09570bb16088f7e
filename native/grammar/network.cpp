#include "network.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <exception>
#include <mutex>

#include "../executor/deep_thread.h"
#include "../executor/machine.h"
#include "automaton_maker.h"

namespace anneal::grammar {

namespace {

// So many that wait are worth a further thread, which takes some tens of microseconds to start.
constexpr size_t kManyRules = 24;
constexpr int32_t kMaxThreads = 4;

}  // namespace

// Rules keep their calls, because a mask belongs to the states of one rule: text bodies, which are expensive to mask,
// have the same automaton in every grammar. For the same reason free text inside a rule becomes a rule of its own.
class NetworkBuilder {
 public:
  NetworkBuilder(Program program, Spending& spending)
      : program_(std::move(program)),
        e_(program_.expressions),
        spending_(spending),
        parts_(program_),
        maker_(parts_, spending),
        weights_(program_, spending, [this](int32_t node) { return maker_.part(node).size(); }),
        rule_of_(size_t(e_.size()), -1) {}

  Network run() {
    const int32_t root = program_.rules[size_t(program_.start)];
    if (!weights_.productive(root))
      throw GrammarError("grammar_empty", "the grammar matches nothing",
                         "rules[" + std::to_string(program_.start) + "]");
    meet(root, spending_);
    make_rules();
    number_rules();
    put_together();
    add_marks();
    order_rules();
    return std::move(net_);
  }

 private:
  // An expression with an automaton of its own.
  struct Rule {
    int32_t node;
    AutomatonMaker::Rule made;
    const AutomatonMaker* by;
    int32_t number;  // in the network; -1: not known yet
    int32_t caller;  // the first one's number; -1: none
  };

  // ---- making them

  std::span<const SymbolEdge> symbols(const Rule& rule) const {
    return rule.made.automaton ? rule.made.automaton->symbols(0, rule.made.size)
                               : rule.by->others().symbols(rule.made.first, rule.made.size);
  }

  void meet(int32_t node, Spending& spending) {
    if (rule_of_[size_t(node)] >= 0) return;
    rule_of_[size_t(node)] = int32_t(rules_.size());
    rules_.push_back({node, {}, nullptr, -1, -1});
    spending.rules(int64_t(rules_.size()));
    spending.bytes(64);
  }

  // Which rule is made by which thread makes no difference, nor does it to what they may cost together.
  void make_rules() {
    std::deque<executor::DeepThread> threads;
    const auto with_one_more = [&] {
      const static int32_t cores = executor::usable_cores();
      if (int32_t(threads.size()) + 1 >= std::min(cores, kMaxThreads)) return;
      Helper& helper = helpers_.emplace_back(parts_, spending_);
      try {
        threads.emplace_back([this, &helper] { make_waiting(helper.maker, helper.spending, [] {}); });
      } catch (const std::system_error&) {
        // The system starts no further one: those there are go on.
        helpers_.pop_back();
      }
    };
    make_waiting(maker_, spending_, with_one_more);
    for (auto& thread : threads) thread.join();
    if (error_) std::rethrow_exception(error_);
    for (auto& helper : helpers_) helper.spending.end();
    spending_.end();
  }

  // Until none waits and none is being made that may call others.
  template <class Many> void make_waiting(AutomatonMaker& maker, Spending& spending, Many&& many) {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [&] { return error_ || next_ < rules_.size() || busy_ == 0; });
      if (error_ || next_ == rules_.size()) return;
      const size_t rule = next_++;
      const int32_t node = rules_[rule].node;
      ++busy_;
      try {
        if (rules_.size() - next_ >= kManyRules) many();
        lock.unlock();
        AutomatonMaker::Rule made = maker.rule(node, weights_);
        lock.lock();
        rules_[rule].made = std::move(made), rules_[rule].by = &maker;
        for (auto& edge : symbols(rules_[rule]))
          if (edge.symbol >= 0) meet(edge.symbol, spending);
      } catch (...) {
        if (!lock.owns_lock()) lock.lock();
        error_ = std::current_exception();
      }
      --busy_;
      changed_.notify_all();
    }
  }

  // ---- putting them together

  // As a breadth-first visit meets them.
  void number_rules() {
    const auto number = [&](int32_t index, int32_t caller) {
      Rule& rule = rules_[size_t(index)];
      if (rule.number >= 0) return;
      rule.number = int32_t(order_.size()), rule.caller = caller;
      order_.push_back(index);
    };
    number(0, -1);
    for (size_t i = 0; i < order_.size(); ++i)
      for (auto& edge : symbols(rules_[size_t(order_[i])]))
        if (edge.symbol >= 0) number(rule_of_[size_t(edge.symbol)], int32_t(i));
  }

  // It is kept long after it is made, and may be large: it gets the memory that it needs.
  void put_together() {
    size_t states = 2, edges = maker_.others().edge_count(), calls = 0;
    for (auto& helper : helpers_) edges += helper.maker.others().edge_count();
    for (auto& rule : rules_) {
      states += size_t(rule.made.size), calls += symbols(rule).size();
      if (rule.made.automaton) edges += rule.made.automaton->edge_count();
    }
    net_.states_.reserve(states), net_.edges_.reserve(edges), net_.rules_.reserve(rules_.size());
    net_.calls_.reserve(calls);
    // States 0 and 1; neither leads anywhere.
    net_.states_ = {{0, 0, 0, true, false}, {0, 0, 0, true, false}};
    for (int32_t rule : order_) add_rule(rules_[size_t(rule)]);
    net_.calls_.shrink_to_fit();
  }

  void add_rule(const Rule& rule) {
    const auto& [made, first, size] = rule.made;
    const Automaton& automaton = made ? *made : rule.by->others();
    const int32_t base = net_.size();
    net_.rules_.push_back({base, 0});
    for (int32_t s = 0; s < size; ++s) {
      const auto edges = automaton.edges(first + s);
      const auto symbols = automaton.symbols(first + s);
      for (auto& edge : edges) net_.edges_.push_back({edge.lo, edge.hi, base + edge.to});
      for (auto& edge : symbols) {
        if (edge.symbol < kMarkSymbols + kMarks)
          marks_.push_back({edge.symbol - kMarkSymbols, base + s, base + edge.to});
        else if (edge.symbol < 0)
          net_.tokens_.push_back({~edge.symbol, base + edge.to});
        else
          net_.calls_.push_back({rules_[size_t(rule_of_[size_t(edge.symbol)])].number, base + edge.to});
      }
      const bool accepts = automaton.accepts(first + s), leads_on = !edges.empty() || !symbols.empty();
      net_.states_.push_back({uint32_t(net_.edges_.size()), uint32_t(net_.calls_.size()), uint32_t(net_.tokens_.size()),
                              accepts, accepts && !leads_on});
    }
  }

  void add_marks() {
    if (marks_.empty()) return;
    net_.item_ends_.assign(net_.states_.size(), -1), net_.openings_.assign(net_.states_.size(), -1);
    for (const auto& [mark, state, to] : marks_)
      (mark == kItemEnd ? net_.item_ends_ : net_.openings_)[size_t(state)] = to;
  }

  // A cycle among calls from start states is left recursion. (A callee that can match "" is stepped over in the
  // caller's own automaton, so that calls hidden behind it stand at the start as well.)
  void order_rules() {
    const auto n = size_t(net_.rules());
    enum : uint8_t { fresh, open, ended };
    std::vector<uint8_t> state(n, fresh);
    struct Frame {
      int32_t rule;
      size_t next;
    };
    std::vector<Frame> path;
    std::vector<int32_t> done;
    for (int32_t root = 0; root < int32_t(n); ++root) {
      if (state[size_t(root)] != fresh) continue;
      state[size_t(root)] = open;
      path.push_back({root, 0});
      while (!path.empty()) {
        auto& [rule, next] = path.back();
        const auto calls = net_.calls(net_.rules_[size_t(rule)].start);
        if (next == calls.size()) {
          state[size_t(rule)] = ended;
          done.push_back(rule);
          path.pop_back();
          continue;
        }
        const int32_t called = calls[next++].rule;
        if (state[size_t(called)] == open) {
          const auto owner = std::to_string(owner_of(called));
          throw GrammarError(
              "grammar_left_recursive",
              "rule " + owner + " can call itself before it has read anything: begin it with something else",
              "rules[" + owner + "]");
        }
        if (state[size_t(called)] == fresh) state[size_t(called)] = open, path.push_back({called, 0});
      }
    }
    net_.by_order_.assign(done.rbegin(), done.rend());
    for (size_t i = 0; i < n; ++i) net_.rules_[size_t(net_.by_order_[i])].order = int32_t(i);
  }

  // The rule of the program that a rule of the network is or stands in, for messages.
  int32_t owner_of(int32_t number) const {
    const auto& rules = program_.rules;
    for (;;) {
      const Rule& rule = rules_[size_t(order_[size_t(number)])];
      const auto found = std::find(rules.begin(), rules.end(), rule.node);
      // The first of all is one of the program's.
      if (found != rules.end()) return int32_t(found - rules.begin());
      number = rule.caller;
    }
  }

  // A further thread's.
  struct Helper {
    Helper(ExpressionParts& parts, Spending& first) : spending(first), maker(parts, spending) {}
    Spending spending;
    AutomatonMaker maker;
  };

  Program program_;
  const Expressions& e_;
  Spending& spending_;
  ExpressionParts parts_;
  AutomatonMaker maker_;
  ExpressionWeights weights_;  // made of parts
  std::deque<Helper> helpers_;

  // What the threads share.
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Rule> rules_;        // as they were met
  std::vector<int32_t> rule_of_;  // by node; -1: none
  size_t next_ = 0;               // of the rules: those from here on wait
  int32_t busy_ = 0;              // threads that make one
  std::exception_ptr error_;

  std::vector<int32_t> order_;  // of the rules, by their number
  struct Marked {
    int32_t mark, state, to;
  };
  std::vector<Marked> marks_;
  Network net_;
};

Network build_network(Program program, Spending& spending) {
  return NetworkBuilder(std::move(program), spending).run();
}

}  // namespace anneal::grammar
