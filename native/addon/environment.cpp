#include "environment.h"

#include <algorithm>
#include <new>
#include <system_error>

#include "../grammar/budgets.h"
#include "../model/invalid_input.h"
#include "../weights/read_only_file.h"

namespace anneal::addon {

namespace {

class CallTask final : public executor::Task {
 public:
  CallTask(std::shared_ptr<Call> call, std::shared_ptr<Port> port) : call_(std::move(call)), port_(std::move(port)) {
    control = call_->control;
  }

  void run() override {
    call_->ran = true;
    try {
      try {
        call_->work();
      } catch (const std::bad_alloc&) {
        call_->out_of_memory = true;
      } catch (...) {
        call_->failure = current_failure();
      }
    } catch (...) {
      // There was no memory for the message.
      call_->out_of_memory = true;
    }
  }

  void finish() override {
    call_->work = nullptr;
    if (call_->deferred) port_->post(std::move(call_));
  }

 private:
  std::shared_ptr<Call> call_;
  std::shared_ptr<Port> port_;
};

}  // namespace

Failure current_failure() {
  try {
    throw;
  } catch (const Failure& failure) {
    return failure;
  } catch (const executor::Aborted& error) {
    return {"aborted", error.what(), ""};
  } catch (const model::Conflict& error) {
    return {"conflict", error.what(), ""};
  } catch (const grammar::GrammarError& error) {
    return {error.code, error.what(), error.param};
  } catch (const weights::FileError& error) {
    return {"unusable_model_file", error.what(), error.file};
  } catch (const backends::UnusableDevice& error) {
    return {"unusable_device", error.what(), "device"};
  } catch (const backends::DeviceLost& error) {
    return {"device_lost", error.what(), "device"};
  } catch (const backends::NoDeviceMemory& error) {
    return {"insufficient_memory", error.part, "device", error.needed, error.available};
  } catch (const backends::NoRoom& error) {
    return {"insufficient_memory", "a pass over these rows, of at least " + std::to_string(error.needed) + " bytes",
            "memoryBudget", error.needed, error.available};
  } catch (const std::bad_alloc&) {
    return {"insufficient_memory", "not enough memory for this call", ""};
  } catch (const std::exception& error) {
    return {"internal_error", error.what(), ""};
  }
}

// ---- port

void Port::post(std::shared_ptr<Call> call) noexcept {
  std::lock_guard lock(mutex_);
  if (closed_) return;
  (last_ ? last_->next : first_) = call;
  last_ = std::move(call);
  napi_call_threadsafe_function(wake_, nullptr, napi_tsfn_nonblocking);
}

std::shared_ptr<Call> Port::take() {
  std::lock_guard lock(mutex_);
  auto call = std::move(first_);
  if (!call) return nullptr;
  first_ = std::move(call->next);
  if (!first_) last_.reset();
  return call;
}

void Port::close() {
  std::shared_ptr<Call> gone;
  {
    std::lock_guard lock(mutex_);
    closed_ = true;
    gone = std::move(first_);
    last_.reset();
  }
  // One by one: a long list that goes at once would go one inside the other.
  while (gone) gone = std::move(gone->next);
}

// ---- pending

void Pending::add(const std::shared_ptr<CallControl>& control) {
  std::erase_if(controls_, [](const auto& known) { return known.expired(); });
  controls_.push_back(control);
}

void Pending::close(Executor& executor) {
  for (auto& known : controls_)
    if (auto control = known.lock()) {
      control->closed = true;
      executor.abort(control);
    }
  controls_.clear();
}

// ---- environment

Environment::Environment(napi_env env) : js_{env} {
  napi_value name = js_.text("anneal");
  js_.check(napi_create_threadsafe_function(env, nullptr, nullptr, name, 0, 1, nullptr, nullptr, this, deliver,
                                            &port_->wake_));
  js_.check(napi_unref_threadsafe_function(env, port_->wake_));
  // Hooks run last in, first out: this one runs while the thread-safe function still stands.
  js_.check(napi_add_env_cleanup_hook(env, clean_up, this));
}

std::shared_ptr<Environment> Environment::of(napi_env env) {
  void* data = nullptr;
  if (napi_get_instance_data(env, &data) != napi_ok || !data) throw Unwind{};
  return *static_cast<std::shared_ptr<Environment>*>(data);
}

void Environment::clean_up(void* self) {
  auto& environment = *static_cast<Environment*>(self);
  if (environment.executor_) environment.executor_->drop(environment.port_.get());
  if (environment.background_) environment.background_->drop(environment.port_.get());
  environment.port_->close();
}

const std::shared_ptr<Executor>& Environment::executor() {
  try {
    if (!executor_) executor_ = Executor::shared();
  } catch (const executor::NoThreads& error) {
    throw Failure{"no_threads", error.what(), ""};
  }
  return executor_;
}

const std::shared_ptr<executor::Background>& Environment::background() {
  if (!background_) background_ = executor::Background::shared();
  return background_;
}

void Environment::abort(const std::shared_ptr<CallControl>& control) {
  control->aborted = true;
  if (executor_) executor_->abort(control);
  if (background_) background_->abort(control);
}

napi_value Environment::start_call(const Options& options, std::function<void()> work,
                                   std::function<napi_value(Js)> settle) {
  auto call = std::make_shared<Call>();
  call->control = options.control ? options.control : std::make_shared<CallControl>();
  call->work = std::move(work);
  call->settle = std::move(settle);
  for (Pending* list : options.pending) list->add(call->control);
  auto task = std::make_unique<CallTask>(call, port_);
  task->queue = options.queue;
  task->owner = port_.get();
  const auto runner = options.client ? nullptr : executor();  // may fail: before there is a promise to keep
  napi_value promise;
  js_.check(napi_create_promise(js_.env, &call->deferred, &promise));
  if (in_flight_++ == 0) js_.check(napi_ref_threadsafe_function(js_.env, port_->wake_));
  if (!options.client) {
    runner->submit(std::move(task));
    return promise;
  }
  try {
    background()->submit(std::move(task), *options.client);
  } catch (const std::system_error&) {
    call->failure = Failure{"no_threads", executor::NoThreads().what(), ""};
    call->ran = true;
    port_->post(std::move(call));
  }
  return promise;
}

void Environment::post(Queue queue, std::function<void()> work) {
  auto call = std::make_shared<Call>();
  call->control = std::make_shared<CallControl>();
  call->work = std::move(work);
  auto task = std::make_unique<CallTask>(call, port_);
  task->queue = queue;
  task->owner = port_.get();
  executor()->submit(std::move(task));
}

void Environment::deliver(napi_env env, napi_value, void* context, void*) {
  if (!env) return;
  auto& self = *static_cast<Environment*>(context);
  auto call = self.port_->take();
  if (!call) return;
  try {
    if (--self.in_flight_ == 0) napi_unref_threadsafe_function(env, self.port_->wake_);
    self.settle(Js{env}, *call);
  } catch (...) {
    // Only an environment that is going away cannot settle a promise.
  }
}

void Environment::settle(Js js, Call& call) {
  napi_value result = nullptr;
  if (call.out_of_memory)
    call.failure = Failure{"insufficient_memory", "the machine has not enough memory for this call", ""};
  if (!call.ran) call.failure = Failure{"aborted", "the call was aborted", ""};
  if (!call.failure) {
    try {
      result = call.settle(js);
    } catch (const Unwind&) {
      throw;
    } catch (...) {
      call.failure = current_failure();
    }
  }
  call.settle = nullptr;
  if (!call.failure) {
    js.check(napi_resolve_deferred(js.env, call.deferred, result));
    return;
  }
  if (call.failure->code == "aborted" && call.control->closed)
    call.failure = Failure{"closed", "closed while the call was in progress", ""};
  js.check(napi_reject_deferred(js.env, call.deferred, error(*call.failure)));
}

napi_value Environment::error(const Failure& failure) {
  napi_value make, result,
      arguments[] = {js_.text(failure.code), js_.text(failure.message), js_.text(failure.param),
                     js_.number(double(failure.needed)), js_.number(double(failure.available))};
  if (!make_error) {
    js_.check(napi_create_error(js_.env, arguments[0], arguments[1], &result));
    return result;
  }
  js_.check(napi_get_reference_value(js_.env, make_error, &make));
  js_.check(napi_call_function(js_.env, js_.undefined(), make, 5, arguments, &result));
  return result;
}

napi_value Environment::instance(Class which, void* native, bool& taken) {
  napi_value constructor, result;
  js_.check(napi_get_reference_value(js_.env, classes[which], &constructor));
  creating = native;
  const napi_status status = napi_new_instance(js_.env, constructor, 0, nullptr, &result);
  taken = creating == nullptr;
  creating = nullptr;
  js_.check(status);
  return result;
}

}  // namespace anneal::addon
