// Arguments from JavaScript, copied and checked. Each reader throws Failure "invalid_argument" with the path of what is
// wrong.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "../model/invalid_input.h"
#include "../model/spec.h"
#include "js.h"

namespace anneal::addon {

// Where a value was found: "sequences[3].tokens". Text is made only when something is wrong.
struct Path {
  const Path* parent = nullptr;
  const char* name = nullptr;
  int64_t index = -1;
  Path(const char* name_) : name(name_) {}
  Path(const Path& parent_, const char* name_) : parent(&parent_), name(name_) {}
  Path(const Path& parent_, int64_t index_) : parent(&parent_), index(index_) {}
  std::string text() const;
};

[[noreturn]] void invalid(const Path& path, const std::string& problem);
// Of an entry of the list at `path`.
[[noreturn]] void invalid(const Path& path, const model::InvalidInput& input);

// Of a field of the model's configuration at `path`.
[[noreturn]] void invalid(const Path& path, const model::UnsupportedModel& unsupported);

// A value and where it was found. Those found in it must not outlive it: their paths lead through its own.
class Argument {
 public:
  Argument(Js js, napi_value value, const Path& path) : js_(js), value_(value), path_(path) {}

  // A property or an element.
  Argument at(const char* name) const& { return {js_, js_.get(value_, name), Path(path_, name)}; }
  Argument at(uint32_t index) const& { return {js_, js_.get(value_, index), Path(path_, int64_t(index))}; }
  Argument at(const char*) && = delete;
  Argument at(uint32_t) && = delete;
  // One that may be undefined or null.
  std::optional<Argument> given(const char* name) const& {
    const Argument found = at(name);
    return found.missing() ? std::nullopt : std::optional(found);
  }
  // f(element) for those of an array.
  template <class F> void each(uint32_t max, F&& f) const {
    for (uint32_t i = 0, n = array_length(max); i < n; ++i) f(at(i));
  }

  bool missing() const;  // undefined or null
  bool boolean() const;
  double number(double min, double max) const;  // finite
  int64_t integer(int64_t min, int64_t max) const;
  int whole(int min, int max) const { return int(integer(min, max)); }
  uint64_t bits64() const;  // a bigint of 64 bits, signed or unsigned
  std::string text(size_t max_bytes) const;
  std::vector<int32_t> int32s() const;  // Int32Array
  std::vector<float> floats() const;    // Float32Array, anything in it
  std::vector<float> finite_floats() const;
  std::vector<uint8_t> bytes() const;  // Uint8Array
  // To be written before JavaScript runs again: a Uint32Array of that length, a Float32Array.
  std::span<uint32_t> words(size_t length) const;
  std::span<float> numbers() const;
  uint32_t array_length(uint32_t max) const;  // must be an Array
  const Argument& object() const;             // must be one

  const Path& path() const { return path_; }
  Js js() const { return js_; }
  napi_value value() const { return value_; }

 private:
  template <class T> std::span<T> typed(napi_typedarray_type type, const char* name) const;
  template <class T> std::vector<T> copied(napi_typedarray_type type, const char* name) const;
  Js js_;
  napi_value value_;
  Path path_;
};

// The value of one of a few names.
template <class T> T one_of(const Argument& argument, const std::vector<std::pair<const char*, T>>& choices) {
  const auto name = argument.text(64);
  std::string known;
  for (auto& [choice, value] : choices) {
    if (name == choice) return value;
    known += (known.empty() ? "\"" : ", \"") + std::string(choice) + "\"";
  }
  invalid(argument.path(), "must be one of " + known);
}

}  // namespace anneal::addon
