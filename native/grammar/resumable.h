// Work in turns: a coroutine that pauses where its turn is spent, and goes on from there in another one.
#pragma once
#include <coroutine>
#include <cstdint>
#include <exception>
#include <utility>

namespace anneal::grammar {

// So many steps, each of some ten nanoseconds.
class Turn {
 public:
  static constexpr int64_t kWhole = INT64_MAX;  // all there is to do

  explicit Turn(int64_t steps) : left_(steps) {}
  int64_t left() const { return left_; }
  bool is_over() const { return left_ <= 0; }
  void spend(uint64_t steps) { left_ -= int64_t(steps); }

 private:
  int64_t left_;
};

// What a coroutine comes to. It begins when it is awaited by another one, or run().
template <class T> class [[nodiscard]] Resumable {
 public:
  struct promise_type {
    std::coroutine_handle<> awaiting = std::noop_coroutine();
    std::exception_ptr error;
    T value{};

    struct End {
      bool await_ready() noexcept { return false; }
      std::coroutine_handle<> await_suspend(std::coroutine_handle<promise_type> ended) noexcept {
        return ended.promise().awaiting;
      }
      void await_resume() noexcept {}
    };
    Resumable get_return_object() { return Resumable(std::coroutine_handle<promise_type>::from_promise(*this)); }
    std::suspend_always initial_suspend() noexcept { return {}; }
    End final_suspend() noexcept { return {}; }
    void return_value(T result) { value = std::move(result); }
    void unhandled_exception() { error = std::current_exception(); }
  };

  Resumable(Resumable&& other) noexcept : handle_(std::exchange(other.handle_, nullptr)) {}
  Resumable& operator=(Resumable&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Resumable() {
    if (handle_) handle_.destroy();
  }

  bool await_ready() const noexcept { return false; }
  std::coroutine_handle<> await_suspend(std::coroutine_handle<> awaiting) noexcept {
    handle_.promise().awaiting = awaiting;
    return handle_;
  }
  T await_resume() { return result(); }

  std::coroutine_handle<> handle() const { return handle_; }
  bool is_done() const { return handle_.done(); }
  // Throws what the coroutine has thrown.
  T result() {
    if (handle_.promise().error) std::rethrow_exception(handle_.promise().error);
    return std::move(handle_.promise().value);
  }

 private:
  explicit Resumable(std::coroutine_handle<promise_type> handle) : handle_(handle) {}
  std::coroutine_handle<promise_type> handle_;
};

// Where coroutines of one thread at a time pause.
class Pauses {
 public:
  // Goes on at `at`, the beginning or where it paused last, until the work is done or the turn over. Whether it is
  // done.
  template <class T> bool run(const Resumable<T>& work, std::coroutine_handle<>& at, Turn& turn) {
    turn_ = &turn;
    at.resume();
    at = paused_;
    return work.is_done();
  }

  // Within run().
  Turn& turn() { return *turn_; }
  // To be awaited now and then.
  auto pause() {
    struct Pause {
      Pauses& pauses;
      bool await_ready() const noexcept { return !pauses.turn_->is_over(); }
      void await_suspend(std::coroutine_handle<> at) noexcept { pauses.paused_ = at; }
      void await_resume() const noexcept {}
    };
    return Pause{*this};
  }

 private:
  Turn* turn_ = nullptr;
  std::coroutine_handle<> paused_;
};

}  // namespace anneal::grammar
