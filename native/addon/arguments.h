// Arguments from JavaScript, copied and checked. Each reader throws Failure "invalid_argument" with the path of what is
// wrong.
#pragma once
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "../model/invalid_input.h"
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

// A value and where it was found.
class Argument {
 public:
  Argument(Js js, napi_value value, const Path& path) : js_(js), value_(value), path_(path) {}

  bool missing() const;  // undefined or null
  bool boolean() const;
  double number(double min, double max) const;  // finite
  int64_t integer(int64_t min, int64_t max) const;
  uint64_t bits64() const;  // a bigint of 64 bits, signed or unsigned
  std::string text(size_t max_bytes) const;
  std::vector<int32_t> int32s() const;  // Int32Array
  std::vector<float> floats() const;    // Float32Array, anything in it
  std::vector<float> finite_floats() const;
  std::vector<uint8_t> bytes() const;  // Uint8Array
  std::span<uint32_t> words(
      size_t length) const;  // a Uint32Array of that length, to be written before JavaScript runs again
  uint32_t array_length(uint32_t max) const;  // must be an Array
  void object() const;                        // must be an object

  const Path& path() const { return path_; }
  Js js() const { return js_; }
  napi_value value() const { return value_; }

  // Calls read(Argument) with a property or element; the path lives as long as the call.
  template <class F> auto field(const char* name, F&& read) const {
    const Path path(path_, name);
    return read(Argument(js_, js_.get(value_, name), path));
  }
  template <class F> auto element(uint32_t index, F&& read) const {
    const Path path(path_, int64_t(index));
    return read(Argument(js_, js_.get(value_, index), path));
  }

 private:
  template <class T> std::span<T> typed(napi_typedarray_type type, const char* name) const;
  template <class T> std::vector<T> copied(napi_typedarray_type type, const char* name) const;
  Js js_;
  napi_value value_;
  const Path& path_;
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
