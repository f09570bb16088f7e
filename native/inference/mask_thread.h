// Makes the masks of a step's rows on a thread of its own, while the workers run the forward pass. What is not done
// when that ends is shared with the dispatcher. One thread for all rows: those of one grammar would only wait for each
// other.
#pragma once
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

#include "slot.h"

namespace anneal::inference {

class MaskThread {
 public:
  ~MaskThread() {
    {
      std::lock_guard lock(mutex_);
      quit_ = true;
    }
    wake_.notify_one();
    if (thread_.joinable()) thread_.join();
  }

  // Prepares the draws of slots that nobody else touches while it lives. One at a time, by the dispatcher.
  class Work {
   public:
    Work(MaskThread& owner, std::vector<Slot*> slots) : owner_(owner), any_(!slots.empty()) {
      if (any_) owner_.start(std::move(slots));
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
  void start(std::vector<Slot*> slots) {
    {
      std::lock_guard lock(mutex_);
      slots_ = std::move(slots);
      next_ = 0;
    }
    try {
      if (!thread_.joinable()) thread_ = std::thread([this] { run(); });
    } catch (const std::exception&) {
      // No thread to be had: finish() makes all of them.
    }
    wake_.notify_one();
  }

  void finish() {
    std::unique_lock lock(mutex_);
    take(lock);
    idle_.wait(lock, [this] { return !busy_; });
  }

  void take(std::unique_lock<std::mutex>& lock) {
    while (next_ < slots_.size()) {
      Slot* const slot = slots_[next_++];
      lock.unlock();
      slot->prepare();
      lock.lock();
    }
  }

  void run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      wake_.wait(lock, [this] { return quit_ || next_ < slots_.size(); });
      if (quit_) return;
      busy_ = true;
      take(lock);
      busy_ = false;
      idle_.notify_one();
    }
  }

  std::mutex mutex_;
  std::condition_variable wake_, idle_;
  std::vector<Slot*> slots_;
  size_t next_ = 0;
  bool busy_ = false, quit_ = false;
  std::thread thread_;
};

}  // namespace anneal::inference
