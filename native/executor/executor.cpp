#include "executor.h"

#include <algorithm>
#include <chrono>
#include <system_error>
#include <utility>

#include "float_mode.h"
#include "machine.h"

namespace anneal::executor {

namespace {

constexpr int kMaxThreads = 256;
// Gaps between the loops of one step are a few microseconds; after this long a worker sleeps, so that a busy neighbour
// gets the core.
constexpr int64_t kSpinNs = 30'000;

// What training gets after a step: that step's time, less what it may take to reach the next point where it gives way,
// but something in any case.
int64_t training_time(int64_t step_ns) {
  constexpr int64_t kSlackNs = 50'000;
  return std::max(step_ns - kSlackNs, step_ns / 2);
}

// After a step of inference the application's own thread hands out its tokens and asks for the next step.
constexpr int64_t kDeliveryNs = 2'000'000;

int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Set while this thread works for an interrupting task: what it does then is not interrupted again.
thread_local bool inner = false;

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
  // Reached from every thread of the process that loads the addon; the executor itself lives as long as one of them
  // holds it.
  static std::mutex mutex;
  static std::weak_ptr<Executor> current;
  std::lock_guard lock(mutex);
  auto executor = current.lock();
  if (!executor) current = executor = std::make_shared<Executor>(usable_cores());
  return executor;
}

Executor::Executor(int threads) : wanted_(std::clamp(threads, 1, kMaxThreads)) {
  running_.reserve(2);  // a task, and one that interrupts it: the dispatcher must not run out of memory between tasks
  try {
    dispatcher_.emplace([this] { dispatch(); });
  } catch (const std::system_error&) {
    throw NoThreads();
  }
}

Executor::~Executor() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  dispatcher_->join();
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
  ring();
  wake_resting();
  for (auto& thread : threads_) thread.join();
  threads_.clear();
  quit_ = false;
  // Told before the first of them starts; loops begin only after the last one has, or could not.
  workers_ = threads;
  no_core_to_spare_ = threads > 1 && threads >= usable_cores();
  int started = 1;
  try {
    threads_.reserve(size_t(threads));
    for (; started < threads; ++started) threads_.emplace_back([this, worker = started] { work(worker); });
  } catch (const std::exception&) {  // std::system_error, or no memory for the thread's own
    workers_ = started;
    wanted_.compare_exchange_strong(threads, started);
  }
}

// ---- tasks

void Executor::submit(std::unique_ptr<Task> task) {
  {
    std::lock_guard lock(mutex_);
    const Queue queue = task->queue;
    queues_[int(queue)].push_back(std::move(task));  // may take memory: nothing is counted where there is none
    if (queue == Queue::inference) waiting_inference_.fetch_add(1);
  }
  wake_.notify_all();
  bell_.fetch_add(1);
  bell_.notify_all();
}

template <class F> std::vector<std::unique_ptr<Task>> Executor::take_waiting(F&& wanted) {
  std::vector<std::unique_ptr<Task>> taken;
  for (auto& queue : queues_) {
    for (auto& task : queue)
      if (wanted(*task)) taken.push_back(std::move(task));
    std::erase(queue, nullptr);
  }
  for (const auto& task : taken)
    if (task->queue == Queue::inference) waiting_inference_.fetch_sub(1);
  return taken;
}

void Executor::abort(const std::shared_ptr<Control>& control) {
  control->aborted = true;
  std::vector<std::unique_ptr<Task>> gone;
  {
    std::lock_guard lock(mutex_);
    gone = take_waiting([&](const Task& task) { return task.control == control; });
  }
  for (auto& task : gone) task->finish();
}

void Executor::drop(const void* owner) {
  std::vector<std::unique_ptr<Task>> gone;
  std::unique_lock lock(mutex_);
  gone = take_waiting([&](const Task& task) { return task.owner == owner; });
  running_.abort_all_of(owner, lock);
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
  claim_fast_cores();
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
    running_.begin(*task);
    lock.unlock();
    run_task(std::move(task));
    lock.lock();
  }
}

// Called with the task's entry already in running_: drop() waits for it, so `finish` is never called for an owner that
// is gone.
void Executor::run_task(std::unique_ptr<Task> task) {
  Task* const outer = std::exchange(current_, task.get());
  const Task* const id = task.get();
  const bool inference = task->queue == Queue::inference;
  if (depth_ == 0) training_ = !inference;
  const int64_t start = now_ns();
  if (!task->control->aborted) task->run();
  task->finish();
  task.reset();
  current_ = outer;
  {
    std::lock_guard lock(mutex_);
    running_.end(id);
    if (inference) {
      const int64_t end = now_ns();
      training_until_ = end + training_time(end - start);
      rest_until_ = end + kDeliveryNs;
    }
  }
}

bool Executor::should_yield() const {
  return waiting_inference_.load(std::memory_order_relaxed) > 0 &&
         now_ns() >= training_until_.load(std::memory_order_relaxed);
}

