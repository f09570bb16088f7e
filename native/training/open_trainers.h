// Who may train one model at the same time: any number of adapters, or all weights alone. Weights that change would
// change what adapters and their versions mean.
#pragma once
#include <memory>

#include "../model/invalid_input.h"

namespace anneal::training {

class OpenTrainers {
 public:
  // Held by a trainer from when it is asked for until it is closed, and while an adapter is loaded.
  using Place = std::shared_ptr<void>;

  // All throw model::Conflict.
  Place open_adapter() {
    refuse(open_->weights, "the model's weights are being trained: close that trainer first");
    return place(&Open::adapters);
  }
  Place open_weights(size_t adapters_loaded) {
    refuse(open_->adapters + open_->weights > 0, "another trainer of this model is open: close it first");
    refuse(adapters_loaded + open_->loading > 0, "adapters of this model are loaded: release them first");
    return place(&Open::weights);
  }
  Place load_adapter() {
    refuse(open_->weights, "the model's weights are being trained: close that trainer before loading adapters");
    return place(&Open::loading);
  }

 private:
  struct Open {
    size_t adapters = 0, weights = 0, loading = 0;
  };
  static void refuse(bool conflict, const char* problem) {
    if (conflict) throw model::Conflict(problem);
  }
  Place place(size_t Open::*kind) {
    ++(*open_.*kind);
    return Place(nullptr, [open = open_, kind](void*) { --(*open.*kind); });
  }
  std::shared_ptr<Open> open_ = std::make_shared<Open>();
};

}  // namespace anneal::training
