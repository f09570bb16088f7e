// JavaScript classes over native objects. Only this addon makes instances; methods called on anything else are refused
// by the engine.
#pragma once
#include <memory>

#include "arguments.h"
#include "environment.h"

namespace anneal::addon {

struct Arguments {
  static constexpr size_t kMaxArguments = 5;
  Js js;
  napi_value self = nullptr, values[kMaxArguments] = {};

  Arguments(Js js_, napi_callback_info info) : js(js_) {
    size_t count = kMaxArguments;
    js.check(napi_get_cb_info(js.env, info, &count, values, &self, nullptr));
  }
  Argument at(size_t index, const char* name) const { return Argument(js, values[index], Path(name)); }
};

constexpr napi_type_tag tag_of(Class which) { return {0x6f3a9c1be5d84720ull, 0xa41c77d2905be300ull + uint64_t(which)}; }

template <class T> T* unwrap(Js js, napi_value value, Class which) {
  bool ours = false;
  void* native = nullptr;
  const auto tag = tag_of(which);
  if (js.type(value) == napi_object) js.check(napi_check_object_type_tag(js.env, value, &tag, &ours));
  if (ours) js.check(napi_unwrap(js.env, value, &native));
  return static_cast<T*>(native);
}

// Of a class with `static constexpr Class kClass`.
template <auto Method, class T>
napi_value call(napi_env env, napi_callback_info info, napi_value (T::*)(const Arguments&)) {
  return guarded(env, [&](Js js) {
    Arguments arguments(js, info);
    T* self = unwrap<T>(js, arguments.self, T::kClass);
    if (!self) throw Failure{"invalid_argument", "called on an object of another class", "this"};
    return (self->*Method)(arguments);
  });
}
template <auto Method> napi_value method(napi_env env, napi_callback_info info) {
  return call<Method>(env, info, Method);
}

template <napi_value (*Function)(const Arguments&)> napi_value function(napi_env env, napi_callback_info info) {
  return guarded(env, [&](Js js) { return Function(Arguments(js, info)); });
}

template <class T> void define_class(Js js, const char* name, std::initializer_list<napi_property_descriptor> methods) {
  const auto construct = [](napi_env env, napi_callback_info info) -> napi_value {
    return guarded(env, [&](Js js) -> napi_value {
      Arguments arguments(js, info);
      auto environment = Environment::of(js.env);
      if (!environment->creating) throw Failure{"invalid_argument", "instances are made by the library only", "new"};
      const auto tag = tag_of(T::kClass);
      js.check(napi_type_tag_object(js.env, arguments.self, &tag));
      js.check(napi_wrap(
          js.env, arguments.self, environment->creating,
          [](napi_env, void* native, void*) { delete static_cast<T*>(native); }, nullptr, nullptr));
      environment->creating = nullptr;
      return arguments.self;
    });
  };
  napi_value constructor;
  js.check(napi_define_class(js.env, name, NAPI_AUTO_LENGTH, construct, nullptr, methods.size(), methods.begin(),
                             &constructor));
  js.check(napi_create_reference(js.env, constructor, 1, &Environment::of(js.env)->classes[T::kClass]));
}

template <auto Method> napi_property_descriptor describe(const char* name) {
  return {name, nullptr, method<Method>, nullptr, nullptr, nullptr, napi_enumerable, nullptr};
}
template <auto Method> napi_property_descriptor getter(const char* name) {
  return {name, nullptr, nullptr, method<Method>, nullptr, nullptr, napi_enumerable, nullptr};
}

// The JavaScript object of a native one.
template <class T> napi_value wrap(Environment& environment, std::unique_ptr<T> native) {
  bool taken = false;
  napi_value object;
  try {
    object = environment.instance(T::kClass, native.get(), taken);
  } catch (...) {
    if (taken) native.release();
    throw;
  }
  native.release();
  return object;
}

// Native bytes that go with a JavaScript object, so that the garbage collector should hurry. Those of models, trainers
// and passes do not: who made them closes them, and each would make it run.
class ExternalMemory {
 public:
  explicit ExternalMemory(Js js) : js_(js) {}
  ~ExternalMemory() { set(0); }
  ExternalMemory(const ExternalMemory&) = delete;
  ExternalMemory& operator=(const ExternalMemory&) = delete;
  void set(int64_t bytes) {
    int64_t total;
    if (bytes != bytes_) napi_adjust_external_memory(js_.env, bytes - bytes_, &total);
    bytes_ = bytes;
  }

 private:
  Js js_;
  int64_t bytes_ = 0;
};

// What an AbortSignal sets, and what a progress bar reads.
class Cancellation {
 public:
  static constexpr Class kClass = kCancellationClass;
  explicit Cancellation(std::shared_ptr<Environment> environment) : environment_(std::move(environment)) {}
  const std::shared_ptr<CallControl>& control() const { return control_; }

  napi_value abort(const Arguments& arguments) {
    environment_->abort(control_);
    return arguments.js.undefined();
  }
  napi_value progress(const Arguments& arguments) { return arguments.js.number(control_->progress.load()); }

 private:
  std::shared_ptr<Environment> environment_;
  std::shared_ptr<CallControl> control_ = std::make_shared<CallControl>();
};

// The control of an optional Cancellation argument; null when it is absent.
inline std::shared_ptr<CallControl> control_of(const Argument& argument) {
  if (argument.missing()) return nullptr;
  auto* cancellation = unwrap<Cancellation>(argument.js(), argument.value(), kCancellationClass);
  if (!cancellation) invalid(argument.path(), "must be a Cancellation");
  return cancellation->control();
}

}  // namespace anneal::addon
