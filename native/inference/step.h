// One inference step: any mix of prefill and decode, then sampling of all rows.
#pragma once
#include <memory>
#include <vector>

#include "../backends/backend.h"
#include "mask_thread.h"

namespace anneal::inference {

// What of a model bounds a step.
struct StepLimits {
  int vocab, max_positions, pages;  // pages of all groups
  bool given_logits = false;        // they are computed elsewhere and come with the sequences
  backends::PageGroups groups = {};
  int recurrent_states = 0;         // 0: sequences have none
  bool takes_guesses_back = false;  // of sequences that have one
};

struct Sequence {
  std::shared_ptr<Slot> slot;   // null: no sampling state
  bool continues = false;       // without tokens: from the token that the slot drew last, and those forced after it
  std::vector<int32_t> tokens;  // [count]
  std::vector<int32_t> blocks;  // pages of positions 0 .. position + count - 1: [groups][blocks]
  std::vector<int32_t> next;    // [count], with prompt_logprobs: the token after each, or -1
  int position = 0;             // of the first token
  int recurrent = -1;           // the state behind `position` tokens, of a model whose sequences have one
  backends::AdapterRef adapter;
  bool sample = false;   // draw a token from the last one's logits
  int output_index = 0;  // of the token drawn, not counting those forced before it
  int max_forced = 0;    // tokens at most that are taken after the one drawn, while no other is permitted
  // Tokens at most that are computed unasked, as what may follow those the step goes on from (speculative decoding).
  // Each is drawn from its logits as ever, and what follows it counts where the draw is what had been guessed.
  int max_drafts = 0;
  std::vector<int32_t> lookup;  // the prompt, what guesses are taken from: once is enough for a slot
  int prompt_logprobs = -1;     // >= 0: of every token, with so many of the most likely ones
  // Of a model whose logits are computed elsewhere: of every token with prompt_logprobs, else of the last where one is
  // drawn; [rows][vocab].
  std::vector<float> given_logits;
  int state_count = 0;  // of the last so many tokens, the hidden states after the final norm are wanted

  // Set by begin_step.
  int max_tokens = 0;           // tokens at most: those after a draw are known only when the step runs
  int drafts = 0;               // of its tokens, the last ones: guesses
  int32_t draft_place = 0;      // where these stood before: in `lookup`, and behind it the outputs
  int64_t draw = 0, after = 0;  // its own draw's number; that of the draw it goes on from

  // Results. -2: nothing was to be drawn; -1: no token was permitted; kPutOff: what may follow was not known in time,
  // so that its last token is to be computed and drawn from again. A step that goes on from this draw does so.
  static constexpr int32_t kPutOff = -3;
  sampling::Sampled sampled{-2, 0, {}, {}};
  std::vector<sampling::Sampled> kept;      // drawn before it, as they had been guessed: they are computed already
  std::vector<int32_t> forced;              // taken after the token sampled
  std::vector<sampling::RowLogprobs> rows;  // [count], with prompt_logprobs
  std::vector<float> states;                // [state_count][hidden]
};

// Checks sequences and numbers their draws, in the order in which steps are queued. Throws model::InvalidInput; then
// nothing has changed.
void begin_step(std::vector<Sequence>&, const StepLimits&);

// Runs the steps of one model, one at a time, on the dispatcher.
class Stepper {
 public:
  explicit Stepper(backends::Backend& backend, int64_t turn_steps = MaskThread::kTurnSteps)
      : backend_(backend), turn_steps_(turn_steps), masks_(turn_steps) {}
  // Fills in the sequences' results. False if aborted: then their slots are as they were.
  bool run(std::vector<Sequence>&);

 private:
  struct Row {
    Sequence* sequence;
    int token;  // index in the sequence's tokens
  };
  // In as many passes as the logits take.
  bool compute(std::vector<Sequence>&);
  // As compute(), but that slots take back what they kept unless all of it succeeds.
  bool compute_whole(std::vector<Sequence>&);
  // The sequence's tokens, those drawn before where it goes on from them. False: it has ended.
  bool take_tokens(Sequence&);
  // Whether a draw of the pass may be put off, and the rest of it goes on.
  bool may_wait(const Sequence&) const;
  // Appends guesses at what follows the sequence's tokens.
  void add_drafts(Sequence&, int others);
  // Draws on behind every guess that was right.
  bool draw_on(const backends::Logits&);
  // Tells the device how many guesses were right.
  bool settle();
  void learn_row_cost(double seconds);  // of a pass that took so long
  // How many more rows of logits this pass may have.
  int64_t room() const;
  // Adds tokens from `first` on to this pass: all that are left, or as many as there is room for. Returns how many.
  int add_run(Sequence&, int first);
  // Computes and samples what was added, and begins anew. False if aborted.
  bool pass();

  backends::Backend& backend_;
  const int64_t turn_steps_;
  MaskThread masks_;
  std::vector<backends::Run> runs_;
  std::vector<Row> rows_;  // those with logits
  std::vector<backends::RowRequest> requests_;
  std::vector<backends::RowResult> results_;
  std::vector<Sequence*> running_;  // whose runs_ these are
  std::vector<int> kept_;
  std::vector<Row*> drawing_;  // those that drew last, of sequences with guesses left
  RowCost row_cost_;
};

}  // namespace anneal::inference
