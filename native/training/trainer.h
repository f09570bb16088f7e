// An open trainer: something trainable, and the passes over rows for it.
#pragma once
#include <map>
#include <memory>

#include "rows.h"

namespace anneal::training {

// Counts the changes of a trainer's weights, as they are queued.
using WeightChanges = std::shared_ptr<int64_t>;

// Rows and the activations that a forward pass kept of them, for one backward.
class Pass {
 public:
  // `changes` as they are when the forward pass is queued.
  Pass(std::vector<Row> rows, const backends::PassOptions& options,
       WeightChanges changes = std::make_shared<int64_t>(0))
      : rows_(std::move(rows)), options_(options), changes_(std::move(changes)), made_at_(*changes_) {}

  // Where backward is queued. Throws InvalidGradient; and model::Conflict if the weights have changed.
  void check(const RowGradients&) const;

  // Throws Aborted, and NoRoom. Afterwards the activations are gone.
  void backward(const RowGradients&);

 private:
  friend class Trainer;
  std::vector<Row> rows_;
  backends::PassOptions options_;
  WeightChanges changes_;
  int64_t made_at_;
  std::unique_ptr<backends::TrainPass> kept_;
};

// A copy of what is trained, of each part one tensor behind the other, row-major: what is written while training goes
// on.
using HeldState = std::map<backends::Trainable::Part, std::vector<float>>;

// What the dispatcher uses of a trainer.
class Trainer {
 public:
  Trainer(backends::Backend& backend, std::unique_ptr<backends::Trainable> trainable)
      : backend_(backend), trainable_(std::move(trainable)) {}

  // Both throw Aborted and NoRoom.
  RowValues forward(Pass& pass);
  RowValues evaluate(const std::vector<Row>& rows, const backends::AdapterRef& adapter,
                     const backends::PassOptions& = {});

  // Bytes; 0: the device does not tell. `passes`: the most that passes over these rows hold, one after the other;
  // `state`: of what is trained. Throws NoRoom.
  struct Memory {
    int64_t passes, state;
  };
  Memory memory(const std::vector<std::vector<Row>>& trained, const std::vector<std::vector<Row>>& evaluated,
                const backends::PassOptions&);

  // Of `count` tensors from one on, row-major.
  std::vector<std::vector<float>> read(backends::Trainable::Part, size_t first, size_t count) const;
  // Values and moments as they are now, into memory that may be another copy's.
  void hold(HeldState& to) const;
  // Values are in use when it returns, or throws Aborted. `steps` below 0: as before.
  void write(backends::Trainable::Part, const std::vector<std::vector<float>>&, int64_t steps);

  backends::Trainable& trainable() { return *trainable_; }

 private:
  std::unique_ptr<backends::TrainPass> run(const std::vector<Row>&, backends::Trainable*, const backends::AdapterRef&,
                                           const backends::PassOptions&);
  backends::Backend& backend_;
  std::unique_ptr<backends::Trainable> trainable_;
};

}  // namespace anneal::training
