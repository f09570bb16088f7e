#include "arguments.h"

#include <algorithm>
#include <cmath>

namespace anneal::addon {

std::string Path::text() const {
  const std::string before = parent ? parent->text() : "";
  if (!name) return before + "[" + std::to_string(index) + "]";
  return before.empty() ? name : before + "." + name;
}

void invalid(const Path& path, const std::string& problem) {
  const std::string where = path.text();
  throw Failure{"invalid_argument", where + " " + problem, where};
}

void invalid(const Path& path, const model::InvalidInput& input) {
  const Path entry(path, int64_t(input.entry)), field(entry, input.field);
  invalid(input.element < 0 ? field : Path(field, input.element), input.problem);
}

void invalid(const Path& path, const model::UnsupportedModel& unsupported) {
  invalid(Path(path, unsupported.field.c_str()), unsupported.problem);
}

bool Argument::missing() const {
  const auto type = js_.type(value_);
  return type == napi_undefined || type == napi_null;
}

bool Argument::boolean() const {
  if (js_.type(value_) != napi_boolean) invalid(path_, "must be a boolean");
  bool result;
  js_.check(napi_get_value_bool(js_.env, value_, &result));
  return result;
}

double Argument::number(double min, double max) const {
  double result = NAN;
  if (js_.type(value_) == napi_number) js_.check(napi_get_value_double(js_.env, value_, &result));
  if (!(result >= min && result <= max) || !std::isfinite(result)) {
    char range[96];
    std::snprintf(range, sizeof range, "must be a finite number from %g to %g", min, max);
    invalid(path_, range);
  }
  return result;
}

int64_t Argument::integer(int64_t min, int64_t max) const {
  double result = NAN;
  if (js_.type(value_) == napi_number) js_.check(napi_get_value_double(js_.env, value_, &result));
  if (!(result >= double(min) && result <= double(max)) || result != std::floor(result))
    invalid(path_, "must be a whole number from " + std::to_string(min) + " to " + std::to_string(max));
  return int64_t(result);
}

uint64_t Argument::bits64() const {
  if (js_.type(value_) != napi_bigint) invalid(path_, "must be a bigint");
  int64_t as_signed;
  bool lossless;
  js_.check(napi_get_value_bigint_int64(js_.env, value_, &as_signed, &lossless));
  if (lossless) return uint64_t(as_signed);
  uint64_t as_unsigned;
  js_.check(napi_get_value_bigint_uint64(js_.env, value_, &as_unsigned, &lossless));
  if (!lossless) invalid(path_, "must fit in 64 bits");
  return as_unsigned;
}

std::string Argument::text(size_t max_bytes) const {
  if (js_.type(value_) != napi_string) invalid(path_, "must be a string");
  size_t length = 0;
  js_.check(napi_get_value_string_utf8(js_.env, value_, nullptr, 0, &length));
  if (length > max_bytes) invalid(path_, "must be at most " + std::to_string(max_bytes) + " bytes long");
  std::string result(length + 1, '\0');
  js_.check(napi_get_value_string_utf8(js_.env, value_, result.data(), result.size(), &length));
  result.resize(length);
  if (result.find('\0') != std::string::npos) invalid(path_, "must not contain a zero byte");
  return result;
}

// A detached buffer reads as an empty array.
template <class T> std::span<T> Argument::typed(napi_typedarray_type type, const char* name) const {
  bool is_typed = false;
  js_.check(napi_is_typedarray(js_.env, value_, &is_typed));
  napi_typedarray_type actual = napi_int8_array;
  size_t length = 0;
  void* data = nullptr;
  if (is_typed) js_.check(napi_get_typedarray_info(js_.env, value_, &actual, &length, &data, nullptr, nullptr));
  if (!is_typed || actual != type) invalid(path_, std::string("must be ") + name);
  return {static_cast<T*>(data), data ? length : 0};
}

// What another thread writes meanwhile only changes values, which are checked on the copy.
template <class T> std::vector<T> Argument::copied(napi_typedarray_type type, const char* name) const {
  const auto values = typed<T>(type, name);
  std::vector<T> copy(values.size());
  if (!copy.empty()) std::memcpy(copy.data(), values.data(), copy.size() * sizeof(T));
  return copy;
}

std::vector<int32_t> Argument::int32s() const { return copied<int32_t>(napi_int32_array, "an Int32Array"); }
std::vector<float> Argument::floats() const { return copied<float>(napi_float32_array, "a Float32Array"); }
std::vector<uint8_t> Argument::bytes() const { return copied<uint8_t>(napi_uint8_array, "a Uint8Array"); }

std::span<uint32_t> Argument::words(size_t length) const {
  const auto place = typed<uint32_t>(napi_uint32_array, "a Uint32Array");
  if (place.size() != length)
    invalid(path_, "holds " + std::to_string(place.size()) + " words, " + std::to_string(length) + " are needed");
  return place;
}

std::span<float> Argument::numbers() const { return typed<float>(napi_float32_array, "a Float32Array"); }

std::vector<float> Argument::finite_floats() const {
  auto values = floats();
  for (size_t i = 0; i < values.size(); ++i)
    if (!std::isfinite(values[i])) invalid(Path(path_, int64_t(i)), "must be a finite number");
  return values;
}

uint32_t Argument::array_length(uint32_t max) const {
  bool is_array = false;
  js_.check(napi_is_array(js_.env, value_, &is_array));
  if (!is_array) invalid(path_, "must be an array");
  uint32_t length = 0;
  js_.check(napi_get_array_length(js_.env, value_, &length));
  if (length > max) invalid(path_, "must have at most " + std::to_string(max) + " elements");
  return length;
}

const Argument& Argument::object() const {
  if (js_.type(value_) != napi_object) invalid(path_, "must be an object");
  return *this;
}

}  // namespace anneal::addon
