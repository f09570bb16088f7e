// Sampling state of one choice: its sampler, and what its grammar permits. The JavaScript thread numbers the draws as
// it queues them; everything else belongs to the dispatcher.
#pragma once
#include <memory>
#include <optional>

#include "../backends/backend.h"
#include "../grammar/matcher.h"
#include "../sampling/thinking_budget.h"
#include "prompt_lookup.h"

namespace anneal::inference {

using sampling::SamplingParams;
using sampling::SamplingState;
using sampling::ThinkingBudget;

class Slot {
 public:
  // `matcher` (or null) is the slot's own: whoever gave it has another. `stop_ids` (sorted) may follow where the output
  // is complete. `thought_ids` (sorted) begin thoughts, which the matcher permits but which are the model's own wish:
  // one of them is only drawn as the first output where the likeliest of all tokens is one. `thinking`: null for
  // thoughts of any length.
  Slot(SamplingParams params, int vocab, std::unique_ptr<grammar::Matcher> matcher, std::vector<int32_t> stop_ids,
       std::vector<int32_t> thought_ids, std::optional<ThinkingBudget> thinking)
      : state_(std::move(params), vocab),
        vocab_(vocab),
        matcher_(std::move(matcher)),
        stop_ids_(std::move(stop_ids)),
        thought_ids_(std::move(thought_ids)),
        thinking_(std::move(thinking)) {}

  // The next token where the grammar or the thinking budget leaves no choice, whatever the logits say; -1 elsewhere.
  int32_t forced();
  // Finds out what the next draw may be, ahead of it: on any thread, while nothing else uses the slot. False: the turn
  // is over before; another one goes on from there.
  bool prepare(grammar::Turn& turn) noexcept;
  bool is_prepared() const { return !matcher_ || readiness_ != Readiness::none; }
  // Fills in how the output of that index is to be drawn from its row of logits; what is pointed to stays until
  // accept(). False: nothing can be drawn, because the grammar is too ambiguous to be followed further.
  bool ask(int output, backends::RowRequest& request);
  // From now on what follows is guessed, from the prompt and the outputs.
  void look_up(std::vector<int32_t> prompt);
  // Tokens that may follow those given, `most` at most: no more of them than it pays to compute unasked (see
  // PromptLookup). Good until accept().
  std::span<const int32_t> draft(int most, double row_cost, int others);
  // See PromptLookup::place(); behind a draft that is not empty.
  int32_t draft_place() const { return lookup_->place(); }
  // Takes a token that was drawn as it had been guessed, so that the next can be drawn before accept(). False, and it
  // is not taken: it ends the output, or it was not found out within the turn what may follow it.
  bool keep(int32_t token, grammar::Turn& turn);
  // Takes back all tokens kept since accept().
  void take_back();
  // Takes the token that a draw gave behind those kept, and up to `max_forced` tokens that are forced after it: they
  // become `given`.
  void accept(int32_t token, int max_forced);
  bool constrained() const { return bool(matcher_); }
  const SamplingParams& params() const { return state_.params(); }

  int64_t draws = 0;           // queued so far (JavaScript thread)
  int64_t latest = 0;          // the one that a step without tokens goes on from; 0: none (JavaScript thread)
  int latest_max_forced = 0;   // forced tokens that it may take at most (JavaScript thread)
  int latest_max_drafts = 0;   // and tokens that it may keep before (JavaScript thread)
  int64_t drawn = 0;           // the one that gave `given`: another than asked for means that one was aborted
  std::vector<int32_t> given;  // the token drawn, and those forced after it; empty: no token was permitted
  int kept = 0;                // tokens before it that were drawn as guessed: they are computed already
  // The draw that was to come was put off: what may follow was not known in time. The token before it is computed once
  // more.
  struct PutOff {
    int32_t token;
    int position, output;
  };
  std::optional<PutOff> put_off;

 private:
  // Whether it is known what the next draw may be; refused: it is too ambiguous; failed: memory ran out.
  enum class Readiness { none, ready, refused, failed };
  bool take(int32_t token);
  void take_back(size_t count);
  int32_t find_forced();
  int32_t end_of_thoughts();
  void forget();
  bool may_stop() { return !stop_ids_.empty() && matcher_->complete(); }

  SamplingState state_;
  int vocab_;
  std::unique_ptr<grammar::Matcher> matcher_;  // one step per output, after those it came with
  std::vector<int32_t> stop_ids_;
  std::vector<int32_t> thought_ids_;
  std::optional<ThinkingBudget> thinking_;
  std::optional<ThinkingBudget> thinking_before_;  // those kept
  std::vector<int32_t> kept_;                      // since accept()
  std::optional<PromptLookup> lookup_;
  std::optional<int32_t> forced_;  // what forced() says, until a token is taken
  Readiness readiness_ = Readiness::none;
  int32_t sole_ = -1;                          // once ready: the one token that may follow, or -1 and
  std::shared_ptr<const grammar::Mask> mask_;  // those that may, and
  bool stops_ = false;                         // whether stop ids may as well
  grammar::Mask own_mask_, answer_mask_;       // with stop ids; and without tokens that begin thoughts
};

}  // namespace anneal::inference
