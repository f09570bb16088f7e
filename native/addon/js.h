// Node-API, thinly: values in and out, and what happens when a call fails.
//
// The C interface is used as it is, because a C++ wrapper that must make a JavaScript error out of every failed call
// ends the process when the environment is being torn down (a worker thread terminated in the middle of a call). Here
// such a failure unwinds silently.
#pragma once
#include <node_api.h>

#include <cstdint>
#include <cstring>
#include <initializer_list>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <utility>

namespace anneal::addon {

// A typed error on its way to JavaScript: becomes a subclass of AnnealError by its code.
struct Failure {
  std::string code, message, param;
  int64_t needed = 0, available = 0;  // bytes, of "insufficient_memory" where they are known
};

// A JavaScript exception is pending, or the environment no longer runs JavaScript: leave without touching it.
struct Unwind {};

struct Js {
  napi_env env;

  void check(napi_status status) const {
    if (status == napi_ok) return;
    if (status == napi_pending_exception || status == napi_cannot_run_js || status == napi_closing) throw Unwind{};
    throw Failure{"internal_error", "Node-API call failed with status " + std::to_string(int(status)), ""};
  }

  napi_valuetype type(napi_value value) const {
    napi_valuetype type;
    check(napi_typeof(env, value, &type));
    return type;
  }

  napi_value undefined() const {
    napi_value v;
    check(napi_get_undefined(env, &v));
    return v;
  }
  napi_value null() const {
    napi_value v;
    check(napi_get_null(env, &v));
    return v;
  }
  napi_value number(double x) const {
    napi_value v;
    check(napi_create_double(env, x, &v));
    return v;
  }
  napi_value boolean(bool b) const {
    napi_value v;
    check(napi_get_boolean(env, b, &v));
    return v;
  }
  napi_value text(std::string_view s) const {
    napi_value v;
    check(napi_create_string_utf8(env, s.data(), s.size(), &v));
    return v;
  }
  napi_value object(std::initializer_list<std::pair<const char*, napi_value>> properties) const {
    napi_value v;
    check(napi_create_object(env, &v));
    for (const auto& [name, value] : properties) set(v, name, value);
    return v;
  }
  void set(napi_value object, const char* name, napi_value value) const {
    check(napi_set_named_property(env, object, name, value));
  }
  // of(entry) for each.
  template <class List, class F> napi_value array(const List& list, F&& of) const {
    napi_value v;
    check(napi_create_array_with_length(env, std::size(list), &v));
    uint32_t index = 0;
    for (const auto& entry : list) check(napi_set_element(env, v, index++, of(entry)));
    return v;
  }
  napi_value get(napi_value object, const char* name) const {
    napi_value v;
    check(napi_get_named_property(env, object, name, &v));
    return v;
  }
  napi_value get(napi_value array, uint32_t index) const {
    napi_value v;
    check(napi_get_element(env, array, index, &v));
    return v;
  }

  napi_value int32s(std::span<const int32_t> values) const { return typed(napi_int32_array, values); }
  napi_value floats(std::span<const float> values) const { return typed(napi_float32_array, values); }
  napi_value words(std::span<const uint32_t> values) const { return typed(napi_uint32_array, values); }
  napi_value bytes(std::span<const uint8_t> values) const { return typed(napi_uint8_array, values); }

 private:
  template <class T> napi_value typed(napi_typedarray_type type, std::span<const T> values) const {
    napi_value buffer, view;
    void* to = nullptr;
    check(napi_create_arraybuffer(env, values.size_bytes(), &to, &buffer));
    if (!values.empty()) std::memcpy(to, values.data(), values.size_bytes());
    check(napi_create_typedarray(env, type, values.size(), buffer, 0, &view));
    return view;
  }
};

}  // namespace anneal::addon
