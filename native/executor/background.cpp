#include "background.h"

#include <algorithm>
#include <system_error>

#include "machine.h"

namespace anneal::executor {

namespace {

constexpr int kMinThreads = 2, kMaxThreads = 8;

}  // namespace

std::shared_ptr<Background> Background::shared() {
  static std::mutex mutex;
  static std::weak_ptr<Background> current;
  std::lock_guard lock(mutex);
  auto background = current.lock();
  if (!background)
    current = background = std::make_shared<Background>(std::clamp(usable_cores(), kMinThreads, kMaxThreads));
  return background;
}

Background::Background(int threads) : max_threads_(std::max(threads, kMinThreads)) {
  running_.reserve(size_t(max_threads_));
}

Background::~Background() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  for (auto& thread : threads_) thread.join();
}

void Background::submit(std::unique_ptr<Task> task, const std::string& name) {
  std::lock_guard lock(mutex_);
  if (idle_ <= waiting_ && int(threads_.size()) < max_threads_) start_thread();
  client(name)->waiting.push_back(std::move(task));
  ++waiting_;
  wake_.notify_one();
}

void Background::start_thread() {
  try {
    threads_.emplace_back([this] { work(); });
  } catch (const std::system_error&) {
    if (threads_.empty()) throw;
  }
}

Background::Clients::iterator Background::client(const std::string& name) {
  const auto known = std::find_if(clients_.begin(), clients_.end(), [&](const Client& c) { return c.name == name; });
  return known != clients_.end() ? known : clients_.emplace(clients_.end(), name);
}

// The work of the client whose turn it is, who goes to the end of the line. Null: those with work have all the threads
// they may have.
std::unique_ptr<Task> Background::next(Clients::iterator& turn) {
  turn = std::find_if(clients_.begin(), clients_.end(),
                      [&](const Client& c) { return !c.waiting.empty() && c.running < max_threads_ - 1; });
  if (turn == clients_.end()) return nullptr;
  auto task = std::move(turn->waiting.front());
  turn->waiting.pop_front();
  --waiting_;
  ++turn->running;
  clients_.splice(clients_.end(), clients_, turn);
  return task;
}

void Background::ended(Clients::iterator client, const Task* task) {
  running_.end(task);
  if (--client->running == 0 && client->waiting.empty()) clients_.erase(client);
}

void Background::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    Clients::iterator client;
    std::unique_ptr<Task> task;
    ++idle_;
    wake_.wait(lock, [&] { return stopping_ || (task = next(client)); });
    --idle_;
    if (!task) return;
    const Task* const id = task.get();
    running_.begin(*task);
    lock.unlock();
    if (!task->control->aborted) task->run();
    task->finish();
    // Before drop() goes on: what a task holds may belong to its owner.
    task.reset();
    lock.lock();
    ended(client, id);
  }
}

template <class F> std::vector<std::unique_ptr<Task>> Background::take_waiting(F&& wanted) {
  std::vector<std::unique_ptr<Task>> taken;
  for (auto& client : clients_) {
    for (auto& task : client.waiting)
      if (wanted(*task)) taken.push_back(std::move(task));
    waiting_ -= std::erase(client.waiting, nullptr);
  }
  std::erase_if(clients_, [](const Client& c) { return c.running == 0 && c.waiting.empty(); });
  return taken;
}

void Background::abort(const std::shared_ptr<Control>& control) {
  control->aborted = true;
  std::vector<std::unique_ptr<Task>> gone;
  {
    std::lock_guard lock(mutex_);
    gone = take_waiting([&](const Task& task) { return task.control == control; });
  }
  for (auto& task : gone) task->finish();
}

void Background::drop(const void* owner) {
  std::vector<std::unique_ptr<Task>> gone;
  std::unique_lock lock(mutex_);
  gone = take_waiting([&](const Task& task) { return task.owner == owner; });
  running_.abort_all_of(owner, lock);
}

}  // namespace anneal::executor
