// What the recurrent layers of a step were given of tokens that are guesses, until it is known how many of them count:
// then their states, which stand behind the tokens before, are moved on by these.
#pragma once
#include <span>
#include <vector>

#include "batch.h"
#include "workspace.h"

namespace anneal::cpu {

class GuessedInputs {
 public:
  bool empty() const { return guesses_.empty(); }
  void clear() { guesses_.clear(), rows_ = 0; }
  // The guesses of a run are a sequence of the step's batch, which branches off the run's.
  void add(int run, int sequence, int rows) { guesses_.push_back({run, sequence, rows_}), rows_ += rows; }
  // After a recurrent layer has been computed, which left them in the workspace.
  void take(const Model&, const Batch&, int layer, const Workspace&);
  // Of every run of the step, how many guesses count. `attention`: rows to write, as many as the guesses'.
  void keep(Team&, const Model&, const Batch&, std::span<const int> kept, const Rows& attention, Workspace&);

 private:
  struct Guess {
    int run, sequence, row0;
  };
  struct Layer {
    RowStore delta_in[kDeltaInputs];
  };
  std::vector<Guess> guesses_;
  int rows_ = 0;
  std::vector<Layer> layers_;
  Batch batch_;  // of what counts
};

}  // namespace anneal::cpu
