// An open trainer: something trainable, and the passes over rows for it.
#pragma once
#include <memory>

#include "rows.h"

namespace anneal::training {

// Rows and the activations that a forward pass kept of them, for one backward.
class Pass {
 public:
  Pass(std::vector<Row> rows, const backends::PassOptions& options) : rows_(std::move(rows)), options_(options) {}

  // Throws InvalidGradient.
  void check(const RowGradients&) const;
  // Whether it was made for gradients by entropies.
  bool has_entropies() const { return options_.entropy_gradient; }
  const std::vector<Row>& rows() const { return rows_; }

  // Throws Aborted, and NoRoom. Afterwards the activations are gone.
  void backward(const RowGradients&);

 private:
  friend class Trainer;
  std::vector<Row> rows_;
  backends::PassOptions options_;
  std::unique_ptr<backends::TrainPass> kept_;
};

// What the dispatcher uses of a trainer.
class Trainer {
 public:
  Trainer(backends::Backend& backend, std::unique_ptr<backends::Trainable> trainable)
      : backend_(backend), trainable_(std::move(trainable)) {}

  // Both throw Aborted; forward NoRoom as well.
  RowValues forward(Pass& pass);
  RowValues evaluate(const std::vector<Row>& rows, const backends::AdapterRef& adapter);

  backends::Trainable& trainable() { return *trainable_; }

 private:
  std::unique_ptr<backends::TrainPass> run(const std::vector<Row>&, backends::Trainable*, const backends::AdapterRef&,
                                           const backends::PassOptions&);
  backends::Backend& backend_;
  std::unique_ptr<backends::Trainable> trainable_;
};

}  // namespace anneal::training
