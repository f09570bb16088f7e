// Who may train one model at the same time: any number of adapters, or all weights alone. Weights that change would
// change what adapters and their versions mean.
#pragma once
#include <memory>

#include "../model/invalid_input.h"

namespace anneal::training {

class OpenTrainers {
 public:
  // Held by a trainer from when it is asked for until it is closed.
  using Place = std::shared_ptr<void>;

  // All throw model::Conflict.
  Place open_adapter() {
    refuse(open_->weights, "the model's weights are being trained: close that trainer first");
    return place(false);
  }
  Place open_weights(size_t adapters_loaded) {
    refuse(open_->count > 0, "another trainer of this model is open: close it first");
    refuse(adapters_loaded > 0, "adapters of this model are loaded: release them first");
    return place(true);
  }
  void check_loading() const {
    refuse(open_->weights, "the model's weights are being trained: close that trainer before loading adapters");
  }

 private:
  struct Open {
    int count = 0;
    bool weights = false;
  };
  static void refuse(bool conflict, const char* problem) {
    if (conflict) throw model::Conflict(problem);
  }
  Place place(bool weights) {
    open_->count++;
    open_->weights = weights;
    return Place(nullptr, [open = open_](void*) {
      open->count--;
      open->weights = false;
    });
  }
  std::shared_ptr<Open> open_ = std::make_shared<Open>();
};

}  // namespace anneal::training
