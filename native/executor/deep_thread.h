// A thread whose stack does not depend on the system: musl's threads have 128 KiB, which some hundred levels of nested
// calls fill.
#pragma once
#ifdef _WIN32
#include <thread>
#else
#include <pthread.h>

#include <functional>
#include <memory>
#include <system_error>
#endif

namespace anneal::executor {

#ifdef _WIN32
using DeepThread = std::thread;  // 1 MiB, or what the program says
#else
class DeepThread {
 public:
  // Throws std::system_error where the system starts no further thread.
  explicit DeepThread(std::function<void()> body) {
    auto given = std::make_unique<std::function<void()>>(std::move(body));
    pthread_attr_t attributes;
    pthread_attr_init(&attributes);
    pthread_attr_setstacksize(&attributes, kStackBytes);
    const auto run = [](void* own) -> void* {
      (*std::unique_ptr<std::function<void()>>(static_cast<std::function<void()>*>(own)))();
      return nullptr;
    };
    const int error = pthread_create(&thread_, &attributes, run, given.get());
    pthread_attr_destroy(&attributes);
    if (error) throw std::system_error(error, std::generic_category(), "pthread_create");
    given.release();
  }
  DeepThread(const DeepThread&) = delete;
  // Once, before it goes.
  void join() { pthread_join(thread_, nullptr); }

 private:
  static constexpr size_t kStackBytes = size_t(8) << 20;
  pthread_t thread_;
};
#endif

}  // namespace anneal::executor
