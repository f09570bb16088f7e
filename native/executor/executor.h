// The process-wide executor: one dispatcher thread and a small pool that run all native work.
//
// Two queues. Inference tasks are short (one step); training tasks are long and give way to a waiting inference task
// between any two of their chunks. After an inference task that interrupted training, training runs for up to twice that
// task's time before the next one interrupts it: a chat's latency stays within three times its own, and training always
// gets on.
#pragma once
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "pool.h"

namespace anneal {

enum class Queue : uint8_t { inference, training };

// A flag shared by everyone who may end a task early, and how far the task has come (0..1).
struct Control {
  std::atomic<bool> aborted{false};
  std::atomic<double> progress{0};
};

// A piece of work. `run` is called once on the dispatcher unless the task was aborted before; then `finish` is called once, on the dispatcher or
// on the thread that aborted it. A task dropped with its owner gets no `finish`.
class Task {
 public:
  virtual ~Task() = default;
  virtual void run() = 0;
  virtual void finish() = 0;

  Queue queue = Queue::training;
  bool preemptible = true;          // training only
  const void* owner = nullptr;
  std::shared_ptr<Control> control = std::make_shared<Control>();
};

class Executor final : public Pool {
 public:
  // The executor of this process, made at first use and ended by whoever lets go last.
  static std::shared_ptr<Executor> shared();

  explicit Executor(int threads);
  ~Executor() override;

  void submit(std::unique_ptr<Task> task);
  // Sets the flag; tasks with it that have not begun finish at once, a running one at its next chunk.
  void abort(const std::shared_ptr<Control>& control);
  // Removes the owner's waiting tasks, aborts its running ones and waits until they have ended.
  void drop(const void* owner);
  // Lets the dispatcher let go of something between two tasks (so that no task is using it).
  void retire(std::shared_ptr<void> object);

  int threads() const { return wanted_.load(); }
  // Takes effect before the next task that does not interrupt another.
  void set_threads(int threads);

  int workers() const override { return workers_; }
  bool run(int64_t chunks, ChunkFn fn, void* context) override;
  // Long serial work of a task calls this now and then: runs waiting inference, returns false if the task was aborted. Dispatcher only.
  bool checkpoint();

 private:
  // One parallel loop. Rewritten only while it is closed and nobody is inside.
  struct Loop {
    ChunkFn fn = nullptr;
    void* context = nullptr;
    int64_t chunks = 0;
    bool preemptible = false;
    const std::atomic<bool>* aborted = nullptr;
    alignas(64) std::atomic<int64_t> next{0};
  };

  void dispatch();
  void work(int worker);
  void take_chunks(int worker);
  void join_loop();
  void close_loop();
  void resize(int threads);
  void run_task(std::unique_ptr<Task> task);
  void interrupt();
  bool should_yield() const;

  std::mutex mutex_;
  std::condition_variable wake_, ended_;
  std::deque<std::unique_ptr<Task>> queues_[2];
  struct Running { const void* owner; std::shared_ptr<Control> control; };
  std::vector<Running> running_;                    // innermost last
  std::vector<std::shared_ptr<void>> retired_;
  bool stopping_ = false;
  std::atomic<int> waiting_inference_{0};
  std::atomic<int> wanted_;
  std::atomic<int64_t> training_until_{0};          // ns; inference does not interrupt before

  Loop loop_;
  std::atomic<bool> open_{false}, quit_{false};
  alignas(64) std::atomic<int> inside_{0};
  alignas(64) std::atomic<uint32_t> epoch_{0};      // a new loop was opened, or workers must end
  std::mutex failure_mutex_;
  std::exception_ptr failure_;
  std::atomic<bool> failed_{false};

  Task* current_ = nullptr;                         // dispatcher only
  int workers_ = 1;
  std::vector<std::thread> threads_;
  std::thread dispatcher_;
};

}  // namespace anneal
