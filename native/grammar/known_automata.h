// Automata of expressions that other grammars had before: formats, numbers and free text come in nearly every schema.
#pragma once
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>

#include "automaton.h"
#include "budgets.h"

namespace anneal::grammar {

struct KnownAutomaton {
  std::shared_ptr<const Automaton> automaton;
  Cost cost;  // of making it
};

// Used by all threads. Past kMostBytes, those that were used longest ago go.
class KnownAutomata {
 public:
  static constexpr size_t kMostBytes = size_t(48) << 20;

  // One for the process.
  static KnownAutomata& instance();

  // `key` spells out the whole expression.
  std::optional<KnownAutomaton> find(const std::string& key);
  void keep(const std::string& key, KnownAutomaton automaton);

 private:
  struct Kept {
    std::string key;
    KnownAutomaton known;
    size_t bytes;
  };
  std::mutex mutex_;
  std::list<Kept> kept_;  // used last first
  std::unordered_map<std::string_view, std::list<Kept>::iterator> found_;
  size_t bytes_ = 0;
};

}  // namespace anneal::grammar
