// One Node environment (the main thread, or a worker thread): its calls in flight, and how their results get home.
#pragma once
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <type_traits>
#include <vector>

#include "../backends/backend.h"
#include "../executor/background.h"
#include "../executor/executor.h"
#include "js.h"

namespace anneal::addon {

using executor::Executor;
using executor::Queue;

// Why a call ended early.
struct CallControl : executor::Control {
  std::atomic<bool> closed{false};  // its model, trainer or pass was closed
};

// One asynchronous call: work on another thread, then a promise settled on the JavaScript thread.
struct Call {
  std::function<void()> work;            // may throw Failure, FileError, std::exception
  std::function<napi_value(Js)> settle;  // makes the result; may throw Failure
  std::shared_ptr<CallControl> control;
  napi_deferred deferred = nullptr;
  std::optional<Failure> failure;
  bool ran = false;
  bool out_of_memory = false;  // said without taking any
  std::shared_ptr<Call> next;  // in its port
};

// Finished calls on their way to the JavaScript thread.
class Port {
 public:
  void post(std::shared_ptr<Call> call) noexcept;
  std::shared_ptr<Call> take();
  void close();

 private:
  friend class Environment;
  std::mutex mutex_;
  std::shared_ptr<Call> first_, last_;  // a list through the calls themselves: posting one takes no memory
  napi_threadsafe_function wake_ = nullptr;
  bool closed_ = false;
};

// The calls that end when something is closed.
class Pending {
 public:
  void add(const std::shared_ptr<CallControl>& control);
  void close(Executor& executor);

 private:
  std::vector<std::weak_ptr<CallControl>> controls_;
};

enum Class : int {
  kModelClass,
  kTrainerClass,
  kPassClass,
  kCancellationClass,
  kGrammarVocabularyClass,
  kCompiledGrammarClass,
  kGrammarMatcherClass,
  kClasses
};

// Used on its JavaScript thread only.
class Environment {
 public:
  explicit Environment(napi_env env);
  static std::shared_ptr<Environment> of(napi_env env);

  const std::shared_ptr<Executor>& executor();
  const std::shared_ptr<executor::Background>& background();
  // Ends the calls of a control wherever they wait or run.
  void abort(const std::shared_ptr<CallControl>& control);

  struct Options {
    Queue queue = Queue::training;
    std::shared_ptr<CallControl> control;  // null: one of its own
    std::vector<Pending*> pending;         // lists the call belongs to
    std::optional<std::string> client;  // the work runs in the background, in this one's turn; else on the dispatcher
  };
  // Returns the promise of settle(js, what work() returned): that on the JavaScript thread, the work on another.
  template <class Work, class Settle> napi_value start(const Options& options, Work work, Settle settle) {
    using Result = std::invoke_result_t<Work&>;
    if constexpr (std::is_void_v<Result>) {
      return start_call(options, std::move(work), std::move(settle));
    } else {
      auto result = std::make_shared<std::optional<Result>>();
      return start_call(
          options, [result, work = std::move(work)] { result->emplace(work()); },
          [result, settle = std::move(settle)](Js js) { return settle(js, std::move(**result)); });
    }
  }
  // Of nothing.
  template <class Work> napi_value start(const Options& options, Work work) {
    return start_call(options, std::move(work), [](Js js) { return js.undefined(); });
  }
  // Queued work without a result; must not fail.
  void post(Queue queue, std::function<void()> work);

  // Throws the JavaScript error for a failure.
  napi_value error(const Failure& failure);
  // A new object of a class whose native part is `native`. `taken` says whether the object owns it, also when this
  // throws.
  napi_value instance(Class which, void* native, bool& taken);

  napi_ref make_error = nullptr;
  napi_ref classes[kClasses] = {};
  void* creating = nullptr;  // the native part, while instance() runs the constructor

 private:
  napi_value start_call(const Options& options, std::function<void()> work, std::function<napi_value(Js)> settle);
  static void clean_up(void* self);
  static void deliver(napi_env env, napi_value, void* context, void*);
  void settle(Js js, Call& call);

  Js js_;
  std::shared_ptr<Executor> executor_;
  std::shared_ptr<executor::Background> background_;
  std::shared_ptr<Port> port_ = std::make_shared<Port>();
  int in_flight_ = 0;  // the process is kept alive while there are any
};

// What the exception that is being handled is told as.
Failure current_failure();

// Runs a binding's body; failures become JavaScript exceptions.
template <class F> napi_value guarded(napi_env env, F&& body) {
  const auto raise = [env](const Failure& failure) -> napi_value {
    try {
      napi_throw(env, Environment::of(env)->error(failure));
    } catch (...) {
      // Nothing can be thrown in an environment that is going away.
    }
    return nullptr;
  };
  try {
    return body(Js{env});
  } catch (const Unwind&) {
    return nullptr;
  } catch (...) {
    return raise(current_failure());
  }
}

}  // namespace anneal::addon
