// Structured outputs: a compiled grammar, and the state of one output that follows it.
//
// Everything here may be used from any thread; one Matcher is used by one thread at a time.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <span>

#include "configurations.h"
#include "mask.h"
#include "unique_items.h"
#include "unique_masks.h"
#include "vocabulary.h"

namespace anneal::grammar {

class MaskMaker;

class Grammar : public std::enable_shared_from_this<Grammar> {
 public:
  // `program`: see expressions.h. Throws GrammarError; "aborted" soon after the flag is set.
  static std::shared_ptr<Grammar> compile(std::shared_ptr<const Vocabulary> vocabulary,
                                          std::span<const int32_t> program, const Budgets& budgets,
                                          const MaskLimits& limits = {}, const std::atomic<bool>* aborted = nullptr);
  ~Grammar();

  const Vocabulary& vocabulary() const { return *vocabulary_; }
  const Network& network() const { return network_; }
  size_t memory() const { return network_.memory(); }

 private:
  friend class Matcher;
  // What matchers of the grammar have met so far, with the masks made. Replaced by a fresh one when it has grown large.
  struct Space {
    explicit Space(const Grammar& grammar);
    ~Space();
    std::mutex mutex;
    Configurations configurations;
    std::unique_ptr<MaskMaker> masks;
  };
  Grammar(std::shared_ptr<const Vocabulary> vocabulary, Network network, const MaskLimits& limits);
  std::shared_ptr<Space> space();
  std::shared_ptr<Space> replace(const std::shared_ptr<Space>& full);

  std::shared_ptr<const Vocabulary> vocabulary_;
  Network network_;
  MaskLimits limits_;
  std::mutex mutex_;  // of space_
  std::shared_ptr<Space> space_;
};

class Matcher {
 public:
  explicit Matcher(std::shared_ptr<Grammar> grammar);
  // Of a mask that is being made it has nothing.
  Matcher(const Matcher& other);

  const Grammar& grammar() const { return *grammar_; }
  // Whether the token, or end of output, may follow; if not, nothing changes. Each accepted one is a step that rewind()
  // can take back.
  bool accept(int32_t token);
  // One step as well: text that was put in rather than drawn.
  bool accept_bytes(std::span<const uint8_t> bytes);
  // The tokens that may follow; end tokens where the output may end.
  std::shared_ptr<const Mask> mask();
  // Null: the turn is over before that is known. The next one goes on from there, unless the output has changed.
  std::shared_ptr<const Mask> mask(Turn& turn);
  // The output may end here.
  bool complete();
  // An end token was accepted: nothing may follow.
  bool finished() const { return history_.back() == kFinished; }
  // The one token that may follow; -1 where there is a choice, or nothing may follow.
  int32_t forced();
  // Ends the output as an end token would; false, and nothing changes, where it is not complete. One step.
  bool end();
  size_t steps() const { return history_.size() - 1; }
  // Takes back the last `steps` (at most steps()) steps.
  void rewind(size_t steps);

 private:
  static constexpr uint32_t kFinished = UINT32_MAX - 1;
  void make_room();
  bool is_making();
  bool follow(std::span<const uint8_t> bytes, uint32_t& configuration);
  void step(uint32_t configuration);
  std::shared_ptr<Grammar> grammar_;
  std::shared_ptr<Grammar::Space> space_;
  std::vector<uint32_t> history_;  // configurations: before the first step, and after each
  // Of a grammar that has arrays whose items differ:
  UniqueItems items_;
  std::vector<size_t> items_read_;  // by items_, before the first step, and after each
  // The mask that earlier items are being taken out of; null: none is being made.
  struct Restricted {
    Mask mask;
    UniqueRestriction restriction;
  };
  std::unique_ptr<Restricted> restricted_;
};

}  // namespace anneal::grammar
