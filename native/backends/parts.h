// What backends have besides whose models may be parts: some layers of a model, of which another device computes those
// before or behind (split/).
#pragma once
#include <cmath>

#include "backend.h"

namespace anneal::backends {

// Parameters of a part.
class PartTrainable : public Trainable {
 public:
  double optim_step(const OptimizerSettings& settings) override {
    const double norm = std::sqrt(add_squares(0));
    if (std::isfinite(norm))
      step(settings, norm);
    else
      zero_grad();
    return norm;
  }
  // What that consists of: the squares of the gradients are added to `sum` in their order; and the step, given the norm
  // of all parts. Both throw Aborted.
  virtual double add_squares(double sum) = 0;
  virtual void step(const OptimizerSettings&, double norm) = 0;
};

// A pass over a part; residual streams are [rows of all][hidden].
class PartPass : public TrainPass {
 public:
  // Of the first layers: the stream behind them, and its gradient, which backward goes on from.
  virtual void read_residual(float* /* to */) {}
  virtual void give_residual_gradient(const float* /* from */) {}
  // Of the last ones, made by forward_behind(): the gradient of the stream before them, after backward, which counts
  // once commit() is called.
  virtual void read_residual_gradient(float* /* to */) {}
  virtual void commit() {}
};

// Of a model's last layers.
class PartBackend : public Backend {
 public:
  // forward() with this residual stream in the place of the tokens' embeddings.
  virtual std::unique_ptr<TrainPass> forward_behind(std::span<const TrainRow>, Trainable*, const AdapterRef&,
                                                    const PassOptions&, const float* residual) = 0;
};

}  // namespace anneal::backends
