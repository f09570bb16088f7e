// The tasks that threads are running, so that their owner can wait until none is. Used under the mutex of whoever runs
// them.
#pragma once
#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "task.h"

namespace anneal::executor {

class RunningTasks {
 public:
  // At most `most` at a time: begin() then takes no memory.
  void reserve(size_t most) { entries_.reserve(most); }
  void begin(const Task& task) { entries_.push_back({&task, task.owner, task.control}); }
  // The task itself may be gone.
  void end(const Task* task) {
    std::erase_if(entries_, [&](const Entry& entry) { return entry.task == task; });
    ended_.notify_all();
  }
  // Aborts the owner's, and waits for them without the lock.
  void abort_all_of(const void* owner, std::unique_lock<std::mutex>& lock) {
    ended_.wait(lock, [&] {
      bool busy = false;
      for (const Entry& entry : entries_)
        if (entry.owner == owner) {
          entry.control->aborted = true;
          busy = true;
        }
      return !busy;
    });
  }

 private:
  struct Entry {
    const Task* task;
    const void* owner;
    std::shared_ptr<Control> control;
  };
  std::vector<Entry> entries_;
  std::condition_variable ended_;
};

}  // namespace anneal::executor
