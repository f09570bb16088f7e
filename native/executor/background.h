// Threads for long serial work that neither steps nor training may wait for, and that waits for neither: compiling
// grammars.
//
// Clients take turns, each with its own work in the order it came, and none holds all threads: whoever asks for a
// hundred long pieces of work delays another by one piece at most.
#pragma once
#include <condition_variable>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "deep_thread.h"
#include "running_tasks.h"

namespace anneal::executor {

class Background {
 public:
  // That of this process, made at first use and ended by whoever lets go last.
  static std::shared_ptr<Background> shared();

  // Threads start when there is work for them; where the system refuses one, those that run go on alone.
  explicit Background(int threads);
  ~Background();
  Background(const Background&) = delete;

  // Throws std::system_error where there is no thread and none can be started; the task is then gone, without its
  // `finish`.
  void submit(std::unique_ptr<Task> task, const std::string& client);
  // Sets the flag; tasks with it that have not begun finish at once, a running one where it looks at the flag.
  void abort(const std::shared_ptr<Control>& control);
  // Removes the owner's waiting tasks, aborts its running ones and waits until they have ended.
  void drop(const void* owner);

 private:
  struct Client {
    explicit Client(std::string name_) : name(std::move(name_)) {}
    std::string name;
    std::deque<std::unique_ptr<Task>> waiting;
    int running = 0;
  };
  using Clients = std::list<Client>;

  void work();
  void start_thread();
  Clients::iterator client(const std::string& name);
  std::unique_ptr<Task> next(Clients::iterator& turn);
  void ended(Clients::iterator client, const Task* task);
  template <class F> std::vector<std::unique_ptr<Task>> take_waiting(F&& wanted);

  const int max_threads_;
  std::mutex mutex_;
  std::condition_variable wake_;
  Clients clients_;  // with waiting or running work; whose turn it is comes first
  RunningTasks running_;
  size_t waiting_ = 0, idle_ = 0;  // tasks; threads
  bool stopping_ = false;
  std::list<DeepThread> threads_;
};

}  // namespace anneal::executor
