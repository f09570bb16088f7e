#include "packed_matrix.h"

#include <cstring>
#include <vector>

#include "../quantization/blocks.h"

namespace anneal::weights {

namespace {

using Words = std::vector<uint32_t>;

// Where a code stands in its word.
constexpr int kAwqPlaces[8] = {0, 4, 1, 5, 2, 6, 3, 7};

struct Codes {
  int bits;
  bool is_interleaved;  // as AWQ's
  int per_word() const { return 32 / bits; }
  uint8_t of(uint32_t word, int i) const {
    return uint8_t(word >> ((is_interleaved ? kAwqPlaces[i] : i) * bits) & ((1u << bits) - 1));
  }
};

void read(const TensorPart& part, int64_t at, void* to, int64_t bytes) {
  part.file->read(part.offset + at, to, size_t(bytes));
}

// to[i * stride] = code first + i of a line, for i < count. What is added to every word is added before it is cut.
void read_codes(const TensorPart& part, const Codes& codes, int64_t line, int64_t first, int64_t count, uint32_t added,
                Words& words, uint8_t* to, int64_t stride) {
  const int per = codes.per_word();
  const int64_t from = first / per, end = (first + count + per - 1) / per;
  words.resize(size_t(end - from));
  read(part, (line + from) * 4, words.data(), (end - from) * 4);
  for (int64_t i = 0; i < count; i++) {
    const int64_t at = first + i;
    to[i * stride] = codes.of(words[size_t(at / per - from)] + added, int(at % per));
  }
}

float widened(const std::string& type, const uint8_t* at) {
  uint32_t wide = 0;
  if (type == "F16") {
    uint16_t half;
    std::memcpy(&half, at, 2);
    return quantization::widen_half(half);
  }
  if (type == "BF16")
    std::memcpy(reinterpret_cast<uint8_t*>(&wide) + 2, at, 2);
  else
    std::memcpy(&wide, at, 4);
  float value;
  std::memcpy(&value, &wide, 4);
  return value;
}

int width_of(const std::string& type) { return type == "F32" ? 4 : 2; }

}  // namespace

std::string PackedMatrix::problem() const {
  const model::QuantizedFormat& f = model::quantized_format(format);
  const int bits = f.bits, per = 32 / bits;
  const bool along_rows = packing == Packing::compressed_tensors;
  if (group <= 0 || group % f.group != 0 || k % group != 0) return "has rows that are not whole groups";
  if (packing == Packing::awq && bits != 4) return "has codes that AWQ does not have";
  if (!along_rows && n % per != 0) return "has a number of rows that does not fill words of codes";
  if (codes.type != "I32" || codes.bytes != n * k / per * 4) return "has codes that do not fit its shape";
  if (scales.type != "F32" && scales.type != "F16" && scales.type != "BF16") return "has scales that are no floats";
  if (scales.bytes != n * (k / group) * width_of(scales.type)) return "has scales that do not fit its shape";
  if (zeros.path.empty()) return along_rows ? "" : "lacks zero points";
  const bool as_bytes = along_rows && zeros.type == "I8";
  if (!as_bytes && zeros.type != "I32") return "has zero points that are no integers";
  const int64_t bytes = as_bytes ? n : (n + per - 1) / per * 4;
  if (zeros.bytes != bytes * (k / group)) return "has zero points that do not fit its shape";
  return "";
}

void PackedMatrix::blocks(int64_t row0, int64_t rows, uint8_t* to) const {
  const int64_t groups = k / group;
  const model::QuantizedFormat& f = model::quantized_format(format);
  const int bits = f.bits;
  const Codes plain{bits, false}, own{bits, packing == Packing::awq};
  const int per = plain.per_word();
  std::vector<uint8_t> all(size_t(rows) * k), zero(size_t(rows) * groups, uint8_t(1 << (bits - 1)));  // [rows][...]
  std::vector<uint8_t> raw;
  std::vector<float> scale(size_t(rows) * groups);
  Words words;
  const int width = width_of(scales.type);

  if (packing == Packing::compressed_tensors) {
    read_codes(codes, plain, 0, row0 * k, rows * k, 0, words, all.data(), 1);
    raw.resize(size_t(rows * groups) * width);
    read(scales, row0 * groups * width, raw.data(), int64_t(raw.size()));
    for (int64_t i = 0; i < rows * groups; i++) scale[size_t(i)] = widened(scales.type, &raw[size_t(i) * width]);
    if (zeros.type == "I8") {
      read(zeros, row0 * groups, zero.data(), rows * groups);
      for (uint8_t& z : zero) z = uint8_t(z + (1 << (bits - 1)));
    } else if (!zeros.path.empty()) {
      const int64_t from = row0 / per, end = (row0 + rows + per - 1) / per;
      words.resize(size_t((end - from) * groups));
      read(zeros, from * groups * 4, words.data(), int64_t(words.size()) * 4);
      for (int64_t r = 0; r < rows; r++)
        for (int64_t g = 0; g < groups; g++) {
          const int64_t row = row0 + r;
          zero[size_t(r * groups + g)] = plain.of(words[size_t((row / per - from) * groups + g)], int(row % per));
        }
    }
  } else {
    if (packing == Packing::awq) {
      for (int64_t i = 0; i < k; i++) read_codes(codes, own, i * (n / per), row0, rows, 0, words, &all[size_t(i)], k);
    } else {
      words.resize(size_t(rows));
      for (int64_t i = 0; i < k; i += per) {
        read(codes, (i / per * n + row0) * 4, words.data(), rows * 4);
        for (int64_t r = 0; r < rows; r++)
          for (int c = 0; c < per; c++) all[size_t(r * k + i + c)] = plain.of(words[size_t(r)], c);
      }
    }
    raw.resize(size_t(rows) * width);
    // A 1 in each code.
    const uint32_t added = packing == Packing::gptq ? UINT32_MAX / ((1u << bits) - 1) : 0;
    for (int64_t g = 0; g < groups; g++) {
      read(scales, (g * n + row0) * width, raw.data(), rows * width);
      for (int64_t r = 0; r < rows; r++) scale[size_t(r * groups + g)] = widened(scales.type, &raw[size_t(r) * width]);
      read_codes(zeros, own, g * (n / per), row0, rows, added, words, &zero[size_t(g)], groups);
    }
  }

  quantization::Block block{};
  for (int64_t r = 0; r < rows; r++)
    for (int64_t i = 0; i < k; i += f.numbers, to += f.bytes) {
      std::memcpy(block.codes, &all[size_t(r * k + i)], size_t(f.numbers));
      block.scale = scale[size_t(r * groups + i / group)], block.zero = zero[size_t(r * groups + i / group)];
      quantization::put_together(format, block, to);
    }
}

}  // namespace anneal::weights
