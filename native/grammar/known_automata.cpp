#include "known_automata.h"

namespace anneal::grammar {

KnownAutomata& KnownAutomata::instance() {
  // Never destroyed: a compilation may still run when the process ends.
  static auto& automata = *new KnownAutomata;
  return automata;
}

std::optional<KnownAutomaton> KnownAutomata::find(const std::string& key) {
  std::lock_guard lock(mutex_);
  const auto known = found_.find(key);
  if (known == found_.end()) return std::nullopt;
  kept_.splice(kept_.begin(), kept_, known->second);
  return known->second->known;
}

void KnownAutomata::keep(const std::string& key, KnownAutomaton automaton) {
  const size_t bytes = key.size() + automaton.automaton->memory() + 256;
  std::lock_guard lock(mutex_);
  if (bytes > kMostBytes / 4 || found_.contains(key)) return;
  kept_.push_front({key, std::move(automaton), bytes});
  found_.emplace(kept_.front().key, kept_.begin());
  bytes_ += bytes;
  while (bytes_ > kMostBytes) {
    found_.erase(kept_.back().key);
    bytes_ -= kept_.back().bytes;
    kept_.pop_back();
  }
}

}  // namespace anneal::grammar
