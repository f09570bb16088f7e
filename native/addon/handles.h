// What JavaScript's objects of a model hold: handles, used on their JavaScript thread, and the states behind them,
// which tasks use. A handle that is closed lets go of its state between two tasks.
#pragma once
#include "../backends/backend.h"
#include "../executor/machine.h"
#include "../inference/id_table.h"
#include "../inference/step.h"
#include "../training/open_trainers.h"
#include "../training/trainer.h"
#include "wrapped.h"

namespace anneal::addon {

using backends::AdapterRef;
using inference::Slot;

// What tasks use. Touched on the dispatcher only, except what is constant.
struct ModelState {
  std::unique_ptr<backends::Device> device;
  std::unique_ptr<backends::Backend> backend;
  std::unique_ptr<inference::Stepper> stepper;
  std::vector<std::string> weight_only;  // see Backend::gate_activations
  double difference_to_exact = 0;        // of log-probabilities
};

struct TrainerHandle;

// What the JavaScript thread knows of a model; shared by its objects.
struct ModelHandle {
  std::shared_ptr<Environment> environment;
  std::shared_ptr<ModelState> state;  // null once closed
  model::ModelSpec spec;
  int pages;  // of each group
  backends::PageGroups page_groups;
  int recurrent_states = 0;
  bool takes_guesses = false;  // among the tokens of a step
  int64_t bytes;
  std::string kernel_set;
  std::vector<std::string> weight_only;
  double difference_to_exact = 0;
  Pending pending;
  inference::IdTable<std::shared_ptr<Slot>> slots;
  inference::IdTable<AdapterRef> adapters;
  training::OpenTrainers trainers;
  std::vector<std::weak_ptr<TrainerHandle>> opened;
  bool given_logits = false;  // computed elsewhere, and given with every step

  ~ModelHandle() { close(); }
  // Throws Failure "closed".
  void require_open() const;
  AdapterRef adapter(const Argument& version) const;  // 0: null
  // The dispatcher lets go of the state between two tasks; tasks that hold it go on to their next chunk.
  void close();
};

// What tasks use; destroyed by the dispatcher between two tasks, or with the last task that holds it.
struct TrainerState {
  std::shared_ptr<ModelState> model;
  std::unique_ptr<training::Trainer> trainer;

  ~TrainerState() {
    constexpr int64_t kWorthGivingBack = int64_t(16) << 20;  // what takes milliseconds
    const bool worthwhile = trainer && trainer->trainable().bytes() >= kWorthGivingBack;
    trainer.reset(), model.reset();
    if (worthwhile) executor::give_back_freed_memory();
  }
};

struct PassState {
  std::shared_ptr<TrainerState> trainer;
  training::Pass pass;
};

// A pass whose backward has not been called. Null once closed.
struct PassHolder {
  std::shared_ptr<PassState> state;
};

struct TrainerHandle {
  std::shared_ptr<ModelHandle> model;
  std::shared_ptr<TrainerState> state;  // null once closed
  std::vector<model::TensorShape> tensors;
  Pending pending;
  std::vector<std::weak_ptr<PassHolder>> passes;
  training::OpenTrainers::Place place;  // while open
  int64_t steps = 0;                    // optimizer steps that have ended
  training::WeightChanges changes = std::make_shared<int64_t>(0);
  std::shared_ptr<training::HeldState> held;  // null while it is made

  ~TrainerHandle() { close(); }
  void require_open() const;
  void close();
};

}  // namespace anneal::addon
