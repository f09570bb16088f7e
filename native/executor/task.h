// Pieces of work that threads take from queues.
#pragma once
#include <atomic>
#include <cstdint>
#include <memory>

namespace anneal::executor {

enum class Queue : uint8_t { inference, training };

// A flag shared by everyone who may end a task early, and how far the task has come (0..1).
struct Control {
  std::atomic<bool> aborted{false};
  std::atomic<double> progress{0};
};

// A piece of work. `run` is called once on the dispatcher unless the task was aborted before; then `finish` is called
// once, on the dispatcher or on the thread that aborted it. A task dropped with its owner gets no `finish`.
class Task {
 public:
  virtual ~Task() = default;
  virtual void run() = 0;
  virtual void finish() = 0;

  Queue queue = Queue::training;
  const void* owner = nullptr;
  std::shared_ptr<Control> control = std::make_shared<Control>();
};

}  // namespace anneal::executor
