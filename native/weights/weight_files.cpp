#include "weight_files.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "../quantization/blocks.h"

namespace anneal::weights {

namespace {

// Of which a tensor with strides takes some.
constexpr int64_t kMostRegionBytes = int64_t(1) << 31;

// Read at a time and widened from there.
constexpr int64_t kStagingElements = 1 << 16;

float widen_bf16(uint16_t bits) {
  const uint32_t wide = uint32_t(bits) << 16;
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

// The same of bfloat16, whose denormals become zeros, as rounding to bfloat16 makes them.
bool flush_finite(uint16_t* words, int64_t n) {
  uint16_t found = 0;
  for (int64_t i = 0; i < n; ++i) {
    const uint16_t exponent = words[i] & 0x7f80;
    found |= uint16_t(exponent == 0x7f80);
    words[i] &= exponent ? 0xffff : 0x8000;
  }
  return found == 0;
}

// What is wrong with heads of a tensor of `shape`; empty: nothing.
std::string problem_of(const TiledHeads& t, const model::TensorShape& shape) {
  if (t.heads < 1 || t.groups < 1 || t.width < 1 || t.first < 0 || t.heads % t.groups != 0)
    return "has tiled heads that are no groups of as many";
  if (t.columns && !shape.cols) return "is a vector, and has no columns of tiled heads";
  if (t.first && (t.columns || !shape.cols)) return "has something before tiled heads that are no rows";
  if (t.first + t.heads * t.width != (t.columns ? shape.cols : shape.rows))
    return "has another size than its tiled heads have";
  return "";
}

// Of rows as the file has them, those of the model. A head has `head_bytes` in each.
void order_columns(const TiledHeads& t, int64_t rows, size_t head_bytes, void* values) {
  std::vector<uint8_t> stored(head_bytes * size_t(t.heads));
  auto* at = static_cast<uint8_t*>(values);
  for (int64_t row = 0; row < rows; ++row, at += stored.size()) {
    std::memcpy(stored.data(), at, stored.size());
    for (int64_t head = 0; head < t.heads; ++head)
      std::memcpy(at + size_t(head) * head_bytes, &stored[size_t(t.in_file(head * t.width) / t.width) * head_bytes],
                  head_bytes);
  }
}

FileError not_finite(const std::string& path, const std::string& name) {
  return FileError(path, name + " holds values that are not finite numbers");
}

}  // namespace

int64_t TiledHeads::in_file(int64_t index) const {
  if (index < first) return index;
  const int64_t head = (index - first) / width, each = heads / groups;
  return first + (head % each * groups + head / each) * width + (index - first) % width;
}

WeightFiles::WeightFiles(const std::vector<StoredTensor>& list, const model::ModelSpec& spec) {
  std::unordered_map<std::string, model::TensorShape> wanted;
  for (auto& shape : model::weight_tensors(spec)) wanted.emplace(shape.name, shape);
  for (size_t i = 0; i < list.size(); ++i) {
    const StoredTensor& stored = list[i];
    const auto unusable = [&](const std::string& problem) { throw UnusableTensor{int64_t(i), problem}; };
    const auto shape = wanted.find(stored.name);
    if (shape == wanted.end()) unusable("names \"" + stored.name + "\", which this decoder does not have");
    const std::string& name = shape->second.name;
    const int64_t rows = shape->second.rows, cols = shape->second.cols;
    Tensor tensor{stored.file,        nullptr,      stored.offset,      cols ? rows : 1,
                  cols ? cols : rows, Type::f32,    spec.format,        stored.interleaved_heads,
                  std::nullopt,       std::nullopt, stored.negated_exp, std::nullopt,
                  stored.strides,     stored.apart, stored.bytes};
    if (stored.type == "BF16")
      tensor.type = Type::bf16;
    else if (stored.type == "F16")
      tensor.type = Type::f16;
    else if (const auto* known = model::quantized_format(stored.type); known && cols)
      tensor.type = Type::quantized, tensor.format = known->format;
    else if (stored.type != "F32")
      unusable("has dtype \"" + stored.type + "\"; F32, BF16, F16, or of a matrix Q8_0 and the like can be read");
    if (stored.shape != shape->second.dimensions())
      unusable("(" + name + ") has another shape than the configuration asks for");
    if (tensor.type == Type::quantized && cols % model::quantized_format(tensor.format).numbers != 0)
      unusable("(" + name + ") has rows that are not whole blocks of " + stored.type);
    const model::TensorFormat kept = spec.format_of(name);
    const bool is_stored = tensor.type == Type::quantized && tensor.format == kept;
    if (model::is_quantized(kept) && !is_stored && !quantization::can_quantize(kept))
      unusable("(" + name + ") is not stored as " + std::string(model::quantized_format(kept).name) +
               ", which is read only, and not made");
    if (stored.interleaved_heads < 0 || (stored.interleaved_heads && rows % (2 * stored.interleaved_heads) != 0))
      unusable("(" + name + ") has rows that are not those of so many interleaved heads");
    if (const auto& tiled = stored.tiled_heads) {
      if (const auto problem = problem_of(*tiled, shape->second); !problem.empty())
        unusable("(" + name + ") " + problem);
      if (stored.interleaved_heads) unusable("(" + name + ") has heads that are both tiled and interleaved");
      (cols && !tiled->columns ? tensor.tiled_rows : tensor.tiled_columns) = tiled;
      if (is_stored && tiled->columns && tiled->width % model::quantized_format(kept).numbers != 0)
        unusable("(" + name + ") has blocks of " + stored.type + " with parts of several heads, which cannot be kept");
    }
    if (stored.negated_exp && cols) unusable("(" + name + ") is a matrix, and not stored as exponentials");
    if (stored.packed.has_value() != (tensor.type == Type::quantized && model::is_integer(tensor.format)))
      unusable("(" + name + ") must be packed if its format is one of integers, and only then");
    if (stored.packed) {
      const auto& [packing, group, scales, zeros] = *stored.packed;
      const TensorPart codes{stored.file, "I32", stored.offset, stored.bytes, nullptr};
      tensor.packed = PackedMatrix{tensor.format, packing, rows, cols, group, codes, scales, zeros};
      if (const auto problem = tensor.packed->problem(); !problem.empty()) unusable("(" + name + ") " + problem);
      if (stored.interleaved_heads || stored.tiled_heads)
        unusable("(" + name + ") is packed, and has no interleaved or tiled heads");
    } else if (const auto& apart = stored.apart) {
      const int64_t code_bytes = cols / 2, scale_bytes = cols / 32, most = int64_t(1) << 32;
      if (tensor.type != Type::quantized || !model::quantized_format(tensor.format).looked_up)
        unusable("(" + name + ") has scales apart, which only MXFP4 has");
      if (stored.interleaved_heads || stored.tiled_heads || stored.strides)
        unusable("(" + name + ") has scales apart, and must be in the model's order");
      if (apart->scales.type != "U8") unusable("(" + name + ") has scales that are no U8");
      if (apart->first < 0 || apart->step < 1 || apart->first > most || apart->step > most ||
          stored.bytes % code_bytes != 0 || apart->scales.bytes != stored.bytes / code_bytes * scale_bytes ||
          apart->first + (rows - 1) * apart->step >= stored.bytes / code_bytes)
        unusable("(" + name + ") has rows that leave its codes, or other scales than these");
    } else if (const auto& strides = stored.strides) {
      if (tensor.type == Type::quantized || stored.interleaved_heads || stored.tiled_heads)
        unusable("(" + name + ") has strides, which only floats in the model's order have");
      const int64_t width = tensor.type == Type::f32 ? 4 : 2, most = int64_t(1) << 40;
      if (std::min({strides->first, strides->row, strides->column}) < 0 ||
          std::max({strides->first, strides->row, strides->column}) > most || stored.bytes % width != 0 ||
          stored.bytes > kMostRegionBytes ||
          double(strides->first) + double(tensor.rows - 1) * double(strides->row) +
                  double(tensor.cols - 1) * double(strides->column) >=
              double(stored.bytes / width))
        unusable("(" + name + ") has strides that leave its bytes, or more of these than are read together");
    } else if (stored.bytes != tensor.rows * tensor.row_bytes())
      unusable("(" + name + ") has a number of bytes that does not fit its shape");
    if (!tensors_.emplace(name, std::move(tensor)).second) unusable("names \"" + name + "\" a second time");
  }
  for (auto& [name, shape] : wanted)
    if (!tensors_.count(name)) throw UnusableTensor{-1, "lacks \"" + name + "\""};
}

void WeightFiles::open() {
  std::unordered_map<std::string, std::shared_ptr<ReadOnlyFile>> files;
  const auto opened = [&](const std::string& path) {
    auto& file = files[path];
    if (!file) file = std::make_shared<ReadOnlyFile>(path);
    return file;
  };
  for (auto& [name, tensor] : tensors_) {
    tensor.file = opened(tensor.path);
    if (tensor.packed)
      for (TensorPart* part : {&tensor.packed->codes, &tensor.packed->scales, &tensor.packed->zeros})
        if (!part->path.empty()) part->file = opened(part->path);
    if (tensor.apart) tensor.apart->scales.file = opened(tensor.apart->scales.path);
  }
}

int64_t WeightFiles::Tensor::row_bytes() const {
  return type == Type::quantized ? quantization::row_bytes(format, cols) : cols * (type == Type::f32 ? 4 : 2);
}

const WeightFiles::Tensor& WeightFiles::tensor(const std::string& name, int64_t row0, int64_t rows) const {
  const auto found = tensors_.find(name);
  if (found == tensors_.end()) throw std::runtime_error("no tensor named " + name);
  if (row0 < 0 || rows < 0 || row0 + rows > found->second.rows) throw std::runtime_error(name + ": rows out of range");
  return found->second;
}

template <class F> void WeightFiles::each_run(const Tensor& tensor, int64_t row0, int64_t rows, F&& f) {
  if (const auto& tiled = tensor.tiled_rows) {
    for (int64_t row = row0, end = row0 + rows; row < end;) {
      const int64_t left = row < tiled->first ? tiled->first - row : tiled->width - (row - tiled->first) % tiled->width;
      const int64_t count = std::min(left, end - row);
      f(tiled->in_file(row), count, row - row0);
      row += count;
    }
    return;
  }
  if (!tensor.interleaved_heads || tensor.rows == 1) return f(row0, rows, 0);
  const int64_t head = tensor.rows / tensor.interleaved_heads;
  for (int64_t row = row0; row < row0 + rows; ++row) {
    const int64_t within = row % head, half = head / 2;
    f(row - within + (within < half ? 2 * within : 2 * (within - half) + 1), 1, row - row0);
  }
}

std::shared_ptr<const std::vector<uint8_t>> WeightFiles::region_of(const Tensor& tensor) const {
  Region& last = *region_;
  const std::lock_guard lock(last.lock);
  if (!last.bytes || last.path != tensor.path || last.offset != tensor.offset ||
      int64_t(last.bytes->size()) != tensor.bytes) {
    last.bytes.reset();
    auto bytes = std::make_shared<std::vector<uint8_t>>(size_t(tensor.bytes));
    tensor.file->read(tensor.offset, bytes->data(), bytes->size());
    last.path = tensor.path, last.offset = tensor.offset, last.bytes = std::move(bytes);
  }
  return last.bytes;
}

template <class T> void WeightFiles::gather(const Tensor& from, int64_t row0, int64_t rows, T* dst) const {
  const auto region = region_of(from);
  const auto [first, row_step, column_step] = *from.strides;
  // Neighbours in memory are read together.
  for (int64_t column = 0; column < from.cols; ++column)
    for (int64_t row = 0; row < rows; ++row)
      std::memcpy(dst + row * from.cols + column,
                  region->data() + size_t(first + (row0 + row) * row_step + column * column_step) * sizeof(T),
                  sizeof(T));
}

void WeightFiles::read(const std::string& name, int64_t row0, int64_t rows, float* dst) const {
  const Tensor& from = tensor(name, row0, rows);
  if (from.strides) {
    const int64_t n = rows * from.cols;
    if (from.type == Type::f32)
      gather(from, row0, rows, dst);
    else {
      std::vector<uint16_t> words(static_cast<size_t>(n));
      gather(from, row0, rows, words.data());
      for (int64_t i = 0; i < n; ++i)
        dst[i] = from.type == Type::bf16 ? widen_bf16(words[size_t(i)]) : quantization::widen_half(words[size_t(i)]);
    }
    if (!all_finite(dst, n)) throw not_finite(from.path, name);
  } else if (from.type == Type::quantized) {
    const int64_t bytes = from.row_bytes();
    std::vector<uint8_t> stored(size_t(rows * bytes));
    stored_blocks(from, name, row0, rows, stored.data());
    for (int64_t i = 0; i < rows; ++i)
      quantization::dequantize_row(from.format, &stored[size_t(i * bytes)], from.cols, dst + i * from.cols);
  } else
    each_run(from, row0, rows, [&](int64_t first, int64_t count, int64_t at) {
      read_floats(from, name, first, count, dst + at * from.cols);
    });
  if (const auto& tiled = from.tiled_columns) order_columns(*tiled, rows, size_t(tiled->width) * sizeof(float), dst);
  if (from.interleaved_heads && from.rows == 1) {  // a bias
    const int64_t head = from.cols / from.interleaved_heads, half = head / 2;
    std::vector<float> values(dst, dst + from.cols);
    for (int64_t i = 0; i < from.cols; ++i) {
      const int64_t within = i % head;
      dst[i] = values[size_t(i - within + (within < half ? 2 * within : 2 * (within - half) + 1))];
    }
  }
  if (from.negated_exp)
    for (float* x = dst; x < dst + rows * from.cols; ++x) {
      if (!(*x < 0)) throw FileError(from.path, name + " holds values that are not below zero");
      *x = float(std::log(-double(*x)));
    }
}

model::TensorFormat WeightFiles::stored(const std::string& name) const {
  const Tensor& from = tensor(name, 0, 0);
  if (from.type == Type::quantized) return from.format;
  return from.type == Type::bf16 ? model::TensorFormat::bf16 : model::TensorFormat::f32;
}

void WeightFiles::blocks(const std::string& name, int64_t row0, int64_t rows, uint8_t* dst) const {
  const Tensor& from = tensor(name, row0, rows);
  stored_blocks(from, name, row0, rows, dst);
  if (const auto& tiled = from.tiled_columns) order_columns(*tiled, rows, size_t(from.row_bytes() / tiled->heads), dst);
}

void WeightFiles::apart_blocks(const Tensor& from, int64_t row0, int64_t rows, uint8_t* dst) {
  const StoredTensor::Apart& apart = *from.apart;
  const int64_t code_bytes = from.cols / 2, scale_bytes = from.cols / 32, first = apart.first + row0 * apart.step,
                span = (rows - 1) * apart.step + 1;
  std::vector<uint8_t> codes(size_t(span * code_bytes)), scales(size_t(span * scale_bytes));
  from.file->read(from.offset + first * code_bytes, codes.data(), codes.size());
  apart.scales.file->read(apart.scales.offset + first * scale_bytes, scales.data(), scales.size());
  for (int64_t row = 0; row < rows; ++row) {
    const uint8_t *of_row = &codes[size_t(row * apart.step * code_bytes)],
                  *scale = &scales[size_t(row * apart.step * scale_bytes)];
    for (int64_t block = 0; block < scale_bytes; ++block, of_row += 16) {
      *dst++ = *scale++;
      // A block has numbers half of it apart in a byte.
      for (int i = 0; i < 16; ++i) {
        const int low = of_row[i / 2] >> (i % 2 * 4) & 15, high = of_row[8 + i / 2] >> (i % 2 * 4) & 15;
        *dst++ = uint8_t(low | high << 4);
      }
    }
  }
}

void WeightFiles::stored_blocks(const Tensor& from, const std::string& name, int64_t row0, int64_t rows,
                                uint8_t* dst) const {
  const int64_t bytes = from.row_bytes();
  if (from.packed)
    from.packed->blocks(row0, rows, dst);
  else if (from.apart)
    apart_blocks(from, row0, rows, dst);
  else if (from.strides)
    gather(from, row0, rows, reinterpret_cast<uint16_t*>(dst));
  else
    each_run(from, row0, rows, [&](int64_t first, int64_t count, int64_t at) {
      from.file->read(from.offset + first * bytes, dst + at * bytes, size_t(count * bytes));
    });
  if (from.type == Type::bf16) {
    if (!flush_finite(reinterpret_cast<uint16_t*>(dst), rows * from.cols)) throw not_finite(from.path, name);
    return;
  }
  for (int64_t i = 0; i < rows; ++i)
    if (!quantization::finite_scales(from.format, dst + i * bytes, from.cols))
      throw FileError(from.path, name + " has scales that are not finite numbers");
}

void WeightFiles::read_floats(const Tensor& tensor, const std::string& name, int64_t row0, int64_t rows, float* dst) {
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
      for (int64_t i = 0; i < n; ++i) dst[i] = quantization::widen_half(staging[size_t(i)]);
    if (!all_finite(dst, n)) throw not_finite(tensor.path, name);
    at += n, dst += n;
  }
}

}  // namespace anneal::weights