void Executor::interrupt() {
  std::unique_lock lock(mutex_);
  if (queues_[0].empty()) return;
  auto task = std::move(queues_[0].front());
  queues_[0].pop_front();
  waiting_inference_.fetch_sub(1);
  running_.begin(*task);
  lock.unlock();
  depth_ = 1;
  run_task(std::move(task));
  depth_ = 0;
  if (helping_.exchange(false)) ring();
}

bool Executor::may_give_way() const {
  return current_ && current_->queue == Queue::training && !current_->control->aborted;
}

void Executor::give_way() {
  if (!may_give_way()) return;
  while (!current_->control->aborted && should_yield()) interrupt();
}

bool Executor::checkpoint() {
  give_way();
  return !current_ || !current_->control->aborted;
}

void Executor::preemption_point(int worker) {
  if (worker == 0) {
    give_way();
  } else {
    help(worker);
  }
}

// ---- loops

bool Executor::run(int64_t chunks, ChunkFn fn, void* context) {
  if (!checkpoint()) return false;
  Loop& loop = loops_[depth_];
  loop.fn = fn;
  loop.context = context;
  loop.chunks = chunks;
  loop.aborted = current_ ? &current_->control->aborted : nullptr;
  loop.next.store(0, std::memory_order_relaxed);
  const bool shared = workers_ > 1 && chunks > 1;
  if (shared) {
    loop.open.store(true);
    if (depth_ > 0) helping_.store(true);
    ring();
    if (!training_ || depth_ > 0) wake_resting();
  }
  take_chunks(loop, 0);
  if (shared) close(loop);
  if (loop.failed.load()) {
    std::lock_guard lock(loop.failure_mutex);
    loop.failed = false;
    std::rethrow_exception(std::exchange(loop.failure, nullptr));
  }
  return !loop.aborted || !loop.aborted->load();
}

void Executor::take_chunks(Loop& loop, int worker) {
  try {
    for (;;) {
      if (&loop == &loops_[0]) {
        preemption_point(worker);
        if (should_rest(worker)) return;
      }
      if (loop.failed.load(std::memory_order_relaxed)) return;
      if (loop.aborted && loop.aborted->load(std::memory_order_relaxed)) return;
      const int64_t chunk = loop.next.fetch_add(1);
      if (chunk >= loop.chunks) return;
      loop.fn(loop.context, chunk, worker);
    }
  } catch (...) {
    std::lock_guard lock(loop.failure_mutex);
    if (!loop.failure) loop.failure = std::current_exception();
    loop.failed = true;
  }
}

// Enter first, then look: a loop is rewritten only after it was closed and everyone had left.
void Executor::enter(Loop& loop, int worker) {
  loop.inside.fetch_add(1);
  if (loop.open.load()) take_chunks(loop, worker);
  if (loop.inside.fetch_sub(1) == 1) {
    bell_.fetch_add(1);
    bell_.notify_all();
  }
}

// The dispatcher waits for the workers' last chunks, and meanwhile for inference.
void Executor::close(Loop& loop) {
  loop.open.store(false);
  for (;;) {
    const uint32_t seen = bell_.load();
    if (loop.inside.load() == 0) return;
    if (may_give_way() && waiting_inference_.load() > 0) {
      give_way();
      spin_pause();
    } else {
      wait_change(bell_, seen);
    }
  }
}

// Takes part in the loops of a task that interrupts until that ends.
void Executor::help(int worker) {
  if (inner || !helping_.load(std::memory_order_relaxed)) return;
  inner = true;
  while (helping_.load()) {
    const uint32_t seen = epoch_.load();
    if (loops_[1].open.load()) enter(loops_[1], worker);
    if (helping_.load()) wait_change(epoch_, seen);
  }
  inner = false;
}

bool Executor::should_rest(int worker) const {
  return no_core_to_spare_ && worker == workers_ - 1 && training_.load() && !helping_.load() && !quit_.load() &&
         now_ns() < rest_until_.load();
}

// Where every core has a worker, the last one leaves its core to the application's thread while a chat goes on.
void Executor::rest(int worker) {
  if (!should_rest(worker)) return;
  std::unique_lock lock(rest_mutex_);
  resting_ = true;
  while (should_rest(worker))
    rest_.wait_for(lock, std::chrono::nanoseconds(std::max<int64_t>(1, rest_until_.load() - now_ns())));
  resting_ = false;
}

void Executor::wake_resting() {
  if (!resting_.load()) return;
  std::lock_guard lock(rest_mutex_);
  rest_.notify_all();
}

void Executor::ring() {
  epoch_.fetch_add(1);
  epoch_.notify_all();
}

void Executor::work(int worker) {
  FloatMode mode;
  claim_fast_cores();
  for (;;) {
    const uint32_t seen = epoch_.load();
    help(worker);
    rest(worker);
    enter(loops_[0], worker);
    if (quit_.load()) return;
    wait_change(epoch_, seen);
  }
}

}  // namespace anneal::executor
