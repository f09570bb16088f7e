// Makes the masks of a step's rows on a thread of its own, while the workers run the forward pass: by turns, so that
// one that takes long keeps no other waiting. What is not done when that ends is shared with the dispatcher, and given
// up after some turns where the rest of the step need not wait for it. One thread for all rows: those of one grammar
// would only wait for each other.
#pragma once
#include <atomic>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "slot.h"

namespace anneal::inference {

class MaskThread {
 public:
  static constexpr int64_t kTurnSteps = 50'000;  // about half a millisecond
  // Turns of a slot after the forward pass, where others go on without it: some milliseconds.
  static constexpr int kMaxTurns = 8;

  explicit MaskThread(int64_t turn_steps) : turn_steps_(turn_steps) {}
  ~MaskThread() {
    {
      std::lock_guard lock(mutex_);
      quit_ = true;
    }
    wake_.notify_one();
    if (thread_.joinable()) thread_.join();
  }

  struct Task {
    Slot* slot;
    bool may_wait;       // another step will do
    int turns_late = 0;  // after the forward pass
  };

  // Prepares the draws of slots that nobody else touches while it lives. One at a time, by the dispatcher.
  class Work {
   public:
    Work(MaskThread& owner, std::deque<Task> tasks) : owner_(owner), any_(!tasks.empty()) {
      if (any_) owner_.start(std::move(tasks));
    }
    ~Work() {
      if (any_) owner_.finish();
    }
    Work(const Work&) = delete;

   private:
    MaskThread& owner_;
    bool any_;
  };

 private:
  void start(std::deque<Task> tasks) {
    {
      std::lock_guard lock(mutex_);
      tasks_ = std::move(tasks);
      is_late_ = false;
    }
    try {
      if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
    } catch (const std::exception&) {
      // No thread to be had: finish() makes all of them.
    }
    wake_.notify_one();
  }

  void finish() {
    // Not under the lock, which a thread of short turns hardly leaves to others.
    is_late_ = true;
    std::unique_lock lock(mutex_);
    take(lock);
    idle_.wait(lock, [this] { return !busy_; });
  }

  void take(std::unique_lock<std::mutex>& lock) {
    while (!tasks_.empty()) {
      Task task = tasks_.front();
      tasks_.pop_front();
      if (is_late_ && task.may_wait && ++task.turns_late > kMaxTurns) continue;
      lock.unlock();
      grammar::Turn turn(turn_steps_);
      const bool is_done = task.slot->prepare(turn);
      lock.lock();
      if (!is_done) tasks_.push_back(task);
    }
  }

  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [this] { return quit_ || !tasks_.empty(); });
      if (quit_) return;
      busy_ = true;
      take(lock);
      busy_ = false;
      idle_.notify_one();
    }
  }

  const int64_t turn_steps_;
  std::mutex mutex_;
  std::condition_variable wake_, idle_;
  std::deque<Task> tasks_;             // first those whose turn it is
  std::atomic<bool> is_late_ = false;  // the forward pass has ended
  bool busy_ = false, quit_ = false;
  std::thread thread_;
};

}  // namespace anneal::inference
