#include "executor.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "../kernels/kernels.h"
#include "machine.h"

namespace anneal {

namespace {

constexpr int kMaxThreads = 256;
// Gaps between the loops of one step are a few microseconds; after this long a worker sleeps, so that a busy neighbour gets the core.
constexpr int64_t kSpinNs = 30'000;

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

// Spins for a while, then sleeps, until `value` is no longer `old`.
template <class T> void wait_change(std::atomic<T>& value, T old) {
  const int64_t end = now_ns() + kSpinNs;
  while (value.load(std::memory_order_seq_cst) == old) {
    for (int i = 0; i < 32; ++i) spin_pause();
    if (now_ns() > end) {
      value.wait(old);
      return;
    }
  }
}

}  // namespace

std::shared_ptr<Executor> Executor::shared() {
  // Reached from every thread of the process that loads the addon; the executor itself lives as long as one of them holds it.
  static std::mutex mutex;
  static std::weak_ptr<Executor> current;
  std::lock_guard lock(mutex);
  auto executor = current.lock();
  if (!executor) current = executor = std::make_shared<Executor>(usable_cores());
  return executor;
}

Executor::Executor(int threads) : wanted_(std::clamp(threads, 1, kMaxThreads)) {
  resize(wanted_);
  dispatcher_ = std::thread([this] { dispatch(); });
}

Executor::~Executor() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  dispatcher_.join();
  resize(1);
}

void Executor::set_threads(int threads) {
  wanted_ = std::clamp(threads, 1, kMaxThreads);
  std::lock_guard lock(mutex_);
  wake_.notify_all();
}

void Executor::resize(int threads) {
  if (threads == workers_) return;
  quit_ = true;
  epoch_.fetch_add(1);
  epoch_.notify_all();
  for (auto& thread : threads_) thread.join();
  threads_.clear();
  quit_ = false;
  workers_ = threads;
  for (int worker = 1; worker < threads; ++worker) threads_.emplace_back([this, worker] { work(worker); });
}

// ---- tasks

void Executor::submit(std::unique_ptr<Task> task) {
  {
    std::lock_guard lock(mutex_);
    if (task->queue == Queue::inference) waiting_inference_.fetch_add(1);
    queues_[int(task->queue)].push_back(std::move(task));
  }
  wake_.notify_all();
}

void Executor::abort(const std::shared_ptr<Control>& control) {
  control->aborted = true;
  std::vector<std::unique_ptr<Task>> ended;
  {
    std::lock_guard lock(mutex_);
    for (auto& queue : queues_)
      for (auto task = queue.begin(); task != queue.end();) {
        if ((*task)->control != control) {
          ++task;
          continue;
        }
        if ((*task)->queue == Queue::inference) waiting_inference_.fetch_sub(1);
        ended.push_back(std::move(*task));
        task = queue.erase(task);
      }
  }
  for (auto& task : ended) task->finish();
}

void Executor::drop(const void* owner) {
  std::vector<std::unique_ptr<Task>> dropped;
  std::unique_lock lock(mutex_);
  for (auto& queue : queues_)
    for (auto task = queue.begin(); task != queue.end();) {
      if ((*task)->owner != owner) {
        ++task;
        continue;
      }
      if ((*task)->queue == Queue::inference) waiting_inference_.fetch_sub(1);
      dropped.push_back(std::move(*task));
      task = queue.erase(task);
    }
  ended_.wait(lock, [&] {
    bool busy = false;
    for (auto& task : running_)
      if (task.owner == owner) {
        task.control->aborted = true;
        busy = true;
      }
    return !busy;
  });
}

void Executor::retire(std::shared_ptr<void> object) {
  {
    std::lock_guard lock(mutex_);
    retired_.push_back(std::move(object));
  }
  wake_.notify_all();
}

void Executor::dispatch() {
  FloatMode mode;
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [&] {
      return stopping_ || !queues_[0].empty() || !queues_[1].empty() || !retired_.empty() || wanted_.load() != workers_;
    });
    if (!retired_.empty()) {
      auto gone = std::move(retired_);
      retired_.clear();
      lock.unlock();
      gone.clear();
      lock.lock();
      continue;
    }
    if (stopping_) return;
    if (const int wanted = wanted_; wanted != workers_) {
      lock.unlock();
      resize(wanted);
      lock.lock();
      continue;
    }
    // Training that was just interrupted has the word until its time is over, also between two of its tasks.
    const bool training_first = queues_[0].empty() || (!queues_[1].empty() && now_ns() < training_until_.load());
    auto& queue = queues_[training_first ? 1 : 0];
    auto task = std::move(queue.front());
    queue.pop_front();
    if (task->queue == Queue::inference) waiting_inference_.fetch_sub(1);
    running_.push_back({task->owner, task->control});
    lock.unlock();
    run_task(std::move(task));
    lock.lock();
  }
}

