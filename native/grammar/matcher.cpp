#include "matcher.h"

#include "mask_maker.h"

namespace anneal::grammar {

namespace {

constexpr size_t kSpaceBytes = size_t(96) << 20;

}  // namespace

// ---- grammar

Grammar::Space::Space(const Grammar& grammar)
    : configurations(grammar.network_),
      masks(std::make_unique<MaskMaker>(*grammar.vocabulary_, grammar.network_, configurations, grammar.limits_)) {}
Grammar::Space::~Space() = default;

Grammar::Grammar(std::shared_ptr<const Vocabulary> vocabulary, Network network, const MaskLimits& limits)
    : vocabulary_(std::move(vocabulary)), network_(std::move(network)), limits_(limits) {}
Grammar::~Grammar() = default;

std::shared_ptr<Grammar> Grammar::compile(std::shared_ptr<const Vocabulary> vocabulary, std::span<const int32_t> words,
                                          const Budgets& budgets, const MaskLimits& limits,
                                          const std::atomic<bool>* aborted) {
  Spending spending(budgets, aborted);
  Program program = decode(words, vocabulary->size(), spending);
  for (int32_t node = 0; node < program.expressions.size(); ++node)
    if (program.expressions[node].op == Op::token && vocabulary->is_end(program.expressions[node].a))
      throw GrammarError(
          "invalid_grammar",
          "program names token " + std::to_string(program.expressions[node].a) + ", which ends outputs: leave it out",
          "program");
  auto grammar =
      std::shared_ptr<Grammar>(new Grammar(std::move(vocabulary), build_network(std::move(program), spending), limits));
  grammar->space_ = std::make_shared<Space>(*grammar);
  return grammar;
}

std::shared_ptr<Grammar::Space> Grammar::space() {
  std::lock_guard lock(mutex_);
  return space_;
}

std::shared_ptr<Grammar::Space> Grammar::replace(const std::shared_ptr<Space>& full) {
  std::lock_guard lock(mutex_);
  if (space_ == full) space_ = std::make_shared<Space>(*this);
  return space_;
}

// ---- matcher

Matcher::Matcher(std::shared_ptr<Grammar> grammar)
    : grammar_(std::move(grammar)), space_(grammar_->space()), history_{space_->configurations.start()} {
  if (grammar_->network().has_marks()) items_read_ = {0};
}

Matcher::Matcher(const Matcher& other)
    : grammar_(other.grammar_),
      space_(other.space_),
      history_(other.history_),
      items_(other.items_),
      items_read_(other.items_read_) {}

// Moves to a fresh space when this one is full; the others that use it move when it is their turn.
void Matcher::make_room() {
  {
    std::lock_guard lock(space_->mutex);
    if (space_->configurations.memory() + space_->masks->memory() < kSpaceBytes) return;
  }
  const auto old = space_;
  const auto fresh = grammar_->replace(old);
  std::scoped_lock lock(old->mutex, fresh->mutex);
  auto history = history_;
  restricted_.reset();
  fresh->configurations.adopt(old->configurations, {history.data(), history.size() - (finished() ? 1 : 0)});
  history_ = std::move(history);
  space_ = fresh;
}

bool Matcher::accept(int32_t token) {
  const auto& vocabulary = grammar_->vocabulary();
  if (finished() || token < 0 || token >= vocabulary.size()) return false;
  if (vocabulary.is_end(token)) return end();
  make_room();
  std::lock_guard lock(space_->mutex);
  auto& configurations = space_->configurations;
  // A token may be named by the grammar, match as text, or both.
  uint32_t now = configurations.after_token(history_.back(), token), text = Configurations::kDead;
  const auto bytes = vocabulary.bytes(token);
  if (vocabulary.is_text(token) && !bytes.empty()) {
    text = history_.back();
    if (!follow(bytes, text)) text = Configurations::kDead;
  }
  if (now != Configurations::kDead && text == Configurations::kDead && !items_read_.empty()) {
    // It stands for its text.
    for (uint8_t byte : bytes) items_.push(byte, false);
    if (!can_differ(configurations, now, items_)) {
      for (size_t i = 0; i < bytes.size(); ++i) items_.undo();
      now = Configurations::kDead;
    }
  }
  if (now == Configurations::kDead)
    now = text;
  else if (text != Configurations::kDead)
    now = configurations.united(now, text);
  if (now == Configurations::kDead) return false;
  step(now);
  return true;
}

// False, and nothing changes: the bytes may not follow.
bool Matcher::follow(std::span<const uint8_t> bytes, uint32_t& configuration) {
  auto& configurations = space_->configurations;
  uint32_t now = configuration;
  if (items_read_.empty()) {
    for (uint8_t byte : bytes)
      if ((now = configurations.after(now)[byte]) == Configurations::kDead) return false;
  } else {
    size_t read = 0;
    for (; read < bytes.size() && now != Configurations::kDead; read += now != Configurations::kDead)
      now = unique_step(configurations, now, bytes[read], items_);
    if (now == Configurations::kDead || !can_differ(configurations, now, items_)) {
      for (; read > 0; --read) items_.undo();
      return false;
    }
  }
  configuration = now;
  return true;
}

void Matcher::step(uint32_t configuration) {
  history_.push_back(configuration);
  restricted_.reset();
  if (items_read_.empty()) return;
  items_.commit();
  items_read_.push_back(items_.size());
}

void Matcher::rewind(size_t steps) {
  history_.resize(history_.size() - steps);
  if (steps > 0) restricted_.reset();
  if (items_read_.empty() || steps == 0) return;
  items_read_.resize(history_.size());
  if (items_.size() != items_read_.back()) items_.rewind(items_read_.back());
}

bool Matcher::end() {
  if (finished() || !complete()) return false;
  step(kFinished);
  return true;
}

bool Matcher::accept_bytes(std::span<const uint8_t> bytes) {
  if (finished()) return false;
  make_room();
  std::lock_guard lock(space_->mutex);
  uint32_t now = history_.back();
  if (!follow(bytes, now)) return false;
  step(now);
  return true;
}

std::shared_ptr<const Mask> Matcher::mask() {
  Turn whole(Turn::kWhole);
  return mask(whole);
}

std::shared_ptr<const Mask> Matcher::mask(Turn& turn) {
  if (finished()) return std::make_shared<const Mask>(grammar_->vocabulary().words(), 0);
  if (!is_making()) make_room();
  std::lock_guard lock(space_->mutex);
  if (!restricted_) {
    auto mask = space_->masks->mask(history_.back(), turn);
    if (!mask || !items_.active()) return mask;
    restricted_ = std::make_unique<Restricted>(
        *mask, UniqueRestriction(grammar_->vocabulary(), space_->configurations, history_.back()));
  }
  if (!restricted_->restriction.go_on(items_, restricted_->mask, turn)) return nullptr;
  auto own = std::make_shared<const Mask>(std::move(restricted_->mask));
  restricted_.reset();
  return own;
}

// In a fresh space it would have to begin anew.
bool Matcher::is_making() {
  if (restricted_) return true;
  std::lock_guard lock(space_->mutex);
  return space_->masks->is_making(history_.back());
}

bool Matcher::complete() {
  if (finished()) return true;
  std::lock_guard lock(space_->mutex);
  return space_->configurations.complete(history_.back());
}

int32_t Matcher::forced() {
  if (finished()) return -1;
  make_room();
  std::lock_guard lock(space_->mutex);
  return space_->masks->only(history_.back());
}

}  // namespace anneal::grammar
