// The executor where the system gives it less than it asks for, and what it promises about interruption and abort.
#include "executor.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include <cstdio>
#include <fstream>
#include <string>

#include "../expect_fixture.h"
#include "background.h"
#include "machine.h"

using namespace anneal::executor;
using anneal::expect;

namespace {

class TestTask final : public Task {
 public:
  TestTask(Queue q, std::function<void()> run, std::function<void()> finish)
      : run_(std::move(run)), finish_(std::move(finish)) {
    queue = q;
  }
  void run() override { run_(); }
  void finish() override { finish_(); }

 private:
  std::function<void()> run_, finish_;
};

// Runs a task and waits until it has finished.
void run(Executor& executor, Queue queue, std::function<void()> work) {
  std::atomic<bool> done{false};
  executor.submit(std::make_unique<TestTask>(queue, std::move(work), [&] {
    done = true;
    done.notify_all();
  }));
  done.wait(false);
}

// The sum of 0..chunks-1, computed by all workers.
int64_t sum(Executor& executor, int64_t chunks) {
  std::atomic<int64_t> total{0};
  run(executor, Queue::training, [&] { executor.each(chunks, [&](int64_t chunk, int) { total += chunk; }); });
  return total;
}

// Bytes of a field of statm: 0 all of the address space, 5 what may be written to there.
int64_t taken(int field) {
  std::ifstream in("/proc/self/statm");
  int64_t pages = 0;
  for (int i = 0; i <= field; i++) in >> pages;
  return pages * 4096;
}

int64_t address_space() { return taken(0); }

/** An emulator such as qemu's takes a limit and does not keep it. */
bool limits_hold() {
  rlimit before{};
  getrlimit(RLIMIT_AS, &before);
  rlimit little = before;
  little.rlim_cur = rlim_t(address_space());
  setrlimit(RLIMIT_AS, &little);
  void* beyond = mmap(nullptr, size_t(1) << 20, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  setrlimit(RLIMIT_AS, &before);
  if (beyond == MAP_FAILED) return true;
  munmap(beyond, size_t(1) << 20);
  return false;
}

void little_memory() {
  constexpr int64_t kLeft = int64_t(64) << 20;
  expect(available_memory() > kLeft, "more is there than the limits to come leave");
  struct Limit {
    int resource, field;
  };
  for (const auto [resource, field] : {Limit{RLIMIT_AS, 0}, Limit{RLIMIT_DATA, 5}}) {
    rlimit before{};
    getrlimit(resource, &before);
    rlimit little = before;
    little.rlim_cur = rlim_t(taken(field) + kLeft);
    setrlimit(resource, &little);
    const int64_t available = available_memory();
    setrlimit(resource, &before);
    expect(available <= kLeft, "a limit of the process leaves less: " + std::to_string(available));
    expect(available >= kLeft / 2, "and not nothing: " + std::to_string(available));
  }
}

// Before the process has had any thread, whose stack could serve again.
void no_thread() {
  rlimit before{};
  getrlimit(RLIMIT_AS, &before);
  rlimit little = before;
  little.rlim_cur = rlim_t(address_space() + (int64_t(1) << 20));
  setrlimit(RLIMIT_AS, &little);
  bool refused = false;
  try {
    Executor executor(2);
  } catch (const NoThreads&) {
    refused = true;
  }
  setrlimit(RLIMIT_AS, &before);
  expect(refused, "an executor without any thread is a typed error");
}

void few_threads() {
  // Room for the stacks of a few threads.
  rlimit before{};
  getrlimit(RLIMIT_AS, &before);
  rlimit little = before;
  little.rlim_cur = rlim_t(address_space() + (int64_t(48) << 20));
  {
    Executor executor(1);
    setrlimit(RLIMIT_AS, &little);
    executor.set_threads(64);
    expect(sum(executor, 1000) == 499500, "sum with fewer threads than asked for");
    const int threads = executor.threads();
    expect(threads >= 1 && threads < 64, "goes on with the threads that started: " + std::to_string(threads));
    expect(executor.workers() == threads, "workers are those that started");
    expect(sum(executor, 100) == 4950, "and once more");
    setrlimit(RLIMIT_AS, &before);
    executor.set_threads(threads + 2);
    expect(sum(executor, 1000) == 499500, "sum after there is room again");
    expect(executor.threads() == threads + 2, "starts more when there is room again");
  }
}

void failures_of_chunks() {
  Executor executor(4);
  bool caught = false;
  run(executor, Queue::training, [&] {
    try {
      executor.each(100, [&](int64_t chunk, int) {
        if (chunk == 57) throw std::bad_alloc();
      });
    } catch (const std::bad_alloc&) {
      caught = true;
    }
  });
  expect(caught, "a chunk's exception is thrown where the loop was started");
  expect(sum(executor, 10) == 45, "and the executor goes on");
}

void interruption() {
  Executor executor(2);
  std::atomic<bool> started{false}, go_on{false}, done{false};
  std::atomic<int> order{0}, inference_at{0}, training_at{0};
  executor.submit(std::make_unique<TestTask>(
      Queue::training,
      [&] {
        executor.each(4, [&](int64_t, int) {
          started = true;
          while (!go_on) std::this_thread::yield();
        });
        training_at = ++order;
      },
      [&] {
        done = true;
        done.notify_all();
      }));
  while (!started) std::this_thread::yield();
  executor.submit(std::make_unique<TestTask>(
      Queue::inference, [&] { inference_at = ++order; }, [] {}));
  go_on = true;
  done.wait(false);
  expect(inference_at == 1 && training_at == 2, "a step interrupts training between its chunks");
}

#ifdef __GLIBC__
// Nested calls, as a compiled grammar has them.
[[gnu::noinline]] int64_t descend(int levels) {
  volatile char frame[1024] = {};
  return levels == 0 ? frame[0] : descend(levels - 1) + 1 + frame[levels % 1024];
}

// Where threads get no more than musl gives them.
void deep_stacks() {
  pthread_attr_t before, small;
  pthread_getattr_default_np(&before);
  pthread_attr_init(&small);
  pthread_attr_setstacksize(&small, size_t(128) << 10);
  pthread_setattr_default_np(&small);
  std::atomic<int64_t> levels{-1};
  {
    Background background(1);
    background.submit(std::make_unique<TestTask>(
                          Queue::training, [&] { levels = descend(2000); }, [&] { levels.notify_all(); }),
                      "");
    levels.wait(-1);
  }
  expect(levels == 2000, "long serial work has a stack of its own size");
  Executor executor(1);
  run(executor, Queue::training, [&] { levels = descend(3000); });
  expect(levels == 3000, "and so has the dispatcher");
  pthread_setattr_default_np(&before);
  pthread_attr_destroy(&before), pthread_attr_destroy(&small);
}
#endif

}  // namespace

int main() {
  expect(whole_cores(0.3) == 1 && whole_cores(1) == 1 && whole_cores(1.5) == 1 && whole_cores(2.9) == 2 &&
             whole_cores(8) == 8,
         "a quota is rounded down");
  expect(usable_cores() >= 1, "at least one core");
  if (limits_hold()) {
    little_memory();
    no_thread();
    few_threads();
  } else {
    std::printf("limits of memory are not kept here\n");
  }
  failures_of_chunks();
  interruption();
#ifdef __GLIBC__
  deep_stacks();
#endif
  return anneal::report_failures();
}
