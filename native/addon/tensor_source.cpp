#include "tensor_source.h"

#include <algorithm>
#include <cstring>

namespace anneal::addon {

namespace {

// Read at a time and widened from there: a file is never mapped, so truncating it under us is an error and not a crash.
constexpr int64_t kStagingElements = 1 << 16;

float widen_bf16(uint16_t bits) {
  const uint32_t wide = uint32_t(bits) << 16;
  float value;
  std::memcpy(&value, &wide, 4);
  return value;
}

float widen_f16(uint16_t bits) {
  const uint32_t sign = uint32_t(bits & 0x8000) << 16;
  uint32_t exponent = (bits >> 10) & 31, mantissa = bits & 1023, wide;
  if (exponent == 31) {
    wide = sign | 0x7f800000 | mantissa << 13;
  } else if (exponent != 0) {
    wide = sign | (exponent + 112) << 23 | mantissa << 13;
  } else if (mantissa == 0) {
    wide = sign;
  } else {
    exponent = 113;
    while (!(mantissa & 1024)) mantissa <<= 1, --exponent;
    wide = sign | exponent << 23 | (mantissa & 1023) << 13;
  }
  float value;
  std::memcpy(&value, &wide, 4);
  return value;
}

// On the bits: not a branch per value, and whatever the floating-point mode.
bool all_finite(const float* values, int64_t n) {
  uint32_t found = 0;
  for (int64_t i = 0; i < n; ++i) {
    uint32_t bits;
    std::memcpy(&bits, values + i, 4);
    found |= uint32_t((bits & 0x7f800000) == 0x7f800000);
  }
  return found == 0;
}

}  // namespace

TensorSource::TensorSource(const Argument& list, const model::ModelSpec& spec) {
  std::unordered_map<std::string, model::TensorShape> wanted;
  for (auto& shape : model::weight_tensors(spec)) wanted.emplace(shape.name, shape);
  const uint32_t count = list.array_length(1 << 20);
  for (uint32_t i = 0; i < count; ++i)
    list.element(i, [&](Argument entry) {
      entry.object();
      const auto name = entry.field("name", [](Argument a) { return a.text(512); });
      const auto shape = wanted.find(name);
      if (shape == wanted.end()) invalid(entry.path(), "names \"" + name + "\", which this decoder does not have");
      Tensor tensor;
      tensor.path = entry.field("file", [](Argument a) { return a.text(1 << 16); });
      tensor.rows = shape->second.cols ? shape->second.rows : 1;
      tensor.cols = shape->second.cols ? shape->second.cols : shape->second.rows;
      const auto type = entry.field("dtype", [](Argument a) { return a.text(16); });
      if (type == "F32")
        tensor.type = Type::f32;
      else if (type == "BF16")
        tensor.type = Type::bf16;
      else if (type == "F16")
        tensor.type = Type::f16;
      else
        invalid(entry.path(), "has dtype \"" + type + "\"; F32, BF16 or F16 can be read");
      const int64_t most = int64_t(1) << 52;
      tensor.offset = entry.field("offset", [&](Argument a) { return a.integer(0, most); });
      const int64_t bytes = entry.field("bytes", [&](Argument a) { return a.integer(0, most); });
      std::vector<int64_t> dimensions;
      entry.field("shape", [&](Argument a) {
        for (uint32_t d = 0, n = a.array_length(8); d < n; ++d)
          dimensions.push_back(a.element(d, [&](Argument x) { return x.integer(0, most); }));
      });
      const std::vector<int64_t> expected =
          shape->second.cols ? std::vector<int64_t>{tensor.rows, tensor.cols} : std::vector<int64_t>{tensor.cols};
      if (dimensions != expected)
        invalid(entry.path(), "(" + name + ") has another shape than the configuration asks for");
      if (bytes != tensor.rows * tensor.cols * (tensor.type == Type::f32 ? 4 : 2))
        invalid(entry.path(), "(" + name + ") has a number of bytes that does not fit its shape");
      if (!tensors_.emplace(name, std::move(tensor)).second)
        invalid(entry.path(), "names \"" + name + "\" a second time");
    });
  for (auto& [name, shape] : wanted)
    if (!tensors_.count(name)) invalid(list.path(), "lacks \"" + name + "\"");
}

void TensorSource::open() {
  std::unordered_map<std::string, std::shared_ptr<executor::ReadOnlyFile>> files;
  for (auto& [name, tensor] : tensors_) {
    auto& file = files[tensor.path];
    if (!file) file = std::make_shared<executor::ReadOnlyFile>(tensor.path);
    tensor.file = file;
  }
}

void TensorSource::read(const std::string& name, int64_t row0, int64_t rows, float* dst) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) throw std::runtime_error("no tensor named " + name);
  const Tensor& tensor = found->second;
  if (row0 < 0 || rows < 0 || row0 + rows > tensor.rows) throw std::runtime_error(name + ": rows out of range");
  const int width = tensor.type == Type::f32 ? 4 : 2;
  const int64_t end = (row0 + rows) * tensor.cols;
  std::vector<uint16_t> staging(tensor.type == Type::f32 ? 0 : size_t(std::min(rows * tensor.cols, kStagingElements)));
  for (int64_t at = row0 * tensor.cols; at < end;) {
    const int64_t n = std::min(end - at, kStagingElements);
    void* const to = tensor.type == Type::f32 ? static_cast<void*>(dst) : staging.data();
    tensor.file->read(tensor.offset + at * width, to, size_t(n * width));
    if (tensor.type == Type::bf16)
      for (int64_t i = 0; i < n; ++i) dst[i] = widen_bf16(staging[size_t(i)]);
    else if (tensor.type == Type::f16)
      for (int64_t i = 0; i < n; ++i) dst[i] = widen_f16(staging[size_t(i)]);
    if (!all_finite(dst, n)) throw executor::FileError(tensor.path, name + " holds values that are not finite numbers");
    at += n, dst += n;
  }
}

}  // namespace anneal::addon
