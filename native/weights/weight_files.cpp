#include "weight_files.h"

#include <algorithm>
#include <cstring>

namespace anneal::weights {

namespace {

// Read at a time and widened from there.
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

WeightFiles::WeightFiles(const std::vector<StoredTensor>& list, const model::ModelSpec& spec) {
  std::unordered_map<std::string, model::TensorShape> wanted;
  for (auto& shape : model::weight_tensors(spec)) wanted.emplace(shape.name, shape);
  for (size_t i = 0; i < list.size(); ++i) {
    const StoredTensor& stored = list[i];
    const auto unusable = [&](const std::string& problem) { throw UnusableTensor{int64_t(i), problem}; };
    const auto shape = wanted.find(stored.name);
    if (shape == wanted.end()) unusable("names \"" + stored.name + "\", which this decoder does not have");
    const auto [name, rows, cols] = shape->second;
    Tensor tensor{stored.file, nullptr, stored.offset, cols ? rows : 1, cols ? cols : rows, Type::f32};
    if (stored.type == "BF16")
      tensor.type = Type::bf16;
    else if (stored.type == "F16")
      tensor.type = Type::f16;
    else if (stored.type != "F32")
      unusable("has dtype \"" + stored.type + "\"; F32, BF16 or F16 can be read");
    if (stored.shape != (cols ? std::vector<int64_t>{rows, cols} : std::vector<int64_t>{rows}))
      unusable("(" + name + ") has another shape than the configuration asks for");
    if (stored.bytes != tensor.rows * tensor.cols * (tensor.type == Type::f32 ? 4 : 2))
      unusable("(" + name + ") has a number of bytes that does not fit its shape");
    if (!tensors_.emplace(name, std::move(tensor)).second) unusable("names \"" + name + "\" a second time");
  }
  for (auto& [name, shape] : wanted)
    if (!tensors_.count(name)) throw UnusableTensor{-1, "lacks \"" + name + "\""};
}

void WeightFiles::open() {
  std::unordered_map<std::string, std::shared_ptr<ReadOnlyFile>> files;
  for (auto& [name, tensor] : tensors_) {
    auto& file = files[tensor.path];
    if (!file) file = std::make_shared<ReadOnlyFile>(tensor.path);
    tensor.file = file;
  }
}

void WeightFiles::read(const std::string& name, int64_t row0, int64_t rows, float* dst) const {
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
    if (!all_finite(dst, n)) throw FileError(tensor.path, name + " holds values that are not finite numbers");
    at += n, dst += n;
  }
}

}  // namespace anneal::weights
