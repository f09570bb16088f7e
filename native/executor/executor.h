// The process-wide executor: one dispatcher thread and a small pool that run all native work.
//
// Two queues. Inference tasks are short (one step); training tasks are long and give way to a waiting inference task
// between their chunks and at every preemption point. The dispatcher then runs the inference task on top of what it was
// doing; the workers, each at its own next such point, help if that task has loops to share, and otherwise go on
// training. After an inference task training runs for as long as that took before the next one interrupts it: a chat
// takes twice its own time at the median, within three times where a chunk runs late, and training always gets on.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <thread>
#include <vector>

#include "deep_thread.h"
#include "pool.h"
#include "running_tasks.h"

namespace anneal::executor {

// The system starts no further thread: its limit of processes or of memory is reached.
struct NoThreads : std::runtime_error {
  NoThreads()
      : std::runtime_error("no thread can be started: the system's limit of processes or of memory is reached") {}
};

class Executor final : public Pool {
 public:
  // The executor of this process, made at first use and ended by whoever lets go last.
  static std::shared_ptr<Executor> shared();

  // Throws NoThreads when not even the dispatcher can start. Workers that cannot start are done without.
  explicit Executor(int threads);
  ~Executor() override;

  void submit(std::unique_ptr<Task> task);
  // Sets the flag; tasks with it that have not begun finish at once, a running one at its next chunk.
  void abort(const std::shared_ptr<Control>& control);
  // Removes the owner's waiting tasks, aborts its running ones and waits until they have ended.
  void drop(const void* owner);
  // Lets the dispatcher let go of something between two tasks (so that no task is using it).
  void retire(std::shared_ptr<void> object);

  // As many as were asked for, or as many as could be started.
  int threads() const { return wanted_.load(); }
  // Takes effect before the next task that does not interrupt another.
  void set_threads(int threads);

  int workers() const override { return workers_; }
  bool run(int64_t chunks, ChunkFn fn, void* context) override;
  void preemption_point(int worker) override;
  // Long serial work of a task calls this now and then: runs waiting inference, returns false if the task was aborted.
  // Dispatcher only.
  bool checkpoint();

 private:
  // One parallel loop. Rewritten only while it is closed and nobody is inside.
  struct Loop {
    ChunkFn fn = nullptr;
    void* context = nullptr;
    int64_t chunks = 0;
    const std::atomic<bool>* aborted = nullptr;
    std::atomic<bool> open{false};
    alignas(64) std::atomic<int64_t> next{0};
    alignas(64) std::atomic<int> inside{0};
    std::mutex failure_mutex;
    std::exception_ptr failure;
    std::atomic<bool> failed{false};
  };

  void dispatch();
  void work(int worker);
  void enter(Loop& loop, int worker);
  void take_chunks(Loop& loop, int worker);
  void close(Loop& loop);
  void help(int worker);
  bool should_rest(int worker) const;
  void rest(int worker);
  void wake_resting();
  void ring();
  void resize(int threads);
  template <class F> std::vector<std::unique_ptr<Task>> take_waiting(F&& wanted);
  void run_task(std::unique_ptr<Task> task);
  void interrupt();
  // Dispatcher only.
  bool should_yield() const;
  bool may_give_way() const;
  void give_way();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::unique_ptr<Task>> queues_[2];
  RunningTasks running_;
  std::vector<std::shared_ptr<void>> retired_;
  bool stopping_ = false;
  std::atomic<int> waiting_inference_{0};
  std::atomic<int> wanted_;
  std::atomic<int64_t> training_until_{0};  // ns; inference does not interrupt before

  Loop loops_[2];                      // of the outer task, and of one that interrupts it
  std::atomic<bool> helping_{false};   // workers stay with the interrupting task until it ends
  std::atomic<bool> training_{false};  // the outer task is one of training
  std::atomic<bool> quit_{false};
  alignas(64) std::atomic<uint32_t> epoch_{0};  // rung for workers: a loop was opened, helping or the pool ends
  alignas(64) std::atomic<uint32_t> bell_{0};  // rung for the dispatcher: a worker left a loop, an inference task waits

  std::mutex rest_mutex_;
  std::condition_variable rest_;
  std::atomic<bool> resting_{false};
  std::atomic<int64_t> rest_until_{0};  // ns
  std::atomic<bool> no_core_to_spare_{false};

  std::atomic<int> workers_{1};  // written by the dispatcher, when no worker is in a loop
  // Dispatcher only.
  Task* current_ = nullptr;
  int depth_ = 0;  // 1 while a task interrupts another
  std::vector<std::thread> threads_;
  std::optional<DeepThread> dispatcher_;  // drivers of GPUs compile shaders on it
};

}  // namespace anneal::executor
