// Training passes: forward over rows with activations kept, and backward from gradients of log-probabilities.
#pragma once
#include <memory>
#include <mutex>

#include "head.h"
#include "layer_backward.h"

namespace anneal::cpu {

// Everything a pass needs besides the weights; big, so it is kept from pass to pass.
struct TrainMemory {
  explicit TrainMemory(MemoryAccount::Mode mode = MemoryAccount::Mode::takes) : account{0, mode} {}

  MemoryAccount account;  // of all that follows
  struct Kept {           // as LayerActivations has them
    MatrixStore x_mid;
    RowStore q, k, v, gate, up, attention, attended, fed_forward, token_gate, token_branch, delta_in[kDeltaInputs],
        z[kProjections];
    Buffer lse;
    void size(const Model&, int rows, const Widths&, const AdapterVersion*);
  };
  Batch batch;
  Pages pages;
  Workspace workspace;
  std::vector<MatrixStore> x;        // residual stream [rows][hidden] before each layer, and after the last
  std::vector<Kept> kept;            // layers that are not computed again
  Kept again;                        // of the layer that is
  RowStore attention;                // of evaluations
  MatrixStore units, entropy_units;  // [entries][hidden], see Units
  MatrixStore d_x;                   // [rows][hidden], of the last layer's output of the rows that are read
  BackwardMemory backward;
  HeadMemory head;
};

// Where a pass finds memory and leaves it. Shared, so that passes and trainables may outlive each other.
// A pass may end on another thread than the next one begins on (its task was aborted before it ran).
class TrainMemorySlot {
 public:
  std::unique_ptr<TrainMemory> take() {
    std::lock_guard lock(mutex_);
    return std::move(memory_);
  }
  // Kept if nothing is.
  void give(std::unique_ptr<TrainMemory> memory) {
    std::lock_guard lock(mutex_);
    if (!memory_) memory_.swap(memory);
  }
  // Whether what lies here stays when a trainer has ended. False: it goes now.
  void stays(bool stays) {
    std::lock_guard lock(mutex_);
    stays_ = stays;
    if (!stays) memory_.reset();
  }
  // A trainer has ended: what lies here stays where others have far more left.
  void trained() {
    std::lock_guard lock(mutex_);
    if (memory_ && !(stays_ && memory_->account.bytes <= executor::available_memory() / 4)) memory_.reset();
  }

 private:
  std::mutex mutex_;
  std::unique_ptr<TrainMemory> memory_;
  bool stays_ = false;
};

std::unique_ptr<TrainPass> train_forward(Model&, Pool&, std::span<const TrainRow>, Parameters* trainable,
                                         const AdapterRef&, const PassOptions&, std::shared_ptr<TrainMemorySlot>);

// As Backend::pass_bytes().
int64_t planned_pass_bytes(Model&, Pool&, std::span<const std::vector<TrainRow>> trained,
                           std::span<const std::vector<TrainRow>> evaluated, Parameters* trainable, const PassOptions&);

int64_t activation_bytes_per_token(const ModelSpec&, const Kernels&);

}  // namespace anneal::cpu