// Called with the task's entry already in running_: drop() waits for it, so `finish` is never called for an owner that is gone.
void Executor::run_task(std::unique_ptr<Task> task) {
  Task* const outer = std::exchange(current_, task.get());
  const bool inference = task->queue == Queue::inference;
  const int64_t start = now_ns();
  if (!task->control->aborted) task->run();
  task->finish();
  task.reset();
  current_ = outer;
  {
    std::lock_guard lock(mutex_);
    running_.pop_back();
    if (inference) training_until_ = now_ns() + 2 * (now_ns() - start);
  }
  ended_.notify_all();
}

bool Executor::should_yield() const {
  return waiting_inference_.load(std::memory_order_relaxed) > 0 && now_ns() >= training_until_.load(std::memory_order_relaxed);
}

void Executor::interrupt() {
  std::unique_lock lock(mutex_);
  if (queues_[0].empty()) return;
  auto task = std::move(queues_[0].front());
  queues_[0].pop_front();
  waiting_inference_.fetch_sub(1);
  running_.push_back({task->owner, task->control});
  lock.unlock();
  run_task(std::move(task));
}

bool Executor::checkpoint() {
  Task* const task = current_;
  if (!task) return true;
  if (task->queue == Queue::training && task->preemptible)
    while (!task->control->aborted && should_yield()) interrupt();
  return !task->control->aborted;
}

// ---- loops

bool Executor::run(int64_t chunks, ChunkFn fn, void* context) {
  if (!checkpoint()) return false;
  Task* const task = current_;
  const bool preemptible = task && task->queue == Queue::training && task->preemptible;
  const std::atomic<bool>* aborted = task ? &task->control->aborted : nullptr;
  int64_t next = 0;
  while (next < chunks) {
    loop_.fn = fn;
    loop_.context = context;
    loop_.chunks = chunks;
    loop_.preemptible = preemptible;
    loop_.aborted = aborted;
    loop_.next.store(next, std::memory_order_relaxed);
    const bool shared = workers_ > 1 && chunks - next > 1;
    if (shared) {
      open_.store(true);
      epoch_.fetch_add(1);
      epoch_.notify_all();
    }
    take_chunks(0);
    if (shared) close_loop();
    // Chunks are taken in order and every one taken was run: the rest starts where the counter stands.
    next = std::min(chunks, loop_.next.load());
    if (failed_.load()) {
      std::lock_guard lock(failure_mutex_);
      failed_ = false;
      std::rethrow_exception(std::exchange(failure_, nullptr));
    }
    if (aborted && aborted->load()) return false;
    if (next < chunks) interrupt();
  }
  return true;
}

void Executor::take_chunks(int worker) {
  Loop& loop = loop_;
  try {
    for (;;) {
      if (failed_.load(std::memory_order_relaxed)) return;
      if (loop.aborted && loop.aborted->load(std::memory_order_relaxed)) return;
      if (loop.preemptible && should_yield()) return;
      const int64_t chunk = loop.next.fetch_add(1);
      if (chunk >= loop.chunks) return;
      loop.fn(loop.context, chunk, worker);
    }
  } catch (...) {
    std::lock_guard lock(failure_mutex_);
    if (!failure_) failure_ = std::current_exception();
    failed_ = true;
  }
}

void Executor::close_loop() {
  open_.store(false);
  for (int inside = inside_.load(); inside != 0; inside = inside_.load()) wait_change(inside_, inside);
}

void Executor::work(int worker) {
  FloatMode mode;
  uint32_t seen = epoch_.load();
  for (;;) {
    // Enter first, then look: a loop is rewritten only after it was closed and everyone had left.
    inside_.fetch_add(1);
    if (open_.load()) take_chunks(worker);
    if (inside_.fetch_sub(1) == 1) inside_.notify_all();
    if (quit_.load()) return;
    wait_change(epoch_, seen);
    seen = epoch_.load();
  }
}

}  // namespace anneal
